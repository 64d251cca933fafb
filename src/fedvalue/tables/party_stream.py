"""One party's table in batches, for tables that need not fit into memory.

Two passes. The first fits the codings (`PartyStream.open`), the second yields ids and codes
(`batches`). A joint code is the rank of its features' codes among those that occur, which is known
when the last row has been read: until then codes are numbered as they are first met, and `ranks`
tells in the end what each of these numbers stands for. The codes are those of `party_table` and
`label_table`. Quantile bins and PCA need whole columns at once and are not for streams.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from fedvalue.errors import InputError
from fedvalue.tables.cells import CellCounter, Packing
from fedvalue.tables.coding import ColumnCoding
from fedvalue.tables.columns import Column, columns_of
from fedvalue.tables.discretise import check_bins, fit_summary
from fedvalue.tables.parts import BATCH_ROWS, Part, open_parts, with_types
from fedvalue.tables.party_table import check_classes, feature_notes, fit_label, label_summary
from fedvalue.tables.sources import Source, shown
from fedvalue.tables.summary import Summary

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fedvalue.typing import Codes, Counts


class JointNumbers:
    """Joint codes of columns that come in batches: numbered as they are met, ranked in the end.

    Args:
        codings: How the columns are coded; no columns give one code.
    """

    def __init__(self, codings: Sequence[ColumnCoding]) -> None:
        self._codings = codings
        # A constant column of no columns has one code too.
        self._packing = Packing(tuple(max(coding.n_codes, 1) for coding in codings) or (1,))
        self._counter = CellCounter(len(self._packing.words))

    @property
    def n_codes(self) -> int:
        """Number of distinct codes so far."""
        return self._counter.n_cells

    def number(self, columns: Mapping[str, Column], n: int) -> NDArray[np.int64]:
        """The numbers of the next `n` rows."""
        codes = [coding.codes(columns[coding.name]) for coding in self._codings]
        return self._counter.number(self._packing.pack(codes or [np.zeros(n, dtype=np.int64)]))

    def ranks(self) -> Codes:
        """The code that each number stands for."""
        return self._counter.ranks()

    def counts(self) -> Counts:
        """How many samples have each code."""
        return self._counter.cells()[1]


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Some rows: the ids as an Arrow array, and one array of numbers per joint column."""

    ids: Any = field(repr=False)
    numbers: tuple[NDArray[np.int64], ...] = field(repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class PartyStream:
    """A party's table whose codings are known.

    Args:
        parts: The files.
        id: Column of the sample ids.
        label: Column of the label, for the task party.
        columns: One joint column of the features, and one of the label.
        notes: What a person should know about the codings.
        n_samples: Number of rows.
        most_codes: How many codes a column may have; None for any number.
        batch_rows: Rows in memory at a time.
    """

    parts: tuple[Part, ...]
    id: str
    label: str | None
    columns: tuple[JointNumbers, ...]
    notes: tuple[str, ...]
    n_samples: int
    most_codes: int | None
    batch_rows: int

    @classmethod
    def open(
        cls,
        source: Source,
        *,
        id: str,
        features: Sequence[str],
        label: str | None = None,
        bins: int = 5,
        most_codes: int | None = None,
        batch_rows: int = BATCH_ROWS,
    ) -> PartyStream:
        """The first pass.

        Args:
            source: A file, a folder or a database URI.
            id: Column of the sample ids, read as text.
            features: Columns of the features; none is possible with a label.
            label: Column of the label, for the task party.
            bins: Bins of equal width of a numeric column.
            most_codes: Refuse a table with more codes, before they fill the memory.
            batch_rows: Rows in memory at a time.

        Raises:
            InputError: As of `read_table`, `party_table` and `label_table`; too many categories.
        """
        check_bins(bins)
        wanted = [id, *([] if label is None else [label]), *features]

        def look(parts: list[Part]) -> tuple[list[Part], list[Summary]]:
            summaries = [] if label is None else [label_summary(label, bins=bins)]
            summaries += [Summary(name, limit=bins) for name in features]
            for part in parts:
                _summarise(_without(id, part), summaries, most_codes, batch_rows)
            return parts, summaries

        parts, summaries = with_types(
            lambda sure: open_parts(source, wanted, text_columns=(id,), sure=sure), look
        )
        n_samples = summaries[0].n_samples
        if n_samples == 0:
            raise InputError(f"{shown(source)}: expected at least one row, got none")
        own = summaries[0 if label is None else 1 :]
        codings = [fit_summary(summary, bins=bins) for summary in own]
        notes = feature_notes({summary.name: summary.n_missing for summary in own}, codings)
        columns = [JointNumbers(codings)]
        if label is not None:
            label_coding, more = fit_label(summaries[0], bins=bins)
            columns.append(JointNumbers([label_coding]))
            notes = (*notes, *more)
        return cls(tuple(parts), id, label, tuple(columns), notes, n_samples, most_codes, batch_rows)

    def batches(self) -> Iterator[Batch]:
        """The second pass.

        Raises:
            InputError: The files are not what they were in the first pass, the label is constant, or
                there are too many codes.
        """
        n, where = 0, shown(self.parts[0].path)
        batches = (batch for part in self.parts for batch in part.batches(self.batch_rows))
        for rows in _gathered(batches, self.batch_rows):
            names = [name for name in rows.schema.names if name != self.id]
            columns = columns_of(rows.select(names), name=where) if names else {}
            numbers = tuple(column.number(columns, rows.num_rows) for column in self.columns)
            for column in self.columns:
                _check_number("the columns together", column.n_codes, self.most_codes)
            n += rows.num_rows
            yield Batch(rows.column(self.id), numbers)
        if n != self.n_samples:
            raise InputError(f"{where}: expected {self.n_samples} rows again, got {n}")
        if self.label is not None:
            check_classes(self.label, self.columns[1].n_codes)


def _without(name: str, part: Part) -> Part:
    """The part without the ids, which the first pass does not need; reading them is half of its work."""
    rest = [known for known in part.schema if known.name != name]
    # Columns that come from the folder's name alone have no rows of their own.
    return replace(part, schema=pa.schema(rest)) if rest and not part.constants else part


def _summarise(part: Part, summaries: Sequence[Summary], most_codes: int | None, batch_rows: int) -> None:
    for batch in part.batches(batch_rows):
        columns = columns_of(batch, name=shown(part.path))
        for summary in summaries:
            summary.add(columns[summary.name])
            kept = len(summary.categories) + len(summary.numbers or ())
            _check_number(f"column {summary.name!r}", kept, most_codes)


def _check_number(what: str, n_codes: int, most: int | None) -> None:
    if most is not None and n_codes > most:
        raise InputError(
            f"{what}: expected at most {most} distinct codes, got more: use fewer features or bins",
            code="E_GATE",
        )


def _gathered(batches: Iterable[Any], n_rows: int) -> Iterator[Any]:
    """Small batches put together into larger ones of at most about `n_rows`."""
    waiting: list[Any] = []
    for batch in batches:
        if waiting and sum(one.num_rows for one in waiting) + batch.num_rows > n_rows:
            yield _one(waiting)
            waiting = []
        waiting.append(batch)
    if waiting:
        yield _one(waiting)


def _one(batches: list[Any]) -> Any:
    if len(batches) == 1:
        return batches[0]
    table = pa.Table.from_batches(batches).combine_chunks()
    return pa.RecordBatch.from_arrays([column.chunk(0) for column in table.columns], schema=table.schema)
