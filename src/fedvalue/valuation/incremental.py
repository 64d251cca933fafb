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

from fedvalue.errors import InputError
from fedvalue.tables.coding import ColumnCoding
from fedvalue.tables.parts import Part, Source
from fedvalue.tables.summary import Summary
from fedvalue.valuation.cells import CellCounter, Packing
from fedvalue.valuation.changes import changes
from fedvalue.valuation.layout import CellTable, Layout
from fedvalue.valuation.state import CountedFile, State, fingerprint, load_state, save_state
from fedvalue.valuation.streaming import (
    count_parts,
    parts_of,
    refuse_whole_columns,
    summarise_later,
    tabulate_parts,
)

if TYPE_CHECKING:
    from fedvalue.typing import Progress
    from fedvalue.valuation.result import Valuation


def value_with_state(
    state_file: Source,
    sources: Source | Sequence[Source],
    *,
    label: str,
    parties: Mapping[str, Sequence[str]],
    task: Sequence[str] = (),
    bins: int = 5,
    binning: str = "width",
    pca: int | None = None,
    executor: Executor | None = None,
    progress: Progress | None = None,
    **settings: Any,
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
        bins: Bins of a numeric column.
        binning: "width"; quantile bins are refused.
        pca: None; PCA is refused.
        executor: Where the work runs.
        progress: Told how far the work has come.
        **settings: As of `value_counts`.

    Raises:
        InputError: The state is damaged, of another schema, layout or binning, or in use; or the
            new rows are wrong. The state is then as it was.
    """
    from fedvalue.valuation.engine import value_counts

    refuse_whole_columns(binning, pca)
    layout = Layout.of(label=label, task=task, parties=parties, bins=bins)
    with _locked(state_file):
        old = load_state(state_file) if os.path.lexists(state_file) else None
        update = update_state(old, sources, layout, executor=executor, progress=progress)
        new = update.state
        result = value_counts(new.table.joint_counts(), executor=executor, progress=progress, **settings)
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
            details["changes"] = [change.to_dict() for change in changes(old.valuation, result)]
        result = replace(result, bins=bins, details={**result.details, **details})
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


def update_state(
    state: State | None,
    sources: Source | Sequence[Source],
    layout: Layout,
    *,
    executor: Executor | None = None,
    progress: Progress | None = None,
) -> Update:
    """The state with the sources' rows added.

    Numbers outside the earlier range fall into the outer bins, new categories get new codes.

    Raises:
        InputError: Another layout, a file that begins with rows of the state, or wrong rows.
    """
    if state is None:
        fresh, files, _ = _new_parts(parts_of(sources, layout), ())
        table = tabulate_parts(fresh, layout, executor=executor, progress=progress)
        return Update(State(table, files))
    state.check_layout(layout)
    # A CSV chunk of a text column may look like numbers; an empty column has shown no type yet.
    texts = [c.name for c in state.table.codings if c.kind == "text" and set(c.categories) - {None}]
    parts = parts_of(sources, layout, text_columns=texts)
    fresh, files, skipped = _new_parts(parts, state.files)
    if not fresh:
        return Update(state, skipped)
    table, notes = _added(state.table, fresh, executor, progress)
    return Update(State(table, (*state.files, *files), state.valuation), skipped, notes)


def _added(
    table: CellTable, parts: list[Part], executor: Executor | None, progress: Progress | None
) -> tuple[CellTable, tuple[str, ...]]:
    summaries = summarise_later(parts, table.layout, table.codings, executor=executor)
    codings = tuple(
        coding.extended(summary) for coding, summary in zip(table.codings, summaries, strict=True)
    )
    packing = Packing(tuple(max(coding.n_codes, 1) for coding in codings))
    counter = CellCounter(len(packing.words))
    counter.add(packing.pack(table.codes), table.counts)
    codes, counts = count_parts(parts, codings, executor=executor, progress=progress)
    counter.add(packing.pack(codes), counts)
    keys, totals = counter.cells()
    notes = [_news(*news) for news in zip(table.codings, codings, summaries, strict=True)]
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


def _new_parts(
    parts: list[Part], known: tuple[CountedFile, ...]
) -> tuple[list[Part], tuple[CountedFile, ...], tuple[str, ...]]:
    """The parts that are not in the state yet, their fingerprints, and the names of the others."""
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
    return fresh, tuple(files), tuple(skipped)


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
    target = Path(state_file)
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
