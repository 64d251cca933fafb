"""Before anything is uploaded, every party signs a statement of its table's sizes, and everybody checks it.

The sizes of the code ranges are known only when each party has read its table, so they are not in the terms
but in the signed Ready messages, and every party checks them against the gates with the same outcome. Under
`mirror` they are sealed for the parties: a server that knew the sizes of named parties could tell the owners
of unnamed columns by their sizes. It checks the gates on the unnamed columns instead (`mirror.counting`).
Under the other protocols servers need the sizes, and check the gates too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from fedvalue.crypto import keys
from fedvalue.errors import RemoteProtocolError, VerificationError
from fedvalue.protocol import messages as m
from fedvalue.protocol.codec import decode_as
from fedvalue.protocol.keyring import Credentials
from fedvalue.protocol.samples import Samples, feature_sizes
from fedvalue.protocol.settings import (
    MAX_CODES,
    MAX_FEATURES,
    Align,
    ColumnView,
    Gates,
    ProtocolName,
    RunTerms,
    Settings,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fedvalue.information.contingency import Codebook
    from fedvalue.typing import Counts

INTERSECT = "agree on terms with --align intersect, which keep the common ids"
"""The remedy of tables that do not hold the same ids."""

_RANGES = keys.info("ranges")
_ranges_decoder = msgspec.msgpack.Decoder(m.CodeRanges)


def make_ready(
    terms: RunTerms, party: str, samples: Samples, *, brought: int, credentials: Credentials, run_key: bytes
) -> m.Ready:
    """A party's signed statement.

    Args:
        terms: The agreed terms.
        party: The party.
        samples: Its rows in the run.
        brought: Its number of rows before they were reduced to the common ids.
        credentials: Its keys. The seed salts the commitment, so that nobody can guess a small table from it.
        run_key: K_run, under which the sizes are sealed.
    """
    commitment = sha256(b"fedvalue/1/commitment" + credentials.seed + samples.digest).digest()
    salt = keys.subkey(credentials.seed, terms.run_id, "ranges-salt", samples.digest, length=16)
    ranges = m.CodeRanges(samples.sizes, own_features(terms, party, samples), salt)
    draft = m.Ready(party, samples.n_samples, brought, ranges, ranges.digest, commitment, bytes(64))
    signature = keys.sign(credentials.signing_key, "ready", terms.run_id, draft.signed())
    shown = _sealed(terms, draft, ranges, run_key) if seals_ranges(terms) else ranges
    return msgspec.structs.replace(draft, ranges=shown, signature=signature)


def seals_ranges(terms: RunTerms) -> bool:
    """Whether the servers of this protocol must not learn how many codes each party has."""
    return terms.protocol is ProtocolName.MIRROR


def _sealed(terms: RunTerms, ready: m.Ready, ranges: m.CodeRanges, run_key: bytes) -> bytes:
    plain = keys.padded(msgspec.msgpack.encode(ranges), _longest_ranges(terms))
    return keys.seal(_ranges_key(terms, ready, run_key), plain, _RANGES)


def _longest_ranges(terms: RunTerms) -> int:
    """Bytes of the longest sizes that the terms allow. All are padded to it, or wide parties would show."""
    n_features = 0 if terms.columns is ColumnView.JOINT else MAX_FEATURES
    longest = m.CodeRanges((MAX_CODES,) * 2, (MAX_CODES,) * n_features, bytes(16))
    return len(msgspec.msgpack.encode(longest))


def _ranges_key(terms: RunTerms, ready: m.Ready, run_key: bytes) -> bytes:
    """Bound to the digest: no key seals two different statements."""
    return keys.subkey(run_key, terms.run_id, "ranges", ready.party, ready.ranges_digest)


def opened_ready(terms: RunTerms, ready: m.Ready, run_key: bytes) -> m.Ready:
    """A Ready with its sizes open, at a party.

    Raises:
        VerificationError: It does not open (E_SEAL). The error names the party: every party sees the same,
            and the first to report it must not look guilty.
        RemoteProtocolError: It is not sealed, or holds no sizes (E_MALFORMED).
    """
    if not seals_ranges(terms):
        return ready
    if isinstance(ready.ranges, m.CodeRanges):
        raise RemoteProtocolError(f"the sizes of {ready.party!r} are not sealed", code="E_MALFORMED")
    what = f"the sealed statement of {ready.party!r}"
    plain = keys.unseal(_ranges_key(terms, ready, run_key), ready.ranges, _RANGES, what=what)
    ranges = decode_as(_ranges_decoder, keys.unpadded(plain, what=what), what=what)
    return msgspec.structs.replace(ready, ranges=ranges)


def ranges_of(ready: m.Ready) -> m.CodeRanges:
    """The code ranges of an open Ready.

    Raises:
        RemoteProtocolError: It is sealed (E_MALFORMED).
    """
    if not isinstance(ready.ranges, m.CodeRanges):
        raise RemoteProtocolError(f"the sizes of {ready.party!r} are sealed", code="E_MALFORMED")
    return ready.ranges


def own_features(terms: RunTerms, party: str, samples: Samples) -> tuple[int, ...]:
    """Sizes of the code ranges of a party's features, those of X_t for the task party.

    A task party without features has one code of X_t, which is no feature.
    """
    if terms.columns is ColumnView.JOINT:
        return ()
    if party == terms.task and samples.codebooks[0] is None and samples.sizes[0] == 1:
        return ()
    return feature_sizes(samples.codebooks[0], samples.sizes[0])


def gated_sizes(terms: RunTerms, party: str, sizes: Sequence[int], features: Sequence[int]) -> list[int]:
    """The code ranges to which the gate on rows per code applies: with columns `features`, the features'."""
    if terms.columns is ColumnView.JOINT:
        return list(sizes)
    return [*features, *(sizes[1:] if party == terms.task else ())]


