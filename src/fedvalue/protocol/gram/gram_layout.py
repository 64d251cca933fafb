"""Which one-hot column is whose, and where the cells of tables lie in the matrix of all products."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np

from fedvalue.errors import InputError
from fedvalue.information.pair_tables import MAX_CELLS, PairLayout, PairTables, pair_layout
from fedvalue.protocol.settings import Settings

if TYPE_CHECKING:
    from numpy.typing import NDArray

N_CHECKS = 2
"""Check columns per party: a changed sum passes each with a chance of 2^-31."""

CHUNK_ROWS = 1 << 16
"""Most rows of a chunk: a server expands seeds to as many rows of every party at a time."""


@dataclass(frozen=True)
class GramLayout:
    """The one-hot columns of all parties: first the label's codes, then every feature's.

    Args:
        sizes: Codes of the label, then of each feature in the order of `pairs`.
        owner: Name of the party that holds each of them.
        pairs: Layout of the tables.
        everybody: All parties, the task party first.
        n_samples: Number of samples.
        chunk_bytes: Largest payload of a message.

    Raises:
        InputError: More products than a server is to hold (E_BUDGET). Parties and servers see this before
            any upload: otherwise one party's codes would decide how much memory every server needs.
    """

    sizes: tuple[int, ...]
    owner: tuple[str, ...]
    pairs: PairLayout
    everybody: tuple[str, ...]
    n_samples: int
    chunk_bytes: int

    def __post_init__(self) -> None:
        # Also those of a column with itself, which are in no table.
        n_products = self.width * (self.width + 1) // 2
        if n_products > MAX_CELLS:
            widest = max(self.everybody, key=self.width_of)
            raise InputError(
                f"{self.width:,} codes of all columns have {n_products:,} products, above the limit of "
                f"{MAX_CELLS:,}; {widest!r} has {self.width_of(widest):,} of the codes: use fewer columns, "
                "bins or categories",
                code="E_BUDGET",
            )

    @classmethod
    def of(cls, settings: Settings) -> GramLayout:
        """The layout that the sizes of a run give."""
        features = settings.features or (
            (settings.n_task_codes,) if settings.n_task_codes > 1 else (),
            *((size,) for size in settings.n_codes),
        )
        task, *others = features
        pairs = pair_layout(settings.parties, others, settings.n_label_codes, task=task)
        owner = [settings.task, *(settings.task for _ in task)]
        owner += [name for name, own in zip(settings.parties, others, strict=True) for _ in own]
        return cls(
            sizes=(settings.n_label_codes, *pairs.sizes),
            owner=tuple(owner),
            pairs=pairs,
            everybody=settings.everybody,
            n_samples=settings.n_samples,
            chunk_bytes=settings.chunk_bytes,
        )

    @cached_property
    def _ends(self) -> tuple[int, ...]:
        return (0, *accumulate(self.sizes))

    @property
    def width(self) -> int:
        """One-hot columns of all parties."""
        return self._ends[-1]

    def columns(self, feature: int) -> slice:
        """The columns of a feature; the label is feature 0."""
        return slice(self._ends[feature], self._ends[feature + 1])

    def features_of(self, party: str) -> list[int]:
        """The features of a party, which stand together."""
        return [f for f, owner in enumerate(self.owner) if owner == party]

    @cached_property
    def _columns_of(self) -> dict[str, slice]:
        own = {party: self.features_of(party) for party in self.everybody}
        return {party: slice(self._ends[f[0]], self._ends[f[-1] + 1]) for party, f in own.items()}

    def columns_of(self, party: str) -> slice:
        """The columns of a party."""
        return self._columns_of[party]

    def width_of(self, party: str) -> int:
        """One-hot columns of a party."""
        own = self.columns_of(party)
        return int(own.stop - own.start)

    @cached_property
    def chunk_rows(self) -> int:
        """Rows of one chunk, the same for all parties: the widest must fit."""
        widest = max(self.width_of(party) for party in self.everybody)
        return max(1, min(CHUNK_ROWS, self.chunk_bytes // (4 * (widest + N_CHECKS))))

    @property
    def n_chunks(self) -> int:
        """Number of chunks."""
        return -(-self.n_samples // self.chunk_rows)

    def rows(self, chunk: int) -> int:
        """Rows of a chunk."""
        return min(self.chunk_rows, self.n_samples - chunk * self.chunk_rows)

    def tables(self, gram: NDArray[np.int64], label_variance: float, pair_variance: float) -> PairTables:
        """The tables in the matrix of all products."""
        parts = [gram[self.columns(f + 1), self.columns(0)] for f in range(self.pairs.n_columns)]
        parts += [gram[self.columns(f + 1), self.columns(g + 1)] for f, g in self.pairs.pairs]
        cells = np.concatenate([part.ravel() for part in parts])
        return PairTables(self.pairs, cells, self.n_samples, label_variance, pair_variance)


def upload_bytes(layout: GramLayout) -> int:
    """Bytes that all parties upload: one component each, to two servers."""
    width = layout.width + N_CHECKS * len(layout.everybody)
    return 2 * 4 * width * layout.n_samples
