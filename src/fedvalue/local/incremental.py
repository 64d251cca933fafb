"""`fedvalue value --state FILE`: add rows to an earlier state, and report what changed."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import structs

from fedvalue.errors import EngineError, InputError
from fedvalue.information.cells import CellCounter
from fedvalue.local.changes import changes, drift_of
from fedvalue.local.file_layout import CellTable, packing_of
from fedvalue.local.passes import FilePasses
from fedvalue.local.state_file import CountedFile, SavedState, file_sha256, load_state
from fedvalue.storage.durable_files import exclusive_lock
from fedvalue.tables.column_coder import ColumnCoder
from fedvalue.tables.column_summary import ColumnSummary
from fedvalue.tables.parts import Part, Source

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fedvalue.information.contingency import JointCounts
    from fedvalue.typing import Counts
    from fedvalue.valuation.result import Valuation


@dataclass(frozen=True, slots=True)
class Update:
    """A state after an update, the names of files that it already held, and remarks on the new rows."""

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
    coders = tuple(
        coder.extended(look.summary) for coder, look in zip(state.table.coders, looks, strict=True)
    )
    table = _added(state.table, coders, *passes.count(new.parts, coders, looks))
    news = zip(state.table.coders, coders, looks, strict=True)
    notes = tuple(filter(None, (_news(before, after, look.summary) for before, after, look in news)))
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
    """What is new in a column, as a sentence; empty if nothing is."""
    if before.kind == "bins" and later.lowest is not None and later.highest is not None:
        assert before.lowest is not None
        assert before.highest is not None
        if later.lowest < before.lowest or later.highest > before.highest:
            return f"column {before.name!r}: new numbers beyond the binned range fall into the outer bins"
    if after.n_codes > before.n_codes:
        return f"column {before.name!r}: {after.n_codes - before.n_codes} new categories"
    return ""


def _refuse_grown(part: Part, file: CountedFile, known: tuple[CountedFile, ...]) -> None:
    """A file that begins with a counted one is that file with rows appended."""
    for earlier in known:
        if 0 < earlier.size < file.size and file_sha256(part.path, earlier.size) == earlier.sha256:
            raise InputError(
                f"{part.path}: the file begins with all rows of {earlier.name!r}, which are already counted; "
                "pass the new rows only"
            )


def with_state_details(
    result: Valuation, counts: JointCounts, old: SavedState | None, update: Update
) -> Valuation:
    """The valuation of an updated state with what was added, and what changed since the last one."""
    n_before = 0 if old is None else old.table.n_samples
    details: dict[str, Any] = {
        "state": {
            "n_before": n_before, "n_added": update.state.table.n_samples - n_before,
            "skipped_files": list(update.skipped),
        }
    }  # fmt: skip
    if old is not None and old.valuation is not None:
        drift = drift_of(counts, n_before)
        details["changes"] = [change.to_dict() for change in changes(old.valuation, result, drift)]
    return structs.replace(result, details={**result.details, **details})


@contextmanager
def locked_state(state_file: Source) -> Iterator[SavedState | None]:
    """The state in a file, or None where there is no file yet, locked against other processes.

    The system frees the lock when this process ends.

    Raises:
        InputError: The state is in use or damaged, or its folder does not exist.
    """
    target = Path(state_file).resolve()  # one lock, whatever the name of the state
    if not target.parent.is_dir():
        raise InputError(f"{state_file}: the folder of the state does not exist")
    with ExitStack() as stack:
        try:
            stack.enter_context(exclusive_lock(target.with_name(f".{target.name}.lock")))
        except EngineError as error:
            why = "the state is in use by another process" if error.code == "E_LOCKED" else error
            raise InputError(f"{state_file}: {why}") from error
        yield load_state(state_file) if os.path.lexists(state_file) else None