def check_ready(terms: RunTerms, ready: m.Ready, party: str, pin: bytes) -> None:
    """Check that `party` signed this and that its table may take part, as far as the sizes are open.

    Raises:
        VerificationError: E_SENDER, E_SIGNATURE, E_POPULATION or E_GATE.
    """
    if ready.party != party:
        raise VerificationError(f"{party!r} sent the Ready of {ready.party!r}", code="E_SENDER")
    keys.check_signature(pin, ready.signature, "ready", terms.run_id, ready.signed())
    check_rows(terms, party, ready.brought)
    if ready.rows > ready.brought or (terms.align is Align.EQUAL and ready.rows != ready.brought):
        raise VerificationError(f"party {party!r} left out rows", code="E_POPULATION")
    check_min_samples(terms.gates, f"party {party!r}", ready.rows)
    if isinstance(ready.ranges, m.CodeRanges):
        _check_ranges(terms, ready, ready.ranges)


def _check_ranges(terms: RunTerms, ready: m.Ready, ranges: m.CodeRanges) -> None:
    party = ready.party
    if ranges.digest != ready.ranges_digest:
        raise VerificationError(f"party {party!r} shows different sizes than it signed", code="E_SIGNATURE")
    if len(ranges.sizes) != (2 if party == terms.task else 1):
        raise VerificationError(f"party {party!r} declares the wrong number of sizes", code="E_GATE")
    if terms.columns is ColumnView.JOINT and ranges.features:
        raise VerificationError(f"party {party!r} declares features, which were not agreed", code="E_GATE")
    sizes = gated_sizes(terms, party, ranges.sizes, ranges.features)
    check_code_gate(terms.gates, f"party {party!r}", ready.rows, sizes)


def check_roster(terms: RunTerms, readies: Mapping[str, m.Ready], pins: Mapping[str, bytes]) -> None:
    """Check that all parties' Readies are signed and open, have equal numbers of rows, and pass the gates.

    Raises:
        RemoteProtocolError: One is sealed (E_MALFORMED).
        VerificationError: E_SENDER, E_SIGNATURE, E_POPULATION or E_GATE.
    """
    if set(readies) != set(terms.everybody):
        raise VerificationError("the roster does not hold every party exactly once", code="E_SENDER")
    for name, ready in readies.items():
        ranges_of(ready)
        check_ready(terms, ready, name, pins[name])
    check_equal_rows(terms, readies)


def check_equal_rows(terms: RunTerms, readies: Mapping[str, m.Ready]) -> None:
    """Check that all parties have as many rows as the task party.

    Raises:
        VerificationError: E_POPULATION.
    """
    for name, ready in readies.items():
        if ready.rows != readies[terms.task].rows:
            raise VerificationError(f"party {name!r} has a different number of rows", code="E_POPULATION")


