"""One-way and two-way tables of feature columns: all that a low-order valuation needs.

For F columns x_f and a label y: N(x_f, y) of every column, and N(x_f, x_g) of every pair of columns. Their
size does not depend on the number of rows, and one person moves few of their cells, so noise can be added
to them as a whole (decision 0320).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, combinations
from typing import TYPE_CHECKING

import numpy as np

from fedvalue.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fedvalue.information.contingency import Codebook, JointCounts

TASK = -1
"""Owner of the task party's columns."""

MAX_CELLS = 2**22
"""Cells of all tables together: about half a minute of drawing noise."""


@dataclass(frozen=True, slots=True)
class PairLayout:
    """Which columns there are and how large their tables are; everything here is public.

    Args:
        sizes: Codes of each column.
        owner: Per column the index of the party that holds it, or TASK.
        n_labels: Number of labels.
        parties: Names of the data parties.

    Raises:
        InputError: Sizes that do not fit together, or too many cells (E_BUDGET).
    """

    sizes: tuple[int, ...]
    owner: tuple[int, ...]
    n_labels: int
    parties: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(self.sizes) != len(self.owner) or not self.sizes or min(self.sizes) < 1 or self.n_labels < 1:
            raise InputError(f"{len(self.sizes)} columns and {len(self.owner)} owners do not fit together")
        if self.n_cells > MAX_CELLS:
            raise InputError(
                f"the tables of all pairs of {self.n_columns} columns have {self.n_cells:,} cells, above the "
                f"limit of {MAX_CELLS:,}: use fewer columns, bins or categories",
                code="E_BUDGET",
            )

    @property
    def n_columns(self) -> int:
        """Number of columns, F."""
        return len(self.sizes)

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """All pairs of columns f < g, in the order of their tables."""
        return list(combinations(range(self.n_columns), 2))

    @property
    def n_label_cells(self) -> int:
        """Cells of the tables N(x_f, y)."""
        return sum(self.sizes) * self.n_labels

    @property
    def n_cells(self) -> int:
        """Cells of all tables."""
        return self.n_label_cells + (sum(self.sizes) ** 2 - sum(size**2 for size in self.sizes)) // 2


@dataclass(frozen=True, slots=True, eq=False)
class PairTables:
    """The tables of one data set.

    Args:
        layout: Their sizes.
        cells: All cells: the tables N(x_f, y) in the order of columns, then N(x_f, x_g) in the order of
            `layout.pairs`, each row by row.
        n_samples: Number of samples.
        label_variance: Variance of the noise in each cell of N(x_f, y); 0 where they are exact.
        pair_variance: The same for N(x_f, x_g).
    """

    layout: PairLayout
    cells: NDArray[np.int64] = field(repr=False)
    n_samples: int
    label_variance: float = 0.0
    pair_variance: float = 0.0

    def __post_init__(self) -> None:
        if self.cells.shape != (self.layout.n_cells,):
            raise InputError(f"expected {self.layout.n_cells} cells, got {self.cells.shape}")

    @property
    def exact(self) -> bool:
        """No noise was added."""
        return self.label_variance == 0.0 and self.pair_variance == 0.0

    def with_noise(
        self, noise: Sequence[int] | NDArray[np.int64], label_variance: float, pair_variance: float
    ) -> PairTables:
        """The same with noise on every cell."""
        noisy = self.cells + np.asarray(noise, dtype=np.int64)
        return replace(self, cells=noisy, label_variance=label_variance, pair_variance=pair_variance)

    def label_tables(self) -> list[NDArray[np.int64]]:
        """N(x_f, y) of every column, shape (n_codes, n_labels)."""
        shapes = [(size, self.layout.n_labels) for size in self.layout.sizes]
        return list(_cut(self.cells, shapes))

    def pair_table(self) -> dict[tuple[int, int], NDArray[np.int64]]:
        """N(x_f, x_g) by pair of columns f < g."""
        sizes, pairs = self.layout.sizes, self.layout.pairs
        rest = self.cells[self.layout.n_label_cells :]
        return dict(zip(pairs, _cut(rest, [(sizes[f], sizes[g]) for f, g in pairs]), strict=True))


def _cut(cells: NDArray[np.int64], shapes: Sequence[tuple[int, int]]) -> Iterator[NDArray[np.int64]]:
    at = 0
    for rows, columns in shapes:
        yield cells[at : at + rows * columns].reshape(rows, columns)
        at += rows * columns


def tables_of_columns(
    layout: PairLayout,
    columns: Sequence[NDArray[np.int64]],
    label: NDArray[np.int64],
    count: NDArray[np.int64] | None = None,
) -> PairTables:
    """Count the tables of code columns; `count` is the number of samples per row, 1 each when None."""
    weights = np.ones(len(label)) if count is None else count.astype(np.float64)
    coded = list(zip(columns, layout.sizes, strict=True))
    crossed = [(column, (label, layout.n_labels)) for column in coded]
    crossed += [(coded[f], coded[g]) for f, g in layout.pairs]
    parts = [np.bincount(x * n_y + y, weights=weights, minlength=n_x * n_y) for (x, n_x), (y, n_y) in crossed]
    # Sums of whole numbers below 2^53 are exact in floating point.
    cells = np.concatenate(parts).astype(np.int64)
    return PairTables(layout, cells, int(weights.sum()))


def pair_layout(
    parties: Sequence[str], features: Sequence[Sequence[int]], n_labels: int, *, task: Sequence[int] = ()
) -> PairLayout:
    """The layout of the task party's columns, then of each data party's, in their order.

    `features` and `task` hold the number of codes of each column.
    """
    owner = [TASK] * len(task) + [k for k, sizes in enumerate(features) for _ in sizes]
    sizes = [*task, *chain.from_iterable(features)]
    return PairLayout(tuple(sizes), tuple(owner), n_labels, tuple(parties))


def pair_tables(counts: JointCounts, layout: PairLayout) -> PairTables:
    """The tables of joint counts: of the features behind their codebooks, or of one code per party.

    Raises:
        InputError: The layout does not describe these counts.
    """
    columns: list[NDArray[np.int64]] = []
    if TASK in layout.owner:
        columns += _columns(counts.task, counts.task_codebook)
    books = counts.codebooks or (None,) * len(counts.names)
    for k, book in enumerate(books):
        columns += _columns(counts.parties[:, k], book)
    if len(columns) != layout.n_columns or any(
        int(column.max()) >= size for column, size in zip(columns, layout.sizes, strict=True)
    ):
        raise InputError("the columns of these counts are not those that were agreed")
    return tables_of_columns(layout, columns, counts.label.astype(np.int64), counts.count)


def _columns(codes: NDArray[np.integer], book: Codebook | None) -> list[NDArray[np.int64]]:
    if book is None:
        return [codes.astype(np.int64)]
    return [np.ascontiguousarray(book.codes[codes, k]) for k in range(book.n_features)]
