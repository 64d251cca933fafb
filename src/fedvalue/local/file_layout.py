"""The owner of each column, and the counted rows of such columns.

A `CellTable` keeps every column's code separate, so that later rows with new categories can be added;
its joint counts join each party's columns into one code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from fedvalue.errors import InputError
from fedvalue.information.cells import Packing
from fedvalue.information.contingency import Codebook, JointCounts, narrow_type, pack
from fedvalue.tables.coding_settings import CodingSettings
from fedvalue.tables.column_coder import ColumnCoder
from fedvalue.tables.column_report import ColumnCoding
from fedvalue.tables.label import check_classes
from fedvalue.tables.party_table import joined

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fedvalue.typing import Codes, Counts


@dataclass(frozen=True, slots=True)
class Layout:
    """The owner of each column, and how columns are coded."""

    label: str
    task: tuple[str, ...]
    parties: tuple[tuple[str, tuple[str, ...]], ...]
    coding: CodingSettings

    @classmethod
    def of(
        cls,
        *,
        label: str,
        parties: Mapping[str, Sequence[str]],
        task: Sequence[str] = (),
        coding: CodingSettings | None = None,
    ) -> Layout:
        """The layout, checked.

        Raises:
            InputError: No party, a party without columns, a column with two owners, or PCA.
        """
        if not parties:
            raise InputError("at least one data party is needed, got none")
        owners = tuple((name, tuple(columns)) for name, columns in parties.items())
        layout = cls(label, tuple(task), owners, coding or CodingSettings())
        if layout.coding.pca is not None:
            raise InputError("pca needs whole columns in memory and cannot be used with streaming")
        for name, columns in layout.parties:
            if not columns:
                raise InputError(f"party {name!r}: at least one column is needed, got none")
        repeated = sorted({repr(name) for name in layout.columns if layout.columns.count(name) > 1})
        if repeated:
            raise InputError(f"a column can have one owner only; named twice: {', '.join(repeated)}")
        return layout

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns: the label's, the task party's, the data parties'."""
        return (self.label, *self.task, *(column for _, columns in self.parties for column in columns))

    @property
    def owners(self) -> tuple[str, ...]:
        """The owner of each column, as results name it."""
        parties = (name for name, columns in self.parties for _ in columns)
        return ("label", *("task" for _ in self.task), *parties)


@dataclass(frozen=True, slots=True, eq=False)
class CellTable:
    """Distinct rows of feature codes with their counts, which a state keeps and adds to.

    Args:
        coders: One per column of the layout, in its order.
        keys: The distinct rows in lexicographic order, packed as in `packing_of(coders)`.
        counts: Samples per row.
        notes: Remarks on the coding, one sentence each.
        warnings: Of the label.
    """

    layout: Layout
    coders: tuple[ColumnCoder, ...]
    keys: NDArray[np.int64] = field(repr=False)
    counts: Counts = field(repr=False)
    codings: tuple[ColumnCoding, ...] = field(default=(), repr=False)
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def n_samples(self) -> int:
        """Number of samples counted."""
        return int(self.counts.sum())

    def column(self, name: str) -> Codes:
        """The code of one column per distinct row."""
        return packing_of(self.coders).column(self.keys, self.layout.columns.index(name))

    def joint_counts(self) -> JointCounts:
        """The joint counts, each party's features joined into one code; refuses a constant label."""
        label = pack([self.column(self.layout.label)])
        check_classes(self.layout.label, int(label.max()) + 1)
        task, task_codebook = self._joined(self.layout.task) if self.layout.task else (None, None)
        parties = {name: self._joined(columns) for name, columns in self.layout.parties}
        return JointCounts.from_columns(
            label=label,
            task=task,
            parties={name: codes for name, (codes, _) in parties.items()},
            count=self.counts,
            n_codes=[codebook.n_codes for _, codebook in parties.values()],
            codebooks=[codebook for _, codebook in parties.values()],
            task_codebook=task_codebook,
        )

    def _joined(self, columns: Sequence[str]) -> tuple[NDArray[np.integer], Codebook]:
        codes, codebook = joined(columns, [self.column(name) for name in columns])
        return codes.astype(narrow_type(codes)), codebook


def packing_of(coders: Sequence[ColumnCoder]) -> Packing:
    """How the codes of these columns are packed."""
    return Packing(tuple(max(coder.n_codes, 1) for coder in coders))