def check_rows(terms: RunTerms, party: str, brought: int) -> None:
    """Check that a party brings as many rows as agreed, before any reduction.

    Raises:
        VerificationError: E_POPULATION.
    """
    if brought > terms.max_samples or (terms.align is Align.EQUAL and brought != terms.max_samples):
        equal = terms.align is Align.EQUAL
        remedy = f"compare the extracts, or {INTERSECT}" if equal else "agree on more samples"
        raise VerificationError(
            f"party {party!r} has {brought} rows, the agreement {'asks for' if equal else 'allows'} "
            f"{terms.max_samples}; {remedy}",
            code="E_POPULATION",
        )


def check_min_samples(gates: Gates | None, owner: str, rows: int) -> None:
    """Check that a table has enough samples; `owner` names it in the error.

    Raises:
        VerificationError: E_GATE.
    """
    if gates is not None and rows < gates.min_samples:
        raise VerificationError(
            f"{owner} has {rows} rows; the agreed gate requires {gates.min_samples}", code="E_GATE"
        )


def check_code_gate(gates: Gates | None, owner: str, rows: int, sizes: Iterable[int]) -> None:
    """Check that columns do not have too many codes for this many rows; `owner` names them in the error.

    Raises:
        VerificationError: E_GATE.
    """
    if gates is None:
        return
    most = rows // gates.min_rows_per_code
    for size in sizes:
        if size > most:
            raise VerificationError(
                f"{owner} has {size} distinct codes; with {rows} rows the agreed gate allows {most}: "
                "use fewer features or bins",
                code="E_GATE",
            )


def check_cells(terms: RunTerms, task: Iterable[Iterable[int]], label: Iterable[int]) -> None:
    """Check that no label and no code of X_t, or of one of its features, singles out a few samples.

    A label that is 1 for one person would turn a data party's exact value into an answer about this person.
    With an epsilon the refusal itself would be such an answer, so nothing is refused.

    Args:
        terms: The agreed terms.
        task: Number of samples of each code of X_t, or with columns `features` of each of its features; codes
            without samples do not count.
        label: Number of samples of each label.

    Raises:
        VerificationError: E_GATE.
    """
    if terms.gates is None or terms.epsilon is not None:
        return
    kind = "combination" if terms.columns is ColumnView.JOINT else "code"
    columns = [("label", label), *((f"{kind} of the task party's features", counts) for counts in task)]
    for what, counts in columns:
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
    ranges = {party: ranges_of(ready) for party, ready in readies.items()}
    n_task_codes, n_label_codes = ranges[terms.task].sizes
    return terms.with_sizes(
        n_samples=readies[terms.task].rows,
        n_task_codes=n_task_codes,
        n_label_codes=n_label_codes,
        n_codes=tuple(ranges[party].sizes[0] for party in terms.parties),
        features=()
        if terms.columns is ColumnView.JOINT
        else tuple(ranges[party].features for party in terms.everybody),
    )


def check_own_table(terms: RunTerms, party: str, samples: Samples) -> None:
    """Check that a party's own table passes the gates, before anybody else sees anything of it.

    Raises:
        VerificationError: E_GATE.
    """
    check_own_gates(terms, party, samples)
    if party == terms.task:
        features, label = samples.marginals
        task = cell_sizes(terms, np.arange(len(features)), features, samples.codebooks[0])
        check_cells(terms, task, label.tolist())


def check_own_gates(terms: RunTerms, party: str, samples: Samples) -> None:
    """Check that a party's own table has enough rows and not too many codes.

    Raises:
        VerificationError: E_GATE.
    """
    owner, rows = f"party {party!r}", samples.n_samples
    check_min_samples(terms.gates, owner, rows)
    features = own_features(terms, party, samples)
    check_code_gate(terms.gates, owner, rows, gated_sizes(terms, party, samples.sizes, features))


def cell_sizes(
    terms: RunTerms, codes: NDArray[np.integer], count: Counts, book: Codebook | None
) -> list[list[int]]:
    """Number of samples of each code of X_t, or of each of its features, for `check_cells`.

    Args:
        terms: The agreed terms.
        codes: Codes of X_t.
        count: Number of samples of each.
        book: The features behind the codes.
    """
    columns: list[NDArray[np.integer]] = [codes]
    sizes = []
    if terms.columns is ColumnView.FEATURES and book is not None:
        columns = [book.codes[codes, k] for k in range(book.n_features)]
    for column in columns:
        totals = np.zeros(int(column.max()) + 1, dtype=np.int64)
        np.add.at(totals, column, count)
        sizes.append(totals.tolist())
    return sizes
