"""The valuation of files larger than memory, also on top of the counts of earlier files.

Two passes. The first gathers what the coders need (distinct values and their counts); the second
codes each batch and counts distinct rows. Memory is bounded by a few batches, the summaries and the
number of distinct rows. The files of a folder are mapped over an executor where there is one; the
result is the same whatever the batches, the files' order and the number of workers, and the same as
the in-memory valuation's. PCA needs whole columns at once and is refused here.
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
"""Data from this size on is streamed: as columns in memory it would need a multiple of it."""


def stream_by_default(source: Source) -> bool:
    """Whether a source is better streamed: files of `STREAM_BYTES` and more in all.

    Below that it does not matter, the values are the same; in memory, PCA works too.
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
    """The valuation of files larger than memory: `fedvalue.value` on columns that are named.

    With a state file, the sources' rows are added to its counts and all of them are valued. The result's
    details then hold `state` (rows before and added, files skipped because they are in the state already)
    and, from the second time on, `changes` per party. The state is replaced after the valuation, in one step;
    running the same command again adds nothing twice.

    Args:
        sources: Files, folders or database URIs with all the columns.
        label: Column of the label.
        parties: Columns of each data party.
        task: Columns of the task party.
        settings: What to compute and how to code columns; PCA is refused.
        options: How to read files; overrides detection.
        state: The state file, made when there is none; None to value the sources alone.
        execution: Where the work runs, its progress callback, and how to stop it.
        coded: Called once the columns are coded, before they are valued.

    Raises:
        InputError: The files or a setting are wrong; or the state is damaged, of another schema, layout or
            binning, or in use. The state is then as it was.
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
    """Value counted rows; the result says how their columns were coded."""
    from fedvalue.valuation.engine import value_counts

    counts = table.joint_counts()
    if coded is not None:
        coded(CodedColumns(table.n_samples, table.codings, table.warnings))
    result = value_counts(counts, settings, execution=execution)
    codings = with_leaks(table.codings, counts)
    warnings = (*table.warnings, *leak_warnings(codings))
    result = structs.replace(result, columns=codings, warnings=warnings)
    return with_notes(result, after=(*table.notes, *notes)), counts
