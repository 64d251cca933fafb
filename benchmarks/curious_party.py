"""How much a curious party recovers from the noisy tables of `gram` with public statistics: docs/security.md.

The attacker has a disjoint half of the data set, as if it were a public survey of the same population. It
tries two attacks at each epsilon:

1. Naming: which code of each column is which, by maximum likelihood, as if codes came in a secret order.
   A cell counts as read if its code has its right name.
2. Fitting rows: a table of rows whose pair tables are as near as possible to the noisy ones, by annealing. A
   row counts as found if the fitted table has it (every fitted row counts once).

A party sees three draws of the noise; with a server on its side it knows two of them, and one remains (in
tables with the label it knows one, and two remain). A server alone sees uniform numbers: it learns nothing
beyond the public statistics.

Run: python benchmarks/curious_party.py
"""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction

import numpy as np
from curious_server import BINS, Codes, Matrix, columns_of
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from fedvalue.protocol.privacy import GRAM_SHARES, LABEL_UNKNOWN, Privacy

N_COLUMNS = 4
MOST_ROWS = 300
"""Half of them are public. An attack on few rows succeeds more often than on many."""
SWEEPS = 400
SEEDS = 3
EPSILONS = ("0.1", "0.5", "1", "3", "10")

Tables = NDArray[np.float64]
"""Counts by (column, column, code, code), the label first; a column with itself is 0."""


def halves(name: str, seed: int) -> tuple[Codes, Codes]:
    """Public and secret rows: the label and a few columns of five bins."""
    columns = np.column_stack(columns_of(name, MOST_ROWS, "quantile")[: N_COLUMNS + 1])
    order = np.random.default_rng(seed).permutation(len(columns))
    half = len(order) // 2
    return columns[order[:half]], columns[order[half:]]


def tables_of(rows: Codes) -> Tables:
    """All pair tables."""
    width = rows.shape[1]
    one_hot = (rows[:, :, None] == np.arange(BINS)).astype(float)
    tables: Tables = np.einsum("nfa,ngb->fgab", one_hot, one_hot)
    tables[np.arange(width), np.arange(width)] = 0.0
    return tables


def spread_of(n: int, epsilon: str, draws: int) -> Matrix:
    """Standard deviation of the noise by pair of columns, given how many draws an observer does not know."""
    privacy = Privacy(Fraction(epsilon), n, N_COLUMNS, GRAM_SHARES)
    spread = np.full((N_COLUMNS + 1, N_COLUMNS + 1), math.sqrt(draws * privacy.pair_variance))
    spread[0, :] = spread[:, 0] = math.sqrt(max(draws, LABEL_UNKNOWN) * privacy.label_variance)
    return spread


def noisy(tables: Tables, spread: Matrix, rng: np.random.Generator) -> Tables:
    """The tables with symmetric noise."""
    noise = rng.normal(size=tables.shape) * spread[:, :, None, None]
    for f in range(len(spread)):
        noise[f, f] = 0.0
        for g in range(f):
            noise[f, g] = noise[g, f].T
    return tables + noise


def named(seen: Tables, public: Tables, secret: Codes, rng: np.random.Generator) -> float:
    """Share of the cells, without the label's, whose codes are named correctly."""
    width = len(seen)
    order = [np.arange(BINS), *(rng.permutation(BINS) for _ in range(width - 1))]  # true code of a name
    hidden = np.array([[seen[f, g][np.ix_(order[f], order[g])] for g in range(width)] for f in range(width)])
    logs = np.log((public + 0.5) / (public + 0.5).sum(axis=(2, 3), keepdims=True))
    guess = [np.arange(BINS) for _ in range(width)]
    for step in range(4):
        for f in range(1, width):
            against = [0] if step == 0 else [g for g in range(width) if g != f]
            gain = sum(hidden[f, g] @ logs[f, g][:, guess[g]].T for g in against)
            guess[f] = linear_sum_assignment(-np.asarray(gain))[1]
    right = 0
    for f in range(1, width):
        counts = np.bincount(secret[:, f], minlength=BINS)[order[f]]
        right += int(counts[guess[f] == order[f]].sum())
    return right / (len(secret) * (width - 1))


