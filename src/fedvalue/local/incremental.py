"""`fedvalue value --state FILE`: add rows to an earlier state, and report what changed.

Two effects move a Shapley-CMI even if nothing changed.

- Noise: the later valuation contains the earlier one's rows. For a mean over n' samples, of which the
  first n gave the earlier mean, the variance of the difference is s² (1/n - 1/n'), with s² = n' · se²
  from the later valuation.
- Drift: the plug-in estimate is too high on few samples, more so with more codes, and falls as rows are
  added. It is measured: n rows drawn from all n' rows without replacement, several times, stand for
  the earlier rows under no change; their mean value is the expected earlier one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from math import sqrt
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from msgspec import structs

from fedvalue.decisions.comparison import ValueChange
from fedvalue.errors import EngineError, InputError
from fedvalue.information.cells import CellCounter
from fedvalue.local.file_layout import CellTable, packing_of
from fedvalue.local.passes import FilePasses
from fedvalue.local.state_file import CountedFile, SavedState, file_sha256, load_state
from fedvalue.storage.durable_files import exclusive_lock
from fedvalue.tables.column_coder import ColumnCoder
from fedvalue.tables.column_summary import ColumnSummary
from fedvalue.tables.parts import Part, Source
from fedvalue.valuation.result import Z95

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fedvalue.information.contingency import JointCounts
    from fedvalue.typing import Counts, Floats
    from fedvalue.valuation.result import PartyValue, Valuation

N_DRAWS = 16
"""Draws for the drift. Their error is a quarter of the difference's, which widens it by 3%."""

_FEW_PARTIES = 8
_PERMUTATIONS = 256
# NumPy draws without replacement from fewer rows than this; beyond, with replacement is as good.
_DRAWABLE = 10**9


@dataclass(frozen=True, slots=True)
class Update:
    """A state after an update, the files that were already counted, and remarks on the new rows."""

    state: SavedState
    skipped: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def update_state(state: SavedState | None, sources: Source | Sequence[Source], passes: FilePasses) -> Update:
    """The state with the sources' rows added.

    Numbers outside the earlier range fall into the outer bins. New categories get new codes, or are
    "other" where rare ones were merged.

    Raises:
        InputError: Another layout, a file that begins with rows of the state, or wrong rows.
    """
    if state is not None:
        state.check_layout(passes.layout)
    new = _NewFiles.among(passes.open(sources), () if state is None else state.files)
    if state is not None and not new.parts:
        return Update(state, new.skipped)
    if state is None:
        return Update(SavedState(passes.tabulate(new.parts), new.files))
    looks = passes.look(new.parts, state.table.coders)
    earlier = list(zip(state.table.coders, looks, strict=True))
    coders = tuple(coder.extended(look.summary) for coder, look in earlier)
    table = _added(state.table, coders, *passes.count(new.parts, coders, looks))
    news = (_news(before, after, look.summary) for (before, look), after in zip(earlier, coders, strict=True))
    notes = tuple(filter(None, news))
    return Update(SavedState(table, (*state.files, *new.files), state.valuation), new.skipped, notes)


@dataclass(frozen=True, slots=True)
class _NewFiles:
    """The files that are not in the state yet, and the names of the others."""

    parts: list[Part]
    files: tuple[CountedFile, ...]
    skipped: tuple[str, ...]

    @classmethod
    def among(cls, parts: list[Part], known: tuple[CountedFile, ...]) -> _NewFiles:
        # Files of one call are not compared with each other: two equal files count twice.
        seen = {file.sha256 for file in known}
        fresh: list[Part] = []
        files: list[CountedFile] = []
        skipped: list[str] = []
        for part in parts:
            if part.format == "database":
                fresh.append(part)
                continue
            name = Path(part.path).name
            file = CountedFile(name, os.path.getsize(part.path), file_sha256(part.path))
            if file.sha256 in seen:
                skipped.append(name)
                continue
            _refuse_grown(part, file, known)
            fresh.append(part)
            files.append(file)
        return cls(fresh, tuple(files), tuple(skipped))


def _added(
    table: CellTable, coders: tuple[ColumnCoder, ...], keys: NDArray[np.int64], counts: Counts
) -> CellTable:
    """The table with more rows, whose keys are packed for `coders`."""
    earlier, packing = packing_of(table.coders), packing_of(coders)
    counter = CellCounter(len(packing.words))
    counter.add(packing.pack(earlier.unpack(table.keys)), table.counts)
    counter.add(keys, counts)
    keys, counts = counter.cells()
    codings = tuple(
        structs.replace(coding, n_codes=coder.n_codes)
        for coding, coder in zip(table.codings, coders, strict=True)
    )
    return replace(table, coders=coders, keys=keys, counts=counts, codings=codings)


def _news(before: ColumnCoder, after: ColumnCoder, later: ColumnSummary) -> str:
    """A sentence on new values in a column; empty if there are none."""
    if (
        before.lowest is not None
        and before.highest is not None
        and (later.numbers.lowest < before.lowest or later.numbers.highest > before.highest)
    ):
        return f"column {before.name!r}: new numbers beyond the binned range fall into the outer bins"
    if after.n_codes > before.n_codes:
        return f"column {before.name!r}: {after.n_codes - before.n_codes} new categories"
    return ""


