"""The label in words: its name, and what a right or a wrong prediction of it is.

A class is decided. An amount was cut into ranges, and nobody decides anything by a miss of a range.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fedvalue.tables.column_report import ColumnCoding
    from fedvalue.valuation.result import Valuation

LABEL, TASK = "label", "task"
"""Owners in the list of columns that are no data party."""


def label_column(valuation: Valuation) -> ColumnCoding | None:
    """How the label was coded, where the result knows it."""
    return next((column for column in valuation.columns if column.party == LABEL), None)


def label_of(valuation: Valuation) -> str:
    """Name of the label's column; empty where the result does not know it, as with an array."""
    column = label_column(valuation)
    return "" if column is None or column.name == LABEL else column.name


@dataclass(frozen=True, slots=True)
class PredictionWords:
    """Right and wrong predictions of a label, in words.

    Args:
        label: Its name.
        n_ranges: Of a label that is an amount; 0 for classes.
    """

    label: str
    n_ranges: int = 0

    @classmethod
    def of(cls, valuation: Valuation) -> PredictionWords:
        """The words for the label of a result."""
        column = label_column(valuation)
        is_amount = column is not None and column.kind == "amount"
        return cls(label_of(valuation) or "the label", column.n_codes if column and is_amount else 0)

    @property
    def ranges(self) -> str:
        """Where the amounts fall."""
        return f"{self.n_ranges} ranges of {self.label}"

    @property
    def gained(self) -> str:
        """What a gain counts."""
        if self.n_ranges:
            return f"additional cases per 1,000 in the right one of {self.ranges}"
        return "wrong decisions avoided per 1,000 cases"

    @property
    def wrong(self) -> str:
        """What an error rate counts."""
        if self.n_ranges:
            return f"cases in a wrong range of {self.label} per 1,000"
        return "wrong decisions per 1,000"

    def gain(self, avoided: str, *, wrong: str, right: str, right_before: str) -> str:
        """A gain as a verb phrase for several parties.

        Args:
            avoided: Errors avoided per 1,000 cases.
            wrong: Errors per 1,000 cases before.
            right: Right predictions per 1,000 cases.
            right_before: The same before.
        """
        if self.n_ranges:
            return f"put {right} instead of {right_before} of 1,000 cases into the right one of {self.ranges}"
        return f"avoid {avoided} of {wrong} wrong decisions per 1,000 cases"

    def measured(self, avoided: str, ending: str) -> str:
        """A measured gain as a verb phrase; `ending` is that of the verb."""
        if self.n_ranges:
            return f"put{ending} {avoided} more of 1,000 cases into the right one of {self.ranges}"
        return f"avoid{ending} {avoided} wrong decisions per 1,000 cases"
