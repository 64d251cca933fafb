"""From a manifest to the inputs of the protocol's roles, and to the deadlines of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedvalue.agreement.manifest import Manifest
from fedvalue.identity.cards import Identity
from fedvalue.protocol.privacy import Privacy
from fedvalue.protocol.settings import (
    ASSIST,
    Adversarial,
    Align,
    ColumnView,
    Gates,
    Policy,
    ProtocolName,
    RunTerms,
)

if TYPE_CHECKING:
    from fedvalue.protocol.keyring import Credentials


def terms_of(manifest: Manifest) -> RunTerms:
    """The protocol's terms of the run that the manifest authorises."""
    gates = Gates(
        min_samples=manifest.min_samples,
        min_rows_per_code=manifest.min_rows_per_code,
        min_cell=manifest.min_cell,
    )
    assisting = manifest.of_role("assist")  # under `gram` alone
    return RunTerms(
        run_id=manifest.run_id,
        protocol=ProtocolName(manifest.protocol),
        task=manifest.task.name,
        parties=tuple(party.name for party in manifest.data),
        max_samples=manifest.n_samples,
        align=Align(manifest.align),
        columns=ColumnView(manifest.settings.columns),
        gates=None if manifest.research else gates,
        compute=manifest.compute.name,
        validate=manifest.validate.name,
        assist=assisting[0].name if assisting else ASSIST,
        policy=Policy(manifest.policy),
        q=manifest.q,
        n_r=Adversarial.parse(manifest.n_r),
        h1=manifest.harden,
        h2=manifest.harden,
        h3=manifest.harden,
        by_coalition=manifest.protocol == "paper" and manifest.harden and manifest.by_coalition,
        chunk_bytes=manifest.chunk_bytes,
        epsilon=manifest.epsilon,
        grid=manifest.grid,
        full_shares=manifest.shares == "full",
        exact_tables=manifest.exact_tables,
    )


def pins_of(manifest: Manifest) -> dict[str, bytes]:
    """The Ed25519 public key of every participant."""
    return {participant.name: participant.sign_key for participant in manifest.participants}


def privacy_of(manifest: Manifest, n_samples: int, n_columns: int) -> Privacy | None:
    """The privacy promise for these numbers of samples and columns; None for exact values."""
    return None if manifest.epsilon is None else terms_of(manifest).promise(n_samples, n_columns)


def credentials_of(
    manifest: Manifest, identity: Identity, seed: bytes, psk: bytes | None = None
) -> Credentials:
    """The keys of one role: its signing key, everybody's pinned public keys, its secret seed."""
    from fedvalue.protocol.keyring import Credentials  # loads NumPy and the compiler

    return Credentials(
        seed=seed, signing_key=identity.signing.private_bytes_raw(), pins=pins_of(manifest), psk=psk
    )


def server_limit(manifest: Manifest, role: str, stage: str) -> int:
    """Seconds that a stage may take at a server of this role."""
    limits = manifest.deadlines
    if stage in ("open", "keying"):
        # Parties come to the computation server first, which has two stages until everybody is ready. It ends
        # the run before the other servers do, so that exactly the missing participants are named.
        return limits.keying * (1 if role == "compute" else 3)
    if stage == "uploading":
        # The other servers wait for uploads while the parties still agree on keys.
        return limits.upload + (0 if role == "compute" else limits.keying)
    # Comparing: the server that finishes first waits for the other's computation.
    return limits.compute


def party_limit(manifest: Manifest) -> int:
    """Seconds after which a party gives up on a run: the sum of its servers' limits."""
    limits = manifest.deadlines
    return limits.keying * 2 + limits.upload + limits.compute * 2
