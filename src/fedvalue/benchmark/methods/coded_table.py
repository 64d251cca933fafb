"""A table's columns as codes, for the methods that count."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fedvalue.information.contingency import JointCounts, pack
from fedvalue.tables.coding_settings import CodingSettings
from fedvalue.tables.party_table import party_table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fedvalue.benchmark.problem import VerticalTable
    from fedvalue.datasets.dataset import Feature
    from fedvalue.tables.coding_settings import Binning
    from fedvalue.typing import Codes

BINS = 5
"""The paper's number of bins."""


@dataclass(frozen=True, slots=True, eq=False)
class CodedTable:
    """One code column per feature.

    Args:
        label: Code of the label per row.
        task: Code of each of the task party's features.
        parties: Code of each feature of each data party.
    """

    label: Codes = field(repr=False)
    task: tuple[Codes, ...] = field(repr=False)
    parties: Mapping[str, tuple[Codes, ...]] = field(repr=False)

    def coalition(self, mask: int) -> list[Codes]:
        """The feature codes of a coalition."""
        return [code for k, codes in enumerate(self.parties.values()) if mask >> k & 1 for code in codes]

    def joint_counts(self) -> JointCounts:
        """The paper's view: one joint code per party."""
        return JointCounts.from_columns(
            label=self.label,
            task=pack(list(self.task)) if self.task else None,
            parties={name: pack(list(codes)) for name, codes in self.parties.items()},
        )


def coded(table: VerticalTable, binning: Binning, bins: int = BINS) -> CodedTable:
    """Every feature in bins of equal width, or of equal content."""
    settings = CodingSettings(bins=bins, binning=binning)

    def codes(columns: Mapping[str, Feature]) -> tuple[Codes, ...]:
        return tuple(party_table(name, {name: column}, settings).codes for name, column in columns.items())

    return CodedTable(
        table.label, codes(table.task), {name: codes(columns) for name, columns in table.parties.items()}
    )
