"""The two passes over files: summaries for the coders, then the counts.

Each pass maps over the files, in this process or through an executor, and merges the results in the files'
order. The results (summaries, cells) do not depend on that order.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from fedvalue import engines
from fedvalue.engines import HERE, Execution
from fedvalue.errors import InputError
from fedvalue.information.cells import CellCounter, Packing
from fedvalue.local.file_layout import CellTable, Layout, packing_of
from fedvalue.tables.column_coder import ColumnCoder
from fedvalue.tables.column_report import fit_feature
from fedvalue.tables.file_options import AS_DETECTED, FileOptions
from fedvalue.tables.label import check_labels, fit_label, label_notes, label_warnings
from fedvalue.tables.parts import BATCH_ROWS, Part, Source
from fedvalue.tables.party_table import column_notes
from fedvalue.tables.sources import open_parts
from fedvalue.tables.streamed_columns import ColumnLook, StreamedColumn, look_at, new_looks, settled_looks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fedvalue.typing import Counts

T = TypeVar("T")
FIRST, SECOND = "looking at values", "counting"


@dataclass(frozen=True, slots=True)
class FilePasses:
    """The passes over files with one layout; each worker holds at most `batch_rows` rows."""

    layout: Layout
    options: FileOptions = AS_DETECTED
    execution: Execution = HERE
    batch_rows: int = BATCH_ROWS

    def open(self, sources: Source | Sequence[Source]) -> list[Part]:
        """All files of the sources, each of which has all columns (see `open_parts`)."""
        if isinstance(sources, str | os.PathLike):
            sources = [sources]
        if not sources:
            raise InputError("at least one source is needed, got none")
        return [
            part
            for source in sources
            for part in open_parts(source, self.layout.columns, options=self.options)
        ]

    def tabulate(self, parts: Sequence[Part]) -> CellTable:
        """Fit the coders and count the distinct rows of the files."""
        looks = self.look(parts)
        table = self.fit(looks)
        keys, counts = self.count(parts, table.coders, looks)
        return replace(table, keys=keys, counts=counts)

    def look(self, parts: Sequence[Part], coders: Sequence[ColumnCoder] = ()) -> list[ColumnLook]:
        """Pass 1: one look per column; with the `coders` for rows added after the fit.

        Raises:
            InputError: No rows, a missing label, or columns of two types.
        """
        known = {coder.name for coder in coders if coder.kind == "categories" and not coder.is_empty}
        looks = settled_looks(
            new_looks(self.layout.columns, self.layout.coding, self.layout.label, known),
            lambda looks: self._look(parts, looks),
        )
        if looks[0].summary.n_samples == 0:
            raise InputError("the table has no rows")
        check_labels(looks[0].summary)
        return looks

    def fit(self, looks: Sequence[ColumnLook]) -> CellTable:
        """A table without rows, with the coders of all columns and remarks on them."""
        label, *features = looks
        coding = self.layout.coding
        owned = zip(self.layout.owners[1:], features, strict=True)
        fitted = [fit_label(label.summary, coding)]
        fitted += [fit_feature(party, look.summary, coding) for party, look in owned]
        coders, codings = zip(*fitted, strict=True)
        n_words = len(packing_of(coders).words)
        return CellTable(
            self.layout,
            coders,
            keys=np.empty((0, n_words), dtype=np.int64),
            counts=np.empty(0, dtype=np.int64),
            codings=codings,
            notes=(*label_notes(codings[0]), *column_notes(codings[1:])),
            warnings=label_warnings(codings[0], label.summary),
        )

    def count(
        self, parts: Sequence[Part], coders: Sequence[ColumnCoder], looks: Sequence[ColumnLook]
    ) -> tuple[NDArray[np.int64], Counts]:
        """Pass 2: the distinct rows of feature codes, packed, in lexicographic order, and their counts."""
        columns = tuple(look.streamed(coder) for coder, look in zip(coders, looks, strict=True))
        numbers = [look.name for look in looks if look.reading == "number"]
        packing = packing_of(coders)
        counter = CellCounter(len(packing.words))
        parts = [part.with_numbers(numbers) for part in parts]
        for keys, counts in self._map(_count, SECOND, parts, columns, packing):
            counter.add(keys, counts)
        return counter.cells()

    def _look(self, parts: Sequence[Part], looks: Sequence[ColumnLook]) -> list[ColumnLook]:
        parts = [part.selected([look.name for look in looks]) for part in parts]
        pieces = self._map(_look, FIRST, parts, looks)
        merged = next(pieces)
        for more_looks in pieces:
            for look, more in zip(merged, more_looks, strict=True):
                look.merge(more)
        return merged

    def _map(self, work: Callable[..., T], what: str, parts: Sequence[Part], *arguments: Any) -> Iterator[T]:
        """The result of the work for every piece of a file, in order."""
        if self.layout.coding.clean_labels:
            parts = [replace(part, labelled=self.layout.label) for part in parts]
        pieces = [piece for part in parts for piece in part.pieces()]
        report = _PassProgress(self.execution, what, len(pieces))
        if len(pieces) == 1 and self.execution.executor is None:
            yield work(pieces[0], self.batch_rows, report.rows, *arguments)
            report.piece()
            return
        tasks = ((piece, self.batch_rows, None, *arguments) for piece in pieces)
        # Reading, sorting and counting release the interpreter lock, so threads suffice by default.
        with engines.using(self.execution.executor) as executor:
            yield from engines.map_in_order(executor, work, tasks, done=lambda _: report.piece())


class _PassProgress:
    """Reports a pass by pieces of files, and by rows within a single one."""

    def __init__(self, execution: Execution, what: str, n_pieces: int) -> None:
        self._execution, self._what, self._n_pieces = execution, what, n_pieces
        self._done = self._rows_done = 0

    def rows(self, n: int) -> None:
        self._rows_done += n
        self._report(f"{self._what}, {self._rows_done:,} rows")

    def piece(self) -> None:
        self._done += 1
        self._report(self._what)

    def _report(self, note: str) -> None:
        passes_done = (self._what == SECOND) + self._done / self._n_pieces
        self._execution.report(passes_done / 2, 1.0, note)


def _batches(part: Part, batch_rows: int, on_rows: Callable[[int], None] | None) -> Iterator[Any]:
    for batch in part.batches(batch_rows):
        yield batch
        if on_rows is not None:
            on_rows(batch.num_rows)


def _look(
    part: Part, batch_rows: int, on_rows: Callable[[int], None] | None, looks: Sequence[ColumnLook]
) -> list[ColumnLook]:
    """Pass 1 over one piece."""
    return look_at(part, looks, _batches(part, batch_rows, on_rows))


def _count(
    part: Part,
    batch_rows: int,
    on_rows: Callable[[int], None] | None,
    columns: Sequence[StreamedColumn],
    packing: Packing,
) -> tuple[NDArray[np.int64], Counts]:
    """Pass 2 over one piece."""
    counter = CellCounter(len(packing.words))
    for batch in _batches(part, batch_rows, on_rows):
        counter.add(packing.pack([column.codes(batch) for column in columns]))
    return counter.cells()
