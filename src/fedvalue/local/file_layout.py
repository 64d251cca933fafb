"""Which column belongs to whom, and the counted rows of such columns.

A `CellTable` keeps every column's code apart, so that later rows with new categories can be added;
its joint counts join each party's columns into one code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fedvalue.errors import InputError
from fedvalue.information.contingency import JointCounts
from fedvalue.tables.coding import ColumnCoding
from fedvalue.tables.discretise import check_bins
from fedvalue.tables.party_table import check_classes, joint_code

if TYPE_CHECKING:
    from fedvalue.typing import Codes, Counts


@dataclass(frozen=True, slots=True)
class Layout:
    """Which column belongs to whom, and how numbers are binned.

    Args:
        label: The label's column.
        task: The task party's columns, possibly none.
        parties: Each data party's name and columns.
        bins: Bins of a numeric column.
    """

    label: str
    task: tuple[str, ...]
    parties: tuple[tuple[str, tuple[str, ...]], ...]
    bins: int = 5

    @classmethod
    def of(
        cls, *, label: str, parties: Mapping[str, Sequence[str]], task: Sequence[str] = (), bins: int = 5
    ) -> Layout:
        """The layout, checked.

        Raises:
            InputError: No party, a party without columns, a column with two owners, bins < 2.
        """
        check_bins(bins)
        if not parties:
            raise InputError("at least one data party is needed, got none")
        layout = cls(
            label, tuple(task), tuple((name, tuple(columns)) for name, columns in parties.items()), bins
        )
        for name, columns in layout.parties:
            if not columns:
                raise InputError(f"party {name!r}: expected at least one column, got none")
        repeated = sorted({name for name in layout.columns if layout.columns.count(name) > 1})
        if repeated:
            raise InputError(f"a column can have one owner, got {repeated} with several")
        return layout

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns: the label's, the task party's, the data parties'."""
        return (self.label, *self.task, *(column for _, columns in self.parties for column in columns))


@dataclass(frozen=True, slots=True, eq=False)
class CellTable:
    """Distinct rows of feature codes with their counts: what a state keeps and adds to.

    Args:
        layout: Which column belongs to whom.
        codings: One per column of the layout, in its order.
        codes: One code column per column of the layout, in lexicographic order of the rows.
        counts: Samples per row.
        notes: What a person should know about the coding.
    """

    layout: Layout
    codings: tuple[ColumnCoding, ...]
    codes: tuple[Codes, ...] = field(repr=False)
    counts: Counts = field(repr=False)
    notes: tuple[str, ...] = ()

    @property
    def n_samples(self) -> int:
        """Number of samples counted."""
        return int(self.counts.sum())

    def joint_counts(self) -> JointCounts:
        """The joint counts, each party's features joined into one code.

        Raises:
            InputError: The label is constant.
        """
        place = {name: k for k, name in enumerate(self.layout.columns)}

        def joined(columns: Sequence[str]) -> tuple[Codes, int]:
            return joint_code([self.codes[place[name]] for name in columns])

        label, n_labels = joined([self.layout.label])
        check_classes(self.layout.label, n_labels)
        parties = {name: joined(columns) for name, columns in self.layout.parties}
        return JointCounts.from_columns(
            label=label,
            task=joined(self.layout.task)[0] if self.layout.task else None,
            parties={name: codes for name, (codes, _) in parties.items()},
            count=self.counts,
            n_codes=[n_codes for _, n_codes in parties.values()],
        )
