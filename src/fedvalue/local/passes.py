"""The two passes over files: what the codings need, then the counts.

Each pass maps over the files, in this process or through an executor, and puts the results together
in the files' order. What is put together (summaries, cells) does not depend on that order.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from fedvalue import engines
from fedvalue.errors import InputError
from fedvalue.local.file_layout import Layout
from fedvalue.tables.cells import CellCounter, Packing
from fedvalue.tables.coding import ColumnCoding
from fedvalue.tables.columns import Column, columns_of
from fedvalue.tables.discretise import fit_summary
from fedvalue.tables.parts import BATCH_ROWS, Part, open_parts
from fedvalue.tables.party_table import check_labels, feature_notes, fit_label, label_summary
from fedvalue.tables.sources import Source, shown
from fedvalue.tables.summary import Summary

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fedvalue.typing import Codes, Counts, Progress

T = TypeVar("T")
FIRST, SECOND = "looking at values", "counting"


@dataclass(frozen=True, slots=True)
class Passes:
    """How the passes are made.

    Args:
        layout: Which column belongs to whom.
        batch_rows: Rows in memory at a time, per worker.
        executor: Where files are worked on; threads of this process when None.
        progress: Told how far the work has come.
    """

    layout: Layout
    batch_rows: int = BATCH_ROWS
    executor: Executor | None = None
    progress: Progress | None = None

    def open(
        self,
        sources: Source | Sequence[Source],
        *,
        text_columns: Collection[str] = (),
        sure: bool = True,
    ) -> list[Part]:
        """All files of the sources, each of which has all columns (see `open_parts`)."""
        several = [sources] if isinstance(sources, str | os.PathLike) else sources
        if not several:
            raise InputError("expected at least one source, got none")
        wanted = self.layout.columns
        return [
            part
            for source in several
            for part in open_parts(source, wanted, text_columns=text_columns, sure=sure)
        ]

    def summarise(
        self, parts: Sequence[Part], codings: tuple[ColumnCoding, ...] | None = None
    ) -> list[Summary]:
        """Pass 1: one summary per column; for rows that come after `codings` were fitted, if given.

        Raises:
            InputError: No rows, a missing label, or columns of two types.
        """
        found = self._map(_summarise, FIRST, parts, self.layout, codings)
        summaries = next(found)
        for others in found:
            for mine, theirs in zip(summaries, others, strict=True):
                mine.merge(theirs)
        if summaries[0].n_samples == 0:
            raise InputError("expected at least one row, got none")
        check_labels(summaries[0])
        return summaries

    def fit(self, summaries: Sequence[Summary]) -> tuple[tuple[ColumnCoding, ...], tuple[str, ...]]:
        """The codings of all columns, and what a person should know about them."""
        label, *features = summaries
        bins = self.layout.bins
        label_coding, notes = fit_label(label, bins=bins)
        codings = [fit_summary(summary, bins=bins) for summary in features]
        missing = {summary.name: summary.n_missing for summary in features}
        return (label_coding, *codings), (*notes, *feature_notes(missing, codings))

    def count(
        self, parts: Sequence[Part], codings: tuple[ColumnCoding, ...]
    ) -> tuple[tuple[Codes, ...], Counts]:
        """Pass 2: the distinct rows of feature codes, in lexicographic order, and their counts."""
        packing = packing_of(codings)
        counter = CellCounter(len(packing.words))
        for keys, counts in self._map(_count, SECOND, parts, codings, packing):
            counter.add(keys, counts)
        keys, counts = counter.cells()
        return tuple(packing.unpack(keys)), counts

    def _map(self, work: Callable[..., T], what: str, parts: Sequence[Part], *arguments: Any) -> Iterator[T]:
        """The work's result for every piece of a file, in their order, wherever it is done."""
        pieces = [piece for part in parts for piece in part.pieces()]
        told = _Told(self.progress, what, len(pieces))
        if len(pieces) == 1 and self.executor is None:
            yield work(pieces[0], self.batch_rows, told.rows, *arguments)
            told.piece()
            return
        tasks = ((piece, self.batch_rows, None, *arguments) for piece in pieces)
        # Reading, sorting and counting leave Python, so threads suffice where no executor is given.
        with engines.using(self.executor) as executor:
            yield from engines.map_in_order(executor, work, tasks, done=lambda _: told.piece())


class _Told:
    """Tells how far a pass has come: by pieces of files, and by rows within a single one."""

    def __init__(self, progress: Progress | None, what: str, n_pieces: int) -> None:
        self._progress, self._what, self._n_pieces = progress, what, n_pieces
        self._done = self._rows_done = 0

    def rows(self, n: int) -> None:
        self._rows_done += n
        self._tell(f"{self._what}, {self._rows_done:,} rows")

    def piece(self) -> None:
        self._done += 1
        self._tell(self._what)

    def _tell(self, note: str) -> None:
        if self._progress is not None:
            passes_done = (self._what == SECOND) + self._done / self._n_pieces
            self._progress(passes_done / 2, 1.0, note)


def packing_of(codings: Sequence[ColumnCoding]) -> Packing:
    """How the codes of these columns are packed."""
    return Packing(tuple(max(coding.n_codes, 1) for coding in codings))


def _columns(part: Part, batch_rows: int, tell: Callable[[int], None] | None) -> Iterator[dict[str, Column]]:
    for batch in part.batches(batch_rows):
        yield columns_of(batch, name=shown(part.path))
        if tell is not None:
            tell(batch.num_rows)


def _summarise(
    part: Part,
    batch_rows: int,
    tell: Callable[[int], None] | None,
    layout: Layout,
    codings: tuple[ColumnCoding, ...] | None,
) -> list[Summary]:
    """Pass 1 over one file."""
    if codings is None:
        label, *features = layout.columns
        summaries = [label_summary(label, bins=layout.bins)]
        summaries += [Summary(name, limit=layout.bins) for name in features]
    else:
        summaries = [coding.summary() for coding in codings]
    for columns in _columns(part, batch_rows, tell):
        for summary in summaries:
            summary.add(columns[summary.name])
    return summaries


def _count(
    part: Part,
    batch_rows: int,
    tell: Callable[[int], None] | None,
    codings: tuple[ColumnCoding, ...],
    packing: Packing,
) -> tuple[NDArray[np.int64], Counts]:
    """Pass 2 over one file."""
    counter = CellCounter(len(packing.words))
    for columns in _columns(part, batch_rows, tell):
        counter.add(packing.pack([coding.codes(columns[coding.name]) for coding in codings]))
    return counter.cells()
