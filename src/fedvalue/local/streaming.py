"""The valuation of files larger than memory, alone or added to the counts of earlier files.

Two passes. The first gathers distinct values and their counts for the coders; the second codes each batch and
counts distinct rows. Memory is bounded by a few batches, the summaries and the number of distinct rows. The
result does not depend on batches, the files' order or the number of workers, and equals that of the in-memory
valuation. PCA needs whole columns at once and is refused here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from msgspec import structs

from fedvalue.engines import HERE, Execution, plain_interrupts
from fedvalue.local.file_layout import CellTable, Layout
from fedvalue.local.incremental import locked_state, update_state, with_state_details
from fedvalue.local.origin import with_notes
from fedvalue.local.passes import FilePasses
from fedvalue.local.state_file import save_state
from fedvalue.tables.column_report import CodedColumns
from fedvalue.tables.file_options import AS_DETECTED, FileOptions
from fedvalue.tables.label import leak_warnings, with_leaks
from fedvalue.tables.parts import Source
from fedvalue.tables.sources import source_bytes
from fedvalue.valuation.settings import ValuationSettings

if TYPE_CHECKING:
    from fedvalue.information.contingency import JointCounts
    from fedvalue.valuation.result import Valuation

STREAM_BYTES = 128 << 20
"""Larger data is streamed: as columns in memory it would take several times its size."""


def stream_by_default(source: Source) -> bool:
    """Stream files of `STREAM_BYTES` and more in total.

    Values are the same either way; in memory, PCA works too.
    """
    size = source_bytes(source)
    return size is not None and size >= STREAM_BYTES


@plain_interrupts()
def value_files(
    sources: Source | Sequence[Source],
    *,
    label: str,
    parties: Mapping[str, Sequence[str]],
    task: Sequence[str] = (),
    settings: ValuationSettings | None = None,
    options: FileOptions = AS_DETECTED,
    state: Source | None = None,
    execution: Execution = HERE,
    coded: Callable[[CodedColumns], None] | None = None,
) -> Valuation:
    """The valuation of files larger than memory: `fedvalue.value` on named columns.

    With a state file, the sources' rows are added to its counts, and all rows are valued. Its details then
    have `state` (rows before and added, files skipped because they are already in the state) and, from the
    second time on, `changes` per party. The state is replaced atomically after the valuation; running the
    same command again adds nothing twice.

    Args:
        sources: Files, folders or database URIs with all the columns.
        label: Column of the label.
        parties: Columns of each data party.
        task: Columns of the task party.
        settings: What to compute and how to code columns; PCA is refused.
        options: How to read files; overrides detection.
        state: The state file, created if it does not exist; None to value the sources alone.
        execution: Where the work runs, its progress callback, and how to stop it.
        coded: Called once the columns are coded, before they are valued.

    Raises:
        InputError: The files or a setting are wrong; or the state is damaged, in use, or of another schema,
            layout or binning. The state is then unchanged.
    """
    settings = settings or ValuationSettings()
    layout = Layout.of(label=label, task=task, parties=parties, coding=settings.coding)
    passes = FilePasses(layout, options, execution)
    if state is None:
        return _valued(passes.tabulate(passes.open(sources)), settings, execution, coded)[0]
    with locked_state(state) as old:
        update = update_state(old, sources, passes)
        result, counts = _valued(update.state.table, settings, execution, coded, update.notes)
        result = with_state_details(result, counts, old, update)
        save_state(state, replace(update.state, valuation=result))
    return result


def _valued(
    table: CellTable,
    settings: ValuationSettings,
    execution: Execution,
    coded: Callable[[CodedColumns], None] | None,
    notes: tuple[str, ...] = (),
) -> tuple[Valuation, JointCounts]:
    """Value counted rows."""
    from fedvalue.valuation.engine import value_counts

    counts = table.joint_counts()
    if coded is not None:
        coded(CodedColumns(table.n_samples, table.codings, table.warnings))
    codings = with_leaks(table.codings, counts)
    warnings = (*table.warnings, *leak_warnings(codings))
    notes = (*table.notes, *notes)
    del table  # the counts stand for its rows
    result = value_counts(counts, settings, execution=execution)
    result = structs.replace(result, columns=codings, warnings=warnings)
    return with_notes(result, after=notes), counts