def _refuse_grown(part: Part, file: CountedFile, known: tuple[CountedFile, ...]) -> None:
    """Refuse a counted file with rows appended."""
    for earlier in known:
        if 0 < earlier.size < file.size and file_sha256(part.path, earlier.size) == earlier.sha256:
            raise InputError(
                f"{part.path}: the file begins with all rows of {earlier.name!r}, which are already counted; "
                "pass the new rows only"
            )


def with_state_details(
    result: Valuation, counts: JointCounts, old: SavedState | None, update: Update
) -> Valuation:
    """The valuation of an updated state, with the added rows and the changes since the last one."""
    n_before = 0 if old is None else old.table.n_samples
    details: dict[str, Any] = {
        "state": {
            "n_before": n_before, "n_added": update.state.table.n_samples - n_before,
            "skipped_files": list(update.skipped),
        }
    }  # fmt: skip
    if old is not None and old.valuation is not None:
        drift = drift_of(counts, n_before)
        details["changes"] = msgspec.to_builtins(changes(old.valuation, result, drift))
        details["learnable_before"] = old.valuation.learnable
    return structs.replace(result, details={**result.details, **details})


@contextmanager
def locked_state(state_file: Source) -> Iterator[SavedState | None]:
    """The state in a file, locked against other processes; None if there is no file yet.

    The system frees the lock when this process ends.

    Raises:
        InputError: The state is in use or damaged, or its folder does not exist.
    """
    target = Path(state_file).resolve()  # the same lock for every name of the state
    if not target.parent.is_dir():
        raise InputError(f"{state_file}: the folder of the state does not exist")
    with ExitStack() as stack:
        try:
            stack.enter_context(exclusive_lock(target.with_name(f".{target.name}.lock")))
        except EngineError as error:
            reason = "the state is in use by another process" if error.code == "E_LOCKED" else error
            raise InputError(f"{state_file}: {reason}") from error
        yield load_state(state_file) if os.path.lexists(state_file) else None


def changes(before: Valuation, after: Valuation, drift: Mapping[str, float]) -> tuple[ValueChange, ...]:
    """How each party's value moved in a later valuation on more rows, given its drift (`drift_of`)."""
    earlier = {party.name: party for party in before.parties}
    moves = []
    for party in after.parties:
        if (name := party.name) not in earlier:
            continue
        value, expected = before.values[name], after.values[name] + drift.get(name, 0.0)
        error = _error(earlier[name], party, before.n_samples, after.n_samples)
        moves.append(
            ValueChange(
                name=name,
                before=value,
                after=after.values[name],
                expected=expected,
                error=error,
                beyond_error=None if error is None else abs(value - expected) > Z95 * error,
            )
        )
    return tuple(moves)


def drift_of(counts: JointCounts, n_before: int) -> dict[str, float]:
    """The mean increase of each value on `n_before` of the rows over its value on all rows.

    Exact for few parties; for more, by the same few permutations on both sides, whose noise cancels
    in the difference.
    """
    if n_before >= counts.n_samples:
        return dict.fromkeys(counts.names, 0.0)
    rng = np.random.default_rng(0)
    whole = _values(counts)
    draws = [_values(_drawn(counts, n_before, rng)) - whole for _ in range(N_DRAWS)]
    return dict(zip(counts.names, np.mean(draws, axis=0).tolist(), strict=True))


def _values(counts: JointCounts) -> Floats:
    from fedvalue.valuation.engine import value_counts
    from fedvalue.valuation.settings import ValuationSettings

    settings = ValuationSettings(
        method="exact" if counts.n_parties <= _FEW_PARTIES else "sampled",
        n_permutations=_PERMUTATIONS,
        statistics=False,
    )
    result = value_counts(counts, settings)
    return np.array([party.value for party in result.parties])


def _drawn(counts: JointCounts, n: int, rng: np.random.Generator) -> JointCounts:
    """`n` of the counted samples, drawn without replacement."""
    if counts.n_samples < _DRAWABLE:
        drawn = rng.multivariate_hypergeometric(counts.count, n, method="marginals")
    else:
        drawn = rng.multinomial(n, counts.count / counts.n_samples)
    kept = drawn > 0
    return replace(
        counts,
        task=counts.task[kept],
        parties=counts.parties[kept],
        label=counts.label[kept],
        count=drawn[kept],
    )


def _error(before: PartyValue, after: PartyValue, n_before: int, n_after: int) -> float | None:
    if after.se_data is None:
        return None
    spread = n_after * after.se_data**2
    noise = spread * max(1 / n_before - 1 / n_after, 0.0)
    sampling = (before.se_sampling or 0.0) ** 2 + (after.se_sampling or 0.0) ** 2
    return sqrt(noise * (1 + 1 / N_DRAWS) + sampling)
