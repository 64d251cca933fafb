"""Joint counts of files larger than memory.

Two passes. The first gathers what the codings need (smallest, largest and distinct values); the
second codes each batch and counts distinct rows. Memory is bounded by a few batches and the number
of distinct rows. The files of a folder are mapped over an executor where there is one; the result
is the same whatever the batches, the files' order and the number of workers, and the same as the
in-memory valuation's.

Quantile bins and PCA need whole columns at once and are refused here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from fedvalue.errors import InputError
from fedvalue.tables.coding import ColumnCoding
from fedvalue.tables.columns import columns_of
from fedvalue.tables.database import is_database
from fedvalue.tables.discretise import check_binning, fit_summary
from fedvalue.tables.parts import BATCH_ROWS, Part, Source, open_parts
from fedvalue.tables.party_table import fit_label, label_summary
from fedvalue.tables.summary import Summary
from fedvalue.valuation.cells import CellCounter, Packing
from fedvalue.valuation.layout import CellTable, Layout

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fedvalue.information.contingency import JointCounts
    from fedvalue.typing import Codes, Counts, Progress
    from fedvalue.valuation.result import Valuation

STREAM_BYTES = 256 << 20
"""A file from this size on is streamed: as Arrow columns it would need a multiple of it in memory."""

T = TypeVar("T")


def stream_by_default(source: Source) -> bool:
    """Whether a source is better streamed: a folder, or a file of `STREAM_BYTES` and more."""
    if is_database(source):
        return False
    path = Path(source)
    return path.is_dir() or (path.is_file() and path.stat().st_size >= STREAM_BYTES)


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
    return tabulate(
        sources, layout, batch_rows=batch_rows, executor=executor, progress=progress
    ).joint_counts()


def value_files(
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
    """The valuation of files larger than memory: `fedvalue.value` on columns that are named.

    Args:
        sources: Files, folders or database URIs with all the columns.
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
        InputError: The files or a setting are wrong.
    """
    from fedvalue.valuation.engine import value_counts

    refuse_whole_columns(binning, pca)
    layout = Layout.of(label=label, task=task, parties=parties, bins=bins)
    table = tabulate(sources, layout, executor=executor, progress=progress)
    result = value_counts(table.joint_counts(), executor=executor, progress=progress, **settings)
    details = {**result.details, **({"notes": list(table.notes)} if table.notes else {})}
    return replace(result, bins=bins, details=details)


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


def tabulate(
    sources: Source | Sequence[Source],
    layout: Layout,
    *,
    batch_rows: int = BATCH_ROWS,
    executor: Executor | None = None,
    progress: Progress | None = None,
) -> CellTable:
    """Fit the codings and count the distinct rows of the sources, which hold all columns.

    Raises:
        InputError: A file is unreadable or lacks a column, a label is missing, or there is no row.
    """
    return tabulate_parts(
        parts_of(sources, layout), layout, batch_rows=batch_rows, executor=executor, progress=progress
    )


def tabulate_parts(
    parts: Sequence[Part],
    layout: Layout,
    *,
    batch_rows: int = BATCH_ROWS,
    executor: Executor | None = None,
    progress: Progress | None = None,
) -> CellTable:
    """`tabulate` for files that have been looked at."""
    summaries = _merged(_map(_summarise, parts, executor, progress, 0, layout, batch_rows, None))
    codings, notes = _fit(summaries, layout)
    codes, counts = count_parts(parts, codings, batch_rows=batch_rows, executor=executor, progress=progress)
    return CellTable(layout, codings, codes, counts, notes)


def parts_of(
    sources: Source | Sequence[Source], layout: Layout, *, text_columns: Collection[str] = ()
) -> list[Part]:
    """All files of the sources, each of which has all columns."""
    several = [sources] if isinstance(sources, str | Path) or not isinstance(sources, Sequence) else sources
    if not several:
        raise InputError("expected at least one source, got none")
    return [
        part for source in several for part in open_parts(source, layout.columns, text_columns=text_columns)
    ]


def summarise_later(
    parts: Sequence[Part],
    layout: Layout,
    codings: tuple[ColumnCoding, ...],
    *,
    batch_rows: int = BATCH_ROWS,
    executor: Executor | None = None,
) -> list[Summary]:
    """What is new in rows that come after the codings were fitted, one summary per column."""
    summaries = _merged(_map(_summarise, parts, executor, None, 0, layout, batch_rows, codings))
    _check_label(summaries[0])
    return summaries


def count_parts(
    parts: Sequence[Part],
    codings: tuple[ColumnCoding, ...],
    *,
    batch_rows: int = BATCH_ROWS,
    executor: Executor | None = None,
    progress: Progress | None = None,
) -> tuple[tuple[Codes, ...], Counts]:
    """The distinct rows of feature codes, in lexicographic order, and their counts."""
    packing = Packing(tuple(max(coding.n_codes, 1) for coding in codings))
    counter = CellCounter(len(packing.words))
    for keys, counts in _map(_count_part, parts, executor, progress, 1, codings, packing, batch_rows):
        counter.add(keys, counts)
    keys, counts = counter.cells()
    return tuple(packing.unpack(keys)), counts


def _fit(summaries: list[Summary], layout: Layout) -> tuple[tuple[ColumnCoding, ...], tuple[str, ...]]:
    label, *features = summaries
    _check_label(label)
    label_coding, label_notes = fit_label(label, bins=layout.bins)
    codings = [fit_summary(summary, bins=layout.bins) for summary in features]
    notes = [
        f"column {summary.name!r} has {summary.n_missing} missing values, a category of their own"
        for summary in features
        if summary.n_missing
    ]
    notes += [f"column {coding.name!r} is constant" for coding in codings if coding.n_codes == 1]
    return (label_coding, *codings), (*label_notes, *notes)


def _check_label(label: Summary) -> None:
    if label.n_samples == 0:
        raise InputError("expected at least one row, got none")
    if label.n_missing:
        raise InputError(
            f"label {label.name!r}: expected a label for every sample, got {label.n_missing} missing"
        )


def _summarise(
    part: Part, layout: Layout, batch_rows: int, codings: tuple[ColumnCoding, ...] | None
) -> list[Summary]:
    """Pass 1 over one file."""
    if codings is None:
        label, *features = layout.columns
        summaries = [label_summary(label, bins=layout.bins)]
        summaries += [Summary(name, limit=layout.bins) for name in features]
    else:
        summaries = [coding.summary() for coding in codings]
    for batch in part.batches(batch_rows):
        columns = columns_of(batch, name=part.path)
        for summary in summaries:
            summary.add(columns[summary.name])
    return summaries


def _merged(found: Iterator[list[Summary]]) -> list[Summary]:
    first = next(found)
    for other in found:
        for mine, theirs in zip(first, other, strict=True):
            mine.merge(theirs)
    return first


def _count_part(
    part: Part, codings: tuple[ColumnCoding, ...], packing: Packing, batch_rows: int
) -> tuple[NDArray[np.int64], Counts]:
    """Pass 2 over one file."""
    counter = CellCounter(len(packing.words))
    for batch in part.batches(batch_rows):
        columns = columns_of(batch, name=part.path)
        counter.add(packing.pack([coding.codes(columns[coding.name]) for coding in codings]))
    return counter.cells()


def _map(
    work: Callable[..., T],
    parts: Sequence[Part],
    executor: Executor | None,
    progress: Progress | None,
    done_before: int,
    *arguments: Any,
) -> Iterator[T]:
    """The work's result for every part, in their order, wherever it is done."""
    if executor is None:
        results: Iterator[T] = (work(part, *arguments) for part in parts)
    else:
        futures = [executor.submit(work, part, *arguments) for part in parts]
        results = (future.result() for future in futures)
    for k, result in enumerate(results, start=1):
        if progress is not None:
            share = (done_before + k / len(parts)) / 2
            progress(share, 1.0, "looking at values" if done_before == 0 else "counting")
        yield result
