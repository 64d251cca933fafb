"""One party's table in batches, for tables larger than memory.

Two passes. The first fits the coders (`PartyStream.open`), the second yields ids and codes
(`batches`). A joint code is the rank of its features' codes among those that occur, which is known only
after the last row: until then codes are numbered in order of appearance, and `ranks` maps these numbers to
codes. The codes equal those of `party_table` and `label_table`. There is no PCA, which needs whole columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from fedvalue.errors import InputError
from fedvalue.information.cells import CellCounter, Packing
from fedvalue.information.contingency import Codebook
from fedvalue.tables.coding_settings import CodingSettings
from fedvalue.tables.column_report import ColumnCoding, fit_feature
from fedvalue.tables.file_options import AS_DETECTED, FileOptions
from fedvalue.tables.label import check_classes, fit_label, label_notes, label_warnings
from fedvalue.tables.parts import BATCH_ROWS, Part, Source, shown
from fedvalue.tables.party_table import column_notes
from fedvalue.tables.sources import open_parts
from fedvalue.tables.streamed_columns import ColumnLook, StreamedColumn, look_at, new_looks, settled_looks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fedvalue.typing import Codes, Counts


class JointNumbers:
    """Joint codes of streamed columns: numbered in order of appearance, ranked at the end.

    Without columns there is one code.
    """

    def __init__(self, columns: Sequence[StreamedColumn]) -> None:
        self._columns = columns
        # A column without values has one code too.
        self._packing = Packing(tuple(max(column.coder.n_codes, 1) for column in columns) or (1,))
        self._counter = CellCounter(len(self._packing.words))

    @property
    def n_codes(self) -> int:
        """Number of distinct codes so far."""
        return self._counter.n_cells

    def number(self, batch: Any) -> NDArray[np.int64]:
        """The numbers of the next rows."""
        codes = [column.codes(batch) for column in self._columns]
        return self._counter.number(self._packing.pack(codes or [np.zeros(batch.num_rows, dtype=np.int64)]))

    def ranks(self) -> Codes:
        """The code that each number stands for."""
        return self._counter.ranks()

    def counts(self) -> Counts:
        """Samples per code."""
        return self._counter.cells()[1]

    def codebook(self) -> Codebook | None:
        """The feature codes behind each code; None without features."""
        if not self._columns:
            return None
        codes = np.column_stack(self._packing.unpack(self._counter.cells()[0]))
        return Codebook(tuple(column.coder.name for column in self._columns), codes)


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Some rows: the ids as an Arrow array, and one array of numbers per joint column."""

    ids: Any = field(repr=False)
    numbers: tuple[NDArray[np.int64], ...] = field(repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class PartyStream:
    """A party's table whose coders are known.

    Args:
        id: Column of the sample ids.
        label: Column of the label, for the task party.
        columns: One joint column of the features, and one of the label.
        notes: On the coding of columns.
        warnings: About the label.
        most_codes: Most joint codes; None for any number.
        batch_rows: Rows in memory at a time.
    """

    parts: tuple[Part, ...]
    id: str
    label: str | None
    columns: tuple[JointNumbers, ...]
    codings: tuple[ColumnCoding, ...]
    notes: tuple[str, ...]
    warnings: tuple[str, ...]
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
        settings: CodingSettings | None = None,
        most_codes: int | None = None,
        batch_rows: int = BATCH_ROWS,
        options: FileOptions = AS_DETECTED,
    ) -> PartyStream:
        """Make the first pass over a file, a folder or a database URI.

        The ids are read as text. `features` may be empty if there is a label; `settings` must be without PCA.
        A table with more than `most_codes` joint codes is refused before they fill the memory.
        """
        settings = settings or CodingSettings()
        names = [*([] if label is None else [label]), *features]
        parts = open_parts(source, [id, *names], text_columns=(id,), options=options)
        looks = settled_looks(
            new_looks(names, settings, label), lambda looks: _read(parts, looks, batch_rows)
        )
        n_samples = looks[0].summary.n_samples
        if n_samples == 0:
            raise InputError(f"{shown(source)}: the table has no rows")
        columns, codings, notes, warnings = _fitted(looks, label, settings)
        numbers = [look.name for look in looks if look.reading == "number"]
        parts = [part.with_numbers(numbers) for part in parts]
        return cls(
            tuple(parts), id, label, columns, codings, notes, warnings, n_samples, most_codes, batch_rows
        )  # fmt: skip

    def batches(self) -> Iterator[Batch]:
        """Make the second pass.

        Raises:
            InputError: The files changed since the first pass, the label is constant, or there are too
                many codes.
        """
        n, where = 0, self.parts[0].name
        batches = (batch for part in self.parts for batch in part.batches(self.batch_rows))
        for rows in _gathered(batches, self.batch_rows):
            numbers = tuple(column.number(rows) for column in self.columns)
            self._check_codes()
            n += rows.num_rows
            yield Batch(rows.column(self.id), numbers)
        if n != self.n_samples:
            raise InputError(f"{where}: had {self.n_samples} rows when it was first read, now has {n}")
        if self.label is not None:
            check_classes(self.label, self.columns[1].n_codes)

    def _check_codes(self) -> None:
        if self.most_codes is not None and max(c.n_codes for c in self.columns) > self.most_codes:
            raise InputError(
                f"{self.parts[0].name}: the columns together have more than the {self.most_codes} codes "
                "that are allowed: use fewer features or bins",
                code="E_GATE",
            )


def _read(parts: Sequence[Part], looks: list[ColumnLook], batch_rows: int) -> list[ColumnLook]:
    """Read the columns of these looks, without the ids: reading them is half of the work."""
    names = [look.name for look in looks]
    for part in parts:
        mine = look_at(part, looks, part.selected(names).batches(batch_rows))
        for look, more in zip(looks, mine, strict=True):
            look.merge(more)
    return looks


def _fitted(
    looks: Sequence[ColumnLook], label: str | None, settings: CodingSettings
) -> tuple[tuple[JointNumbers, ...], tuple[ColumnCoding, ...], tuple[str, ...], tuple[str, ...]]:
    features = looks if label is None else looks[1:]
    fitted = [fit_feature("", look.summary, settings) for look in features]
    coders = [coder for coder, _ in fitted]
    columns = [JointNumbers([look.streamed(coder) for look, coder in zip(features, coders, strict=True)])]
    codings = [coding for _, coding in fitted]
    notes = column_notes(codings)
    warnings: tuple[str, ...] = ()
    if label is not None:
        coder, coding = fit_label(looks[0].summary, settings)
        columns.append(JointNumbers([looks[0].streamed(coder)]))
        codings.append(coding)
        notes = (*notes, *label_notes(coding))
        warnings = label_warnings(coding, looks[0].summary)
    return tuple(columns), tuple(codings), notes, warnings


def _gathered(batches: Iterable[Any], n_rows: int) -> Iterator[Any]:
    """Small batches concatenated to at most about `n_rows` rows."""
    waiting: list[Any] = []
    for batch in batches:
        if waiting and sum(earlier.num_rows for earlier in waiting) + batch.num_rows > n_rows:
            yield one_batch(waiting)
            waiting = []
        waiting.append(batch)
    if waiting:
        yield one_batch(waiting)


def one_batch(batches: list[Any]) -> Any:
    """Record batches with rows, concatenated."""
    return pa.Table.from_batches(batches).combine_chunks().to_batches()[0]
