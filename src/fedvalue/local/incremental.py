"""`fedvalue value --state FILE`: add rows to an earlier state, revalue, tell what changed."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import structs

from fedvalue.engines import plain_interrupts
from fedvalue.errors import InputError
from fedvalue.local.changes import changes, drift_of
from fedvalue.local.file_layout import CellTable, Layout
from fedvalue.local.passes import Passes, packing_of
from fedvalue.local.state_file import CountedFile, State, fingerprint, load_state, save_state
from fedvalue.local.streaming import refuse_whole_columns
from fedvalue.tables.cells import CellCounter
from fedvalue.tables.coding import ColumnCoding
from fedvalue.tables.coding_settings import CodingSettings
from fedvalue.tables.parts import Part, with_types
from fedvalue.tables.sources import Source
from fedvalue.tables.summary import Summary
from fedvalue.valuation.settings import ValuationSettings

if TYPE_CHECKING:
    from fedvalue.engines import Stop
    from fedvalue.typing import Progress
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
        settings: What to compute and how to code columns; quantile bins and PCA are refused.
        executor: Where the work runs.
        progress: Called with progress updates.
        stop: Lets a person end the work early.

    Raises:
        InputError: The state is damaged, of another schema, layout or binning, or in use; or the
            new rows are wrong. The state is then as it was.
    """
    from fedvalue.valuation.engine import value_counts

    settings = settings or ValuationSettings(coding=CodingSettings(binning="width"))
    refuse_whole_columns(settings.coding.binning, settings.coding.pca)
    layout = Layout.of(label=label, task=task, parties=parties, bins=settings.coding.bins)
    with _locked(state_file):
        old = load_state(state_file) if os.path.lexists(state_file) else None
        update = update_state(old, sources, Passes(layout, executor=executor, progress=progress))
        new = update.state
        counts = new.table.joint_counts()
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

    state: State
    skipped: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def update_state(state: State | None, sources: Source | Sequence[Source], passes: Passes) -> Update:
    """The state with the sources' rows added.

    Numbers outside the earlier range fall into the outer bins, new categories get new codes.

    Raises:
        InputError: Another layout, a file that begins with rows of the state, or wrong rows.
    """
    if state is None:
        new = with_types(
            lambda sure: passes.open(sources, sure=sure), lambda parts: _New.of(parts, (), passes, None)
        )
        codings, notes = passes.fit(new.summaries)
        codes, counts = passes.count(new.parts, codings)
        return Update(State(CellTable(passes.layout, codings, codes, counts, notes), new.files))
    state.check_layout(passes.layout)
    table = state.table
    # A CSV chunk of a text column may look like numbers; an empty column has shown no type yet.
    texts = [c.name for c in table.codings if c.kind == "text" and set(c.categories) - {None}]
    new = with_types(
        lambda sure: passes.open(sources, text_columns=texts, sure=sure),
        lambda parts: _New.of(parts, state.files, passes, table.codings),
    )
    if not new.parts:
        return Update(state, new.skipped)
    table, notes = _added(table, new, passes)
    return Update(State(table, (*state.files, *new.files), state.valuation), new.skipped, notes)


@dataclass(frozen=True, slots=True)
class _New:
    """The files that are not in the state yet, what is in them, and the names of the others."""

    parts: list[Part]
    files: tuple[CountedFile, ...]
    skipped: tuple[str, ...]
    summaries: list[Summary]

    @classmethod
    def of(
        cls,
        parts: list[Part],
        known: tuple[CountedFile, ...],
        passes: Passes,
        codings: tuple[ColumnCoding, ...] | None,
    ) -> _New:
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
            file = CountedFile(name, os.path.getsize(part.path), fingerprint(part.path))
            if file.sha256 in seen:
                skipped.append(name)
                continue
            _refuse_grown(part, file, known)
            fresh.append(part)
            files.append(file)
        summaries = passes.summarise(fresh, codings) if fresh else []
        return cls(fresh, tuple(files), tuple(skipped), summaries)


def _added(table: CellTable, new: _New, passes: Passes) -> tuple[CellTable, tuple[str, ...]]:
    codings = tuple(
        coding.extended(summary) for coding, summary in zip(table.codings, new.summaries, strict=True)
    )
    packing = packing_of(codings)
    counter = CellCounter(len(packing.words))
    counter.add(packing.pack(table.codes), table.counts)
    codes, counts = passes.count(new.parts, codings)
    counter.add(packing.pack(codes), counts)
    keys, totals = counter.cells()
    notes = [_news(*news) for news in zip(table.codings, codings, new.summaries, strict=True)]
    table = replace(table, codings=codings, codes=tuple(packing.unpack(keys)), counts=totals)
    return table, tuple(note for note in notes if note)


def _news(before: ColumnCoding, after: ColumnCoding, later: Summary) -> str:
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
        if 0 < earlier.size < file.size and fingerprint(part.path, earlier.size) == earlier.sha256:
            raise InputError(
                f"{part.path}: expected new rows only, got a file that begins with all rows of "
                f"{earlier.name!r}, which are in the state already"
            )


@contextmanager
def _locked(state_file: Source) -> Iterator[None]:
    """Only one process at a time; the system frees the lock when that process ends, however it ends."""
    target = Path(state_file).resolve()  # one lock, whatever the name of the state
    path = target.with_name(f".{target.name}.lock")
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise InputError(f"{state_file}: cannot write the state there: {error.strerror}") from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise InputError(f"{state_file}: the state is in use by another process") from error
        yield
    finally:
        os.close(descriptor)
