"""Joint counts of files larger than memory.

Two passes. The first gathers what the coders need (distinct values and their counts); the second
codes each batch and counts distinct rows. Memory is bounded by a few batches, the summaries and the
number of distinct rows. The files of a folder are mapped over an executor where there is one; the
result is the same whatever the batches, the files' order and the number of workers, and the same as
the in-memory valuation's. PCA needs whole columns at once and is refused here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from typing import TYPE_CHECKING

from msgspec import structs

from fedvalue.engines import plain_interrupts
from fedvalue.local.coded import Coded
from fedvalue.local.file_layout import CellTable, Layout
from fedvalue.local.passes import FilePasses
from fedvalue.tables.coding_settings import CodingSettings
from fedvalue.tables.file_options import AS_DETECTED, FileOptions
from fedvalue.tables.label import leak_warnings
from fedvalue.tables.parts import BATCH_ROWS, Source
from fedvalue.tables.sources import source_bytes
from fedvalue.valuation.settings import ValuationSettings

if TYPE_CHECKING:
    from fedvalue.engines import Stop
    from fedvalue.information.contingency import JointCounts
    from fedvalue.typing import Progress
    from fedvalue.valuation.result import Valuation

STREAM_BYTES = 128 << 20
"""Data from this size on is streamed: as columns in memory it would need a multiple of it."""


def stream_by_default(source: Source) -> bool:
    """Whether a source is better streamed: files of `STREAM_BYTES` and more in all.

    Below that it does not matter, the values are the same; in memory, PCA works too.
    """
    size = source_bytes(source)
    return size is not None and size >= STREAM_BYTES


def count_files(
    sources: Source | Sequence[Source],
    *,
    label: str,
    parties: Mapping[str, Sequence[str]],
    task: Sequence[str] = (),
    coding: CodingSettings | None = None,
    batch_rows: int = BATCH_ROWS,
    executor: Executor | None = None,
    progress: Progress | None = None,
) -> JointCounts:
    """The joint counts of one or more sources, streamed (see `tabulate`)."""
    layout = Layout.of(label=label, task=task, parties=parties, coding=coding)
    return tabulate(sources, FilePasses(layout, batch_rows, executor, progress)).joint_counts()


@plain_interrupts()
def value_files(
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
    """The valuation of files larger than memory: `fedvalue.value` on columns that are named.

    Args:
        sources: Files, folders or database URIs with all the columns.
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
        InputError: The files or a setting are wrong.
    """
    from fedvalue.valuation.engine import value_counts

    settings = settings or ValuationSettings()
    layout = Layout.of(label=label, task=task, parties=parties, coding=settings.coding)
    passes = FilePasses(layout, executor=executor, progress=progress, options=options)
    table = tabulate(sources, passes)
    counts = table.joint_counts()
    if coded is not None:
        coded(Coded(table.n_samples, table.codings, table.warnings))
    result = value_counts(counts, settings, executor=executor, progress=progress, stop=stop)
    return with_coding(result, table, counts)


def with_coding(result: Valuation, table: CellTable, counts: JointCounts) -> Valuation:
    """The result with what is known about its columns."""
    details = {**result.details, **({"notes": list(table.notes)} if table.notes else {})}
    return structs.replace(
        result, columns=table.codings, warnings=(*table.warnings, *leak_warnings(counts)), details=details
    )


def tabulate(sources: Source | Sequence[Source], passes: FilePasses) -> CellTable:
    """Fit the coders and count the distinct rows of the sources, which hold all columns.

    Raises:
        InputError: A file is unreadable or lacks a column, a label is missing, or there is no row.
    """
    parts = passes.open(sources)
    looks = passes.look(parts)
    table = passes.fit(looks)
    keys, counts = passes.count(parts, table.coders, looks)
    return replace(table, keys=keys, counts=counts)
