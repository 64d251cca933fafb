"""`fedvalue value --state FILE`: add rows to an earlier state, value all of them, report what changed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import structs

from fedvalue.engines import plain_interrupts
from fedvalue.errors import EngineError, InputError
from fedvalue.information.cells import CellCounter
from fedvalue.local.changes import changes, drift_of
from fedvalue.local.coded import Coded
from fedvalue.local.file_layout import CellTable, Layout, packing_of
from fedvalue.local.passes import FilePasses
from fedvalue.local.state_file import CountedFile, SavedState, file_sha256, load_state, save_state
from fedvalue.local.streaming import with_coding
from fedvalue.storage.durable_files import exclusive_lock
from fedvalue.tables.column_coder import ColumnCoder
from fedvalue.tables.column_summary import ColumnSummary
from fedvalue.tables.file_options import AS_DETECTED, FileOptions
from fedvalue.tables.parts import Part, Source
from fedvalue.valuation.settings import ValuationSettings

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fedvalue.engines import Stop
    from fedvalue.typing import Counts, Progress
    from fedvalue.valuation.result import Valuation


@plain_interrupts()
def value_with_state(
    state_file: Source,
    sources: Source | Sequence[Source],
    *,
    label: str,
    parties: Mapping[str, Sequence[str]],
    task: Sequence[str] = (),
    settings: ValuationSettings | None = None,
    executor: Executor | None = None,
    progress: Progress | None = None,
    stop: Stop | None = None,
    options: FileOptions = AS_DETECTED,
    coded: Callable[[Coded], None] | None = None,
) -> Valuation:
    """Add the sources' rows to the state in `state_file` (made when there is none) and value all.

    The result's details hold `state` (rows before and added, files skipped because they are in the
    state already) and, from the second time on, `changes` per party. The state is replaced after
    the valuation, in one step; running the same command again adds nothing twice.

    Args:
        state_file: The state.
        sources: Files, folders or database URIs with the new rows.
        label: Column of the label.
        parties: Columns of each data party.
        task: Columns of the task party.
        settings: What to compute and how to code columns; PCA is refused.
        executor: Where the work runs.
        progress: Called with progress updates.
        stop: Lets a person end the work early.
        options: How to read files, where a person knows better.
        coded: Called once the columns are coded, before they are valued.

    Raises:
        InputError: The state is damaged, of another schema, layout or binning, or in use; or the
            new rows are wrong. The state is then as it was.
    """
    from fedvalue.valuation.engine import value_counts

    settings = settings or ValuationSettings()
    layout = Layout.of(label=label, task=task, parties=parties, coding=settings.coding)
    with _locked(state_file):
        old = load_state(state_file) if os.path.lexists(state_file) else None
        passes = FilePasses(layout, executor=executor, progress=progress, options=options)
        update = update_state(old, sources, passes)
        new = update.state
        counts = new.table.joint_counts()
        if coded is not None:
            coded(Coded(new.table.n_samples, new.table.codings, new.table.warnings))
        result = value_counts(counts, settings, executor=executor, progress=progress, stop=stop)
        before = 0 if old is None else old.table.n_samples
        details: dict[str, Any] = {
            "state": {
                "n_before": before, "n_added": new.table.n_samples - before,
                "skipped_files": list(update.skipped),
            }
        }  # fmt: skip
        if new.table.notes or update.notes:
            details["notes"] = [*new.table.notes, *update.notes]
        if old is not None and old.valuation is not None:
            drift = drift_of(counts, before)
            details["changes"] = [change.to_dict() for change in changes(old.valuation, result, drift)]
        result = with_coding(result, new.table, counts)
        result = structs.replace(result, details={**result.details, **details})
        save_state(state_file, replace(new, valuation=result))
    return result


@dataclass(frozen=True, slots=True)
class Update:
    """A state after an update.

    Args:
        state: The new state.
        skipped: Names of files that were in it already.
        notes: What a person should know about the new rows.
    """

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
        looks = passes.look(new.parts)
        table = passes.fit(looks)
        keys, counts = passes.count(new.parts, table.coders, looks)
        return Update(SavedState(replace(table, keys=keys, counts=counts), new.files))
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
        # Files of one call are not compared with each other: two alike are two.
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
    """What is new in a column, in a sentence, or nothing."""
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


@contextmanager
def _locked(state_file: Source) -> Iterator[None]:
    """Keep other processes from the state; the system frees the lock when this process ends."""
    target = Path(state_file).resolve()  # one lock, whatever the name of the state
    if not target.parent.is_dir():
        raise InputError(f"{state_file}: the folder of the state does not exist")
    with ExitStack() as stack:
        try:
            stack.enter_context(exclusive_lock(target.with_name(f".{target.name}.lock")))
        except EngineError as error:
            why = "the state is in use by another process" if error.code == "E_LOCKED" else error
            raise InputError(f"{state_file}: {why}") from error
        yield
