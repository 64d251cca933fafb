"""A problem of the benchmark: the table that methods see, and the rows kept for the truth."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from fedvalue.errors import InputError

if TYPE_CHECKING:
    from fedvalue.datasets.dataset import Feature
    from fedvalue.typing import Codes, Floats


@dataclass(frozen=True, slots=True, eq=False)
class VerticalTable:
    """Aligned rows of a task party and data parties.

    Args:
        label: Code of the label per row, from 0.
        task: The task party's columns by name; empty when it has the label only.
        parties: Each data party's columns by name; a missing number is NaN, a missing text "".
    """

    label: Codes = field(repr=False)
    task: Mapping[str, Feature] = field(repr=False)
    parties: Mapping[str, Mapping[str, Feature]] = field(repr=False)

    @property
    def names(self) -> tuple[str, ...]:
        """The data parties, in order; party k is bit k of a coalition's mask."""
        return tuple(self.parties)

    @property
    def n_samples(self) -> int:
        """Number of rows."""
        return len(self.label)

    @property
    def n_parties(self) -> int:
        """Number of data parties."""
        return len(self.parties)

    @property
    def everybody(self) -> int:
        """Mask of the coalition of all data parties."""
        return (1 << self.n_parties) - 1

    def columns(self, mask: int = 0) -> dict[str, Feature]:
        """The columns of the task party and of a coalition, as "party.column"."""
        held = {f"task.{name}": column for name, column in self.task.items()}
        for k, (party, columns) in enumerate(self.parties.items()):
            if mask >> k & 1:
                held |= {f"{party}.{name}": column for name, column in columns.items()}
        return held


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """One setting's data.

    Args:
        name: Unique within a run.
        source: The data set or world it comes from.
        table: The rows that methods see.
        unseen: Further rows, on which retrained models are tested; None for cross-validation.
        noise: The party whose rows were shuffled, or None.
        game: Known values of all coalitions by mask, where the population is known.
        seed: Seeds folds and models.
    """

    name: str
    source: str
    table: VerticalTable
    unseen: VerticalTable | None = None
    noise: str | None = None
    game: Floats | None = field(default=None, repr=False)
    seed: int = 0

    def __post_init__(self) -> None:
        if self.noise is not None and self.noise not in self.table.parties:
            raise InputError(f"{self.name}: the noise party {self.noise!r} is not one of {self.table.names}")

    @property
    def key(self) -> str:
        """SHA-256 over everything that a valuation or a retraining depends on."""
        digest = hashlib.sha256(f"{self.seed}".encode())
        for table in (self.table, self.unseen):
            if table is None:
                digest.update(b"none")
                continue
            digest.update(np.ascontiguousarray(table.label, dtype="<i8").tobytes())
            for name, column in table.columns(table.everybody).items():
                digest.update(f"\n{name}\n".encode())
                if column.dtype.kind == "U":
                    digest.update("\n".join(column.tolist()).encode())
                else:
                    digest.update(np.ascontiguousarray(column, dtype="<f8").tobytes())
        return digest.hexdigest()
