"""What is known of the columns once they are coded, before they are valued."""

from __future__ import annotations

from dataclasses import dataclass

from fedvalue.tables.column_report import ColumnCoding


@dataclass(frozen=True, slots=True)
class Coded:
    """The coded columns of a valuation.

    Args:
        n_samples: Rows.
        columns: How each column was coded; the label comes first.
        warnings: What a person should know about label and columns.
    """

    n_samples: int
    columns: tuple[ColumnCoding, ...]
    warnings: tuple[str, ...]
