"""How much a curious `mirror` server recovers with public statistics: the table of docs/security.md.

A server sees one renamed code per column and row. It knows which column is the label, but not the order of
the others. The attacker has a disjoint half of the data set, as if it were a public survey of the same
population, and works by maximum likelihood:

1. The label, where it does not know it: of the columns with as many codes, the one that explains most.
2. Columns, where it does not know them, by their joint counts with the label (an assignment problem).
3. Codes by their joint counts with the label.
4. Repeatedly codes, and columns where it does not know them, by their joint counts with all columns under
   their current names.

A cell counts as read if its column and its code have their right names.

Run: python benchmarks/curious_server.py
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from fedvalue.datasets.dataset import load

Codes = NDArray[np.int64]
Matrix = NDArray[np.float64]
BINS = 5
ROUNDS = 6
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


def pairs(columns: Sequence[Codes], size: int) -> Matrix:
    """Joint counts of every two columns, of shape (column, column, code, code)."""
    eyes = [np.eye(size)[column] for column in columns]
    return np.array([[a.T @ b for b in eyes] for a in eyes])


class Attacker:
    """Names columns and codes.

    Args:
        public: The columns of the public half, the label first.
        seen: The renamed columns.
        label: Index of the label; None where the attacker has to find it.
        columns_known: The columns are in the order of the public ones.
    """

    def __init__(
        self, public: Sequence[Codes], seen: Sequence[Codes], *, label: int | None, columns_known: bool
    ) -> None:
        self.n = len(seen)
        self.size = 1 + max(int(column.max()) for column in (*public, *seen))
        self.counts = pairs(seen, self.size)
        tables = pairs(public, self.size) + 0.5
        self.logs = np.log(tables / tables.sum(axis=(2, 3), keepdims=True))
        # A column is paired with itself only while names are tried; such a pair counts as independent.
        for k, column in enumerate(public):
            marginal = np.bincount(column, minlength=self.size) + 0.5
            one_way = np.log(marginal / marginal.sum())
            self.logs[k, k] = one_way[:, None] + one_way[None, :]
        self.frequencies = [np.bincount(column, minlength=self.size) for column in (public[0], *seen)]
        labels = range(self.n) if label is None else [label]
        n_codes = np.count_nonzero(self.frequencies[0])
        candidates = [j for j in labels if np.count_nonzero(self.frequencies[1 + j]) == n_codes]
        _, self.label, self.column, self.code = max(
            (self._named(j, columns_known) for j in candidates), key=lambda named: named[0]
        )

    def _named(self, label: int, columns_known: bool) -> tuple[float, int, list[int], list[Codes]]:
        """Likelihood, label, columns and codes if this column is the label."""
        others = [j for j in range(self.n) if j != label]
        column = [0] * self.n
        code = [np.arange(self.size)] * self.n
        code[label] = self._by_frequency(label)
        if columns_known:
            column = list(range(self.n))
        best = -np.inf
        for step in range(1 + ROUNDS):
            against = [label] if step == 0 else list(range(self.n))
            gain = self._gain(against, column, code)
            codes, scores = self._matched(gain)
            if not columns_known:
                chosen = linear_sum_assignment(-scores[np.ix_(others, range(1, self.n))])[1]
                for j, k in zip(others, chosen, strict=True):
                    column[j] = 1 + int(k)
            for j in others:
                code[j] = codes[j, column[j]]
            best = float(sum(scores[j, column[j]] for j in others))
        return best, label, column, code

    def _by_frequency(self, label: int) -> Codes:
        out = np.zeros(self.size, dtype=np.int64)
        mine, theirs = self.frequencies[1 + label], self.frequencies[0]
        out[np.argsort(-mine, kind="stable")] = np.argsort(-theirs, kind="stable")
        return out

    def _gain(self, against: Sequence[int], column: Sequence[int], code: Sequence[Codes]) -> Matrix:
        """Log-likelihood of calling code a of column j code b of public column k, by some named columns."""
        gain = np.zeros((self.n, self.n, self.size, self.size))
        for i in against:
            named = np.zeros_like(self.counts[:, i])
            named[:, :, code[i]] = self.counts[:, i]
            part = np.einsum("jab,kcb->jkac", named, self.logs[:, column[i]])
            part[i] = 0.0
            gain += part
        return gain

    def _matched(self, gain: Matrix) -> tuple[NDArray[np.int64], Matrix]:
        """The best names of all codes for every pair of columns, and their likelihood."""
        codes = np.empty((self.n, self.n, self.size), dtype=np.int64)
        scores = np.empty((self.n, self.n))
        for j in range(self.n):
            for k in range(self.n):
                rows, codes[j, k] = linear_sum_assignment(-gain[j, k])
                scores[j, k] = gain[j, k][rows, codes[j, k]].sum()
        return codes, scores


def recovered(columns: Sequence[Codes], knows: str, seed: int) -> tuple[float, bool]:
    """Share of the cells, without the label's, that the attacker reads; and whether it found the label.

    Args:
        columns: All columns, the label first.
        knows: `columns`, the `label` alone, or `nothing`.
        seed: Seeds the halves and the secret names.
    """
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(columns[0]))
    public, secret = order[: len(order) // 2], order[len(order) // 2 :]
    names = [rng.permutation(int(column.max()) + 1) for column in columns]
    places = list(range(len(columns))) if knows == "columns" else list(rng.permutation(len(columns)))
    seen = [names[k][columns[k][secret]] for k in places]
    attacker = Attacker(
        [column[public] for column in columns],
        seen,
        label=None if knows == "nothing" else places.index(0),
        columns_known=knows == "columns",
    )
    hits = [
        (attacker.column[j] == k) * (attacker.code[j][seen[j]] == columns[k][secret]).mean()
        for j, k in enumerate(places)
        if k
    ]
    return float(np.mean(hits)), places[attacker.label] == 0


def main() -> None:
    """Print the table."""
    print(
        "| data set, rows seen | bins | knows the columns | knows the label | knows neither | label found |"
    )
    print("| --- | --- | --- | --- | --- | --- |")
    for name, most in (("breast", 10**9), ("wine", 10**9), ("credit", 20_000)):
        for binning in ("quantile", "width"):
            columns = columns_of(name, most, binning)
            cells = []
            for knows in ("columns", "label", "nothing"):
                attacks = [recovered(columns, knows, seed) for seed in range(SEEDS)]
                cells.append(f"{np.mean([share for share, _ in attacks]):.0%}")
            cells.append(f"{sum(label for _, label in attacks)} of {SEEDS}")
            print(f"| {name}, {len(columns[0]) // 2:,} | {binning} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
