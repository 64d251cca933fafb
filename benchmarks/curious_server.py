"""What a curious `mirror` server recovers with public statistics: the table of docs/security.md.

A server sees one renamed code per column and row, and knows which column is the label. The attacker has a
disjoint half of the data set, as if it were a public survey of the same population, and works by maximum
likelihood:

1. Columns, where it does not know them, by their frequencies together with the label (an assignment problem).
2. Codes by their joint counts with the label, then again and again with all columns as they are named now.

A cell counts as read if its column and its code have their right names.

Run: python benchmarks/curious_server.py
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from fedvalue.datasets.dataset import load

Codes = NDArray[np.int64]
Matrix = NDArray[np.float64]
BINS = 5
ROUNDS = 4
SEEDS = 3


def coded(column: NDArray[np.float64], binning: str) -> Codes:
    """Five bins; few distinct values stay as they are."""
    if len(np.unique(column)) > BINS:
        inner = np.linspace(0, 1, BINS + 1)[1:-1]
        low, high = np.nanmin(column), np.nanmax(column)
        edges = np.nanquantile(column, inner) if binning == "quantile" else low + inner * (high - low)
        column = np.searchsorted(np.unique(edges), column).astype(float)
    codes: Codes = np.unique(column, return_inverse=True)[1].astype(np.int64)
    return codes


def columns_of(name: str, most: int, binning: str) -> list[Codes]:
    """All columns of a data set, the label first."""
    dataset = load(name)
    rows = np.random.default_rng(0).permutation(dataset.n_samples)[:most]
    columns = [np.unique(np.asarray(dataset.y)[rows], return_inverse=True)[1].astype(np.int64)]
    for feature in dataset.feature_names:
        raw = np.asarray(dataset.columns([feature])[feature])[rows]
        numbers = raw if raw.dtype.kind in "biuf" else np.unique(raw, return_inverse=True)[1]
        columns.append(coded(numbers.astype(float), binning))
    return columns


def joint(a: Codes, b: Codes, size: int) -> Matrix:
    """Counts of two columns' codes."""
    return np.bincount(a * size + b, minlength=size * size).reshape(size, size).astype(float)


def log_odds(a: Codes, b: Codes, size: int) -> Matrix:
    """Smoothed log probabilities of two public columns' codes."""
    table = joint(a, b, size) + 0.5
    logs: Matrix = np.log(table / table.sum())
    return logs


class Attacker:
    """Names columns and codes.

    Args:
        public: The columns of the public half, the label first.
        seen: The renamed columns, the label first.
        columns_known: Whether the attacker knows which column is which.
    """

    def __init__(self, public: Sequence[Codes], seen: Sequence[Codes], *, columns_known: bool) -> None:
        self.public, self.seen = public, seen
        self.size = 1 + max(int(column.max()) for column in (*public, *seen))
        self.column = list(range(len(seen)))
        self.code = [self._by_frequency(j, j) for j in self.column]
        if not columns_known:
            self._guess_columns()
        for j in self.column[1:]:
            self.code[j] = self._named(j, self.column[j], [0])[0]
        for _ in range(ROUNDS):
            for j in range(1, len(seen)):
                self.code[j] = self._named(j, self.column[j], range(len(seen)))[0]

    def _by_frequency(self, j: int, k: int) -> Codes:
        out = np.zeros(self.size, dtype=np.int64)
        mine, theirs = (np.bincount(c, minlength=self.size) for c in (self.seen[j], self.public[k]))
        out[np.argsort(-mine, kind="stable")] = np.argsort(-theirs, kind="stable")
        return out

    def _named(self, j: int, k: int, against: Iterable[int]) -> tuple[Codes, float]:
        """Codes of seen column j taken for public column k, and their log-likelihood."""
        gain = np.zeros((self.size, self.size))
        for i in against:
            if i != j:
                counts = joint(self.seen[j], self.code[i][self.seen[i]], self.size)
                gain += counts @ log_odds(self.public[k], self.public[self.column[i]], self.size).T
        rows, codes = linear_sum_assignment(-gain)
        return codes.astype(np.int64), float(gain[rows, codes].sum())

    def _guess_columns(self) -> None:
        others = range(1, len(self.seen))
        scores = np.array([[self._named(j, k, [0])[1] for k in others] for j in others])
        self.column[1:] = [1 + int(k) for k in linear_sum_assignment(-scores)[1]]


def recovered(columns: Sequence[Codes], *, columns_known: bool, seed: int) -> float:
    """Part of the cells, without the label's, that the attacker reads."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(columns[0]))
    public, secret = order[: len(order) // 2], order[len(order) // 2 :]
    names = [rng.permutation(int(column.max()) + 1) for column in columns]
    places = [0, *(1 + rng.permutation(len(columns) - 1))]
    if columns_known:
        places = list(range(len(columns)))
    seen = [names[k][columns[k][secret]] for k in places]
    attacker = Attacker([column[public] for column in columns], seen, columns_known=columns_known)
    hits = [
        (attacker.column[j] == k) * (attacker.code[j][seen[j]] == columns[k][secret]).mean()
        for j, k in enumerate(places)
    ]
    return float(np.mean(hits[1:]))


def main() -> None:
    """Print the table."""
    print("| data set, rows seen | bins | columns known to it | columns guessed too |")
    print("| --- | --- | --- | --- |")
    for name, most in (("breast", 10**9), ("wine", 10**9), ("credit", 20_000)):
        for binning in ("quantile", "width"):
            columns = columns_of(name, most, binning)
            shares = [
                np.mean([recovered(columns, columns_known=known, seed=seed) for seed in range(SEEDS)])
                for known in (True, False)
            ]
            cells = " | ".join(f"{share:.0%}" for share in shares)
            print(f"| {name}, {len(columns[0]) // 2:,} | {binning} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
