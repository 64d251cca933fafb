"""Joint counts of files larger than memory.

Two passes. The first gathers what the codings need (smallest, largest and distinct values); the
second codes each batch and counts distinct rows. Memory is bounded by a few batches and the number
of distinct rows. The files of a folder are mapped over an executor where there is one; the result
is the same whatever the batches, the files' order and the number of workers, and the same as the
in-memory valuation's.

Quantile bins and PCA need whole columns at once and are refused here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from fedvalue.engines import plain_interrupts
from fedvalue.errors import InputError
from fedvalue.local.file_layout import CellTable, Layout
from fedvalue.local.passes import Passes
from fedvalue.tables.coding_settings import CodingSettings
from fedvalue.tables.discretise import check_binning
from fedvalue.tables.parts import BATCH_ROWS, with_types
from fedvalue.tables.sources import Source, find
from fedvalue.tables.sql_source import is_database
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

    Below that it does not matter, the values are the same; in memory, quantile bins and PCA work too.
    """
    if is_database(source):
        return False
    return sum(Path(found.path).stat().st_size for found in find(source)) >= STREAM_BYTES


def count_files(
    sources: Source | Sequence[Source],
    *,
    label: str,
    parties: Mapping[str, Sequence[str]],
    task: Sequence[str] = (),
    bins: int = 5,
    binning: str = "width",
    pca: int | None = None,
    batch_rows: int = BATCH_ROWS,
    executor: Executor | None = None,
    progress: Progress | None = None,
) -> JointCounts:
    """The joint counts of one or more sources, streamed (see `tabulate`)."""
    layout = Layout.of(label=label, task=task, parties=parties, bins=bins)
    refuse_whole_columns(binning, pca)
    return tabulate(sources, Passes(layout, batch_rows, executor, progress)).joint_counts()


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
) -> Valuation:
    """The valuation of files larger than memory: `fedvalue.value` on columns that are named.

    Args:
        sources: Files, folders or database URIs with all the columns.
        label: Column of the label.
        parties: Columns of each data party.
        task: Columns of the task party.
        settings: What to compute and how to code columns; quantile bins and PCA are refused.
        executor: Where the work runs.
        progress: Called with progress updates.
        stop: Lets a person end the work early.

    Raises:
        InputError: The files or a setting are wrong.
    """
    from fedvalue.valuation.engine import value_counts

    settings = settings or ValuationSettings(coding=CodingSettings(binning="width"))
    refuse_whole_columns(settings.coding.binning, settings.coding.pca)
    layout = Layout.of(label=label, task=task, parties=parties, bins=settings.coding.bins)
    table = tabulate(sources, Passes(layout, executor=executor, progress=progress))
    result = value_counts(table.joint_counts(), settings, executor=executor, progress=progress, stop=stop)
    details = {**result.details, **({"notes": list(table.notes)} if table.notes else {})}
    return replace(result, details=details)


def refuse_whole_columns(binning: str, pca: int | None) -> None:
    """Refuse what cannot be computed from a stream.

    Raises:
        InputError: Quantile bins, PCA, or an unknown binning.
    """
    check_binning(2, binning)
    if binning != "width":
        raise InputError("quantile bins need whole columns in memory: streaming takes binning 'width' only")
    if pca is not None:
        raise InputError("principal components need whole columns in memory: streaming takes no pca")


def tabulate(sources: Source | Sequence[Source], passes: Passes) -> CellTable:
    """Fit the codings and count the distinct rows of the sources, which hold all columns.

    Raises:
        InputError: A file is unreadable or lacks a column, a label is missing, or there is no row.
    """
    parts, summaries = with_types(
        lambda sure: passes.open(sources, sure=sure), lambda parts: (parts, passes.summarise(parts))
    )
    codings, notes = passes.fit(summaries)
    codes, counts = passes.count(parts, codings)
    return CellTable(passes.layout, codings, codes, counts, notes)