def fitted(target: Tables, weight: Matrix, start: Codes, rng: np.random.Generator) -> Codes:
    """Rows whose tables are near the target, starting from `start`."""
    rows, width = start.copy(), start.shape[1]
    off = (tables_of(rows) - target) * weight[:, :, None, None]
    every = np.arange(width)
    sizes = [int(column.max()) + 1 for column in start.T]
    heat = float(weight.max())
    for sweep in range(SWEEPS):
        hot = heat * max(0.0, 1.0 - 1.25 * sweep / SWEEPS)
        for i in rng.permutation(len(rows)):
            for f in range(width):
                row, a = rows[i], rows[i, f]
                pull = off[f, every, :, row].sum(axis=0)  # larger where too many rows have the code
                change = 2 * (pull - pull[a]) + 2 * weight[f].sum() * (np.arange(BINS) != a)
                change = change[: sizes[f]]
                if hot > 0:
                    change = change + hot * rng.gumbel(size=sizes[f])
                b = int(change.argmin())
                if b == a:
                    continue
                for g in range(width):
                    if g != f:
                        c = row[g]
                        off[f, g, a, c] -= weight[f, g]
                        off[g, f, c, a] -= weight[f, g]
                        off[f, g, b, c] += weight[f, g]
                        off[g, f, c, b] += weight[f, g]
                rows[i, f] = b
    return rows


def share_found(rows: Codes, secret: Codes) -> float:
    """Share of the secret rows that the other table has, each row counted once."""
    mine, theirs = (Counter(map(tuple, table.tolist())) for table in (rows, secret))
    return sum((mine & theirs).values()) / len(secret)


def attacked(name: str, epsilon: str | None, draws: int, seed: int) -> tuple[float, float]:
    """Shares of cells named and of rows found; without noise where epsilon is None."""
    public, secret = halves(name, seed)
    rng = np.random.default_rng(100 + seed)
    start = public[rng.integers(0, len(public), len(secret))]
    seen, weight = tables_of(secret), np.ones((N_COLUMNS + 1, N_COLUMNS + 1))
    prior = tables_of(public) * len(secret) / len(public)
    if epsilon is not None:
        spread = spread_of(len(secret), epsilon, draws)
        seen = noisy(seen, spread, rng)
        # The best guess at a cell lies between the public count and the noisy one, by their errors.
        trust = (prior + 1) / (prior + 1 + spread[:, :, None, None] ** 2)
        target = prior + trust * (seen - prior)
    else:
        target = seen
    np.fill_diagonal(weight, 0.0)
    cells = named(seen, tables_of(public), secret, rng)
    return cells, share_found(fitted(target, weight, start, rng), secret)


def public_alone(name: str, seed: int) -> float:
    """Share of the secret rows in a table of the same size drawn from the public rows."""
    public, secret = halves(name, seed)
    rng = np.random.default_rng(100 + seed)
    return share_found(public[rng.integers(0, len(public), len(secret))], secret)


def main() -> None:
    """Print both tables: cells named, rows found."""
    for name in ("breast", "wine", "credit"):
        alone = np.mean([public_alone(name, seed) for seed in range(SEEDS)])
        print(f"{name}: rows in a table drawn from public statistics: {alone:.0%}", flush=True)
        for who, draws in (("a party", GRAM_SHARES), ("a party with a server", 1)):
            for epsilon in (*EPSILONS, None):
                if epsilon is None and draws == 1:
                    continue
                scores = np.mean([attacked(name, epsilon, draws, seed) for seed in range(SEEDS)], axis=0)
                print(
                    f"  {who}, epsilon {epsilon or 'none'}: cells named {scores[0]:.0%}, rows found "
                    f"{scores[1]:.0%}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
