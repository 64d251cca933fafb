"""Before anything is uploaded: every party states what it brings, signed, and everybody checks it.

The terms fix what people agree on; the sizes of the code ranges are known only when each party has
read its table. So they come signed in the Ready messages, and pass the gates at every participant
with the same outcome.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import sha256

import msgspec

from fedvalue.crypto import keys
from fedvalue.errors import VerificationError
from fedvalue.protocol import messages as m
from fedvalue.protocol.keyring import Credentials
from fedvalue.protocol.samples import Samples
from fedvalue.protocol.settings import Align, Gates, RunTerms, Settings


def make_ready(
    terms: RunTerms, party: str, samples: Samples, *, brought: int, credentials: Credentials
) -> m.Ready:
    """A party's signed statement.

    Args:
        terms: What was agreed.
        party: The party.
        samples: Its rows in the run.
        brought: Its number of rows before they were reduced to the common ids.
        credentials: Its keys. The seed salts the commitment, so that nobody can guess a small table from it.
    """
    commitment = sha256(b"fedvalue/1/commitment" + credentials.seed + samples.digest).digest()
    draft = m.Ready(party, samples.n_samples, brought, samples.sizes, commitment, bytes(64))
    signature = keys.sign(credentials.signing_key, "ready", terms.run_id, draft.signed())
    return msgspec.structs.replace(draft, signature=signature)


def check_ready(terms: RunTerms, ready: m.Ready, party: str, pin: bytes) -> None:
    """Whether `party` signed this, and its table may take part.

    Raises:
        VerificationError: E_SENDER, E_SIGNATURE, E_POPULATION or E_GATE.
    """
    if ready.party != party:
        raise VerificationError(f"{party!r} sent the Ready of {ready.party!r}", code="E_SENDER")
    keys.check_signature(pin, ready.signature, "ready", terms.run_id, ready.signed())
    if len(ready.sizes) != (2 if party == terms.task else 1):
        raise VerificationError(f"party {party!r} declares the wrong number of sizes", code="E_GATE")
    check_rows(terms, party, ready.brought)
    if ready.rows > ready.brought or (terms.align is Align.EQUAL and ready.rows != ready.brought):
        raise VerificationError(f"party {party!r} left out rows", code="E_POPULATION")
    check_gates(terms.gates, party, ready.rows, ready.sizes)


def check_roster(terms: RunTerms, readies: Mapping[str, m.Ready], pins: Mapping[str, bytes]) -> None:
    """Whether these are the signed Readies of all parties, of equally many rows, within the gates.

    Raises:
        VerificationError: E_SENDER, E_SIGNATURE, E_POPULATION or E_GATE.
    """
    if set(readies) != set(terms.everybody):
        raise VerificationError("the roster does not hold every party exactly once", code="E_SENDER")
    for name, ready in readies.items():
        check_ready(terms, ready, name, pins[name])
    check_equal_rows(terms, readies)


def check_equal_rows(terms: RunTerms, readies: Mapping[str, m.Ready]) -> None:
    """Whether all parties have as many rows as the task party.

    Raises:
        VerificationError: E_POPULATION.
    """
    for name, ready in readies.items():
        if ready.rows != readies[terms.task].rows:
            raise VerificationError(f"party {name!r} has another number of rows", code="E_POPULATION")


def check_rows(terms: RunTerms, party: str, brought: int) -> None:
    """Whether a party brings as many rows as agreed, before any reduction.

    Raises:
        VerificationError: E_POPULATION.
    """
    if brought > terms.max_samples or (terms.align is Align.EQUAL and brought != terms.max_samples):
        verb = "asks for" if terms.align is Align.EQUAL else "allows"
        raise VerificationError(
            f"party {party!r} has {brought} rows, the agreement {verb} {terms.max_samples}",
            code="E_POPULATION",
        )


def check_gates(gates: Gates | None, party: str, rows: int, sizes: Iterable[int]) -> None:
    """Whether a party's table has enough samples and not too many codes.

    Raises:
        VerificationError: E_GATE.
    """
    if gates is None:
        return
    if rows < gates.min_samples:
        raise VerificationError(
            f"party {party!r} has {rows} rows, the gate is {gates.min_samples}", code="E_GATE"
        )
    most = rows // gates.min_rows_per_code
    for size in sizes:
        if size > most:
            raise VerificationError(
                f"party {party!r} has {size} distinct codes; with {rows} rows the gate is {most}: "
                "use fewer features or bins",
                code="E_GATE",
            )


def check_cells(terms: RunTerms, task: Iterable[int], label: Iterable[int]) -> None:
    """Whether no label and no code of X_t singles out a few samples.

    A label that is 1 for one person would turn that party's exact value into an answer about this
    person. With an epsilon the refusal itself would be such an answer, so nothing is refused.

    Args:
        terms: What was agreed.
        task: Number of samples of each code of X_t; codes without samples do not count.
        label: The same of Y.

    Raises:
        VerificationError: E_GATE.
    """
    if terms.gates is None or terms.epsilon is not None:
        return
    for what, counts in (("label", label), ("combination of the task party's features", task)):
        if any(0 < count < terms.gates.min_cell for count in counts):
            raise VerificationError(
                f"a {what} has fewer than {terms.gates.min_cell} samples: merge rare classes, or use fewer "
                'features or bins, or binning = "quantile"',
                code="E_GATE",
            )


def settings_of(terms: RunTerms, readies: Mapping[str, m.Ready]) -> Settings:
    """The settings of the run. Call `check_roster` first.

    Raises:
        InputError: A size out of range.
    """
    task = readies[terms.task]
    return terms.with_sizes(
        n_samples=task.rows,
        n_task_codes=task.sizes[0],
        n_label_codes=task.sizes[1],
        n_codes=tuple(readies[party].sizes[0] for party in terms.parties),
    )
