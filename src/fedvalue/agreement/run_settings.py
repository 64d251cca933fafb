"""From a manifest and the parties' Ready messages to what the protocol's roles need.

The manifest fixes everything that people agree on; the sizes of the code ranges are known only
when each party has read its table, so they come signed in the Ready messages and pass the gates
of the manifest here, at every participant, with the same outcome.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from fedvalue.deployment.shell.messages import Ready, check_ready
from fedvalue.errors import VerificationError

if TYPE_CHECKING:
    from fedvalue.agreement.manifest import Manifest
    from fedvalue.identity.cards import Identity
    from fedvalue.protocol.keyring import Credentials
    from fedvalue.protocol.privacy import Privacy
    from fedvalue.protocol.settings import Settings


def check_rows(manifest: Manifest, party: str, brought: int) -> None:
    """Whether a party brings the number of rows that was agreed, before any reduction.

    Raises:
        VerificationError: E_POPULATION.
    """
    if manifest.align == "equal" and brought != manifest.n_samples:
        raise VerificationError(
            f"party {party!r} has {brought} rows, the manifest says {manifest.n_samples}", code="E_POPULATION"
        )
    if brought > manifest.n_samples:
        raise VerificationError(
            f"party {party!r} has {brought} rows, the manifest allows {manifest.n_samples}",
            code="E_POPULATION",
        )


def check_gates(manifest: Manifest, party: str, rows: int, sizes: tuple[int, ...]) -> None:
    """Whether a party's table may take part.

    Raises:
        VerificationError: E_GATE: fewer samples or more codes than the manifest allows.
    """
    if manifest.research:
        return
    if rows < manifest.min_samples:
        raise VerificationError(
            f"party {party!r} has {rows} rows, the gate is {manifest.min_samples}", code="E_GATE"
        )
    most = rows // manifest.min_rows_per_code
    for size in sizes:
        if size > most:
            raise VerificationError(
                f"party {party!r} has {size} distinct codes; with {rows} rows the gate is {most}: "
                "use fewer features or bins",
                code="E_GATE",
            )


def check_cells(manifest: Manifest, task: Iterable[int], label: Iterable[int]) -> None:
    """Whether no label and no code of X_t singles out a few samples.

    A label that is 1 for one person would turn that party's exact value into an answer about this
    person. Where there is noise the refusal itself would be such an answer, so nothing is refused.

    Args:
        manifest: What was agreed.
        task: Number of samples of each code of X_t; codes without samples are none.
        label: The same of Y.

    Raises:
        VerificationError: E_GATE.
    """
    if manifest.research or manifest.epsilon is not None:
        return
    for what, counts in (("label", label), ("combination of the task party's features", task)):
        if any(0 < count < manifest.min_cell for count in counts):
            raise VerificationError(
                f"a {what} has fewer than {manifest.min_cell} samples: merge rare classes, or use fewer "
                'features or bins, or binning = "quantile"',
                code="E_GATE",
            )


def check_roster(manifest: Manifest, readies: Mapping[str, Ready]) -> None:
    """Whether these are the signed Readies of all parties, and pass the gates.

    Raises:
        VerificationError: E_SIGNATURE, E_SENDER, E_POPULATION or E_GATE.
    """
    expected = {manifest.task.name, *(party.name for party in manifest.data)}
    if set(readies) != expected:
        raise VerificationError("the roster does not hold every party exactly once", code="E_SENDER")
    for name, ready in readies.items():
        participant = manifest.participant(name)
        check_ready(ready, manifest.run_id, sign_key=participant.sign_key, name=name)
        if len(ready.sizes) != (2 if participant.role == "task" else 1):
            raise VerificationError(f"party {name!r} declares the wrong number of sizes", code="E_GATE")
        check_rows(manifest, name, ready.brought)
        if ready.rows != readies[manifest.task.name].rows or ready.rows > ready.brought:
            raise VerificationError(f"party {name!r} has another number of rows", code="E_POPULATION")
        if manifest.align == "equal" and ready.rows != ready.brought:
            raise VerificationError(f"party {name!r} left out rows", code="E_POPULATION")
        check_gates(manifest, name, ready.rows, ready.sizes)


def settings_of(manifest: Manifest, readies: Mapping[str, Ready]) -> Settings:
    """The protocol's settings of this run. Call `check_roster` first."""
    from fedvalue.protocol.settings import Adversarial, Policy, ProtocolName, Settings

    task = readies[manifest.task.name]
    return Settings(
        run_id=manifest.run_id,
        protocol=ProtocolName(manifest.protocol),
        task=manifest.task.name,
        parties=tuple(party.name for party in manifest.data),
        n_samples=task.rows,
        n_task_codes=task.sizes[0],
        n_label_codes=task.sizes[1],
        n_codes=tuple(readies[party.name].sizes[0] for party in manifest.data),
        policy=Policy(manifest.policy),
        q=manifest.q,
        n_r=Adversarial.parse(manifest.n_r, task.rows),
        h1=manifest.harden,
        h2=manifest.harden,
        h3=manifest.harden,
        compute=manifest.compute.name,
        validate=manifest.validate.name,
        chunk_bytes=manifest.chunk_bytes,
        epsilon=manifest.epsilon,
    )


def privacy_of(manifest: Manifest, n_samples: int) -> Privacy | None:
    """What this agreement promises for so many samples; None when it asks for exact values."""
    from fedvalue.protocol.privacy import Privacy, parse_epsilon

    if manifest.epsilon is None:
        return None
    return Privacy(parse_epsilon(manifest.epsilon), n_samples, len(manifest.data))


def credentials_of(
    manifest: Manifest, identity: Identity, seed: bytes, psk: bytes | None = None
) -> Credentials:
    """The keys of one role: its own signing key, everybody's pinned public key, its secret seed."""
    from fedvalue.protocol.keyring import Credentials

    return Credentials(
        seed=seed,
        signing_key=identity.signing.private_bytes_raw(),
        pins={one.name: one.sign_key for one in manifest.participants},
        psk=psk,
    )
