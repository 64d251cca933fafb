"""The paper's Algorithm 1, line by line: slow, readable, the reference for everything faster.

All permutations, and for each prefix a fresh count with Python dictionaries. Beside it the sampled
procedure of the paper's notebooks, which the benchmarks compare with. For real work there are
`exact_values` and `sampled_values`.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from itertools import permutations
from typing import TYPE_CHECKING, Any

import numpy as np

from fedvalue.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from fedvalue.information.contingency import JointCounts

# 8! = 40,320 orders take about a minute on a few dozen items.
MOST_PARTIES = 8

Rows = list[tuple[int, tuple[int, ...], int, int]]
"""(x_t, codes of the data parties, y, number of samples) per item."""


def algorithm_1(counts: JointCounts) -> list[float]:
    """Shapley-CMI of every data party over all permutations, in nats.

    Raises:
        InputError: More than 8 parties.
    """
    if counts.n_parties > MOST_PARTIES:
        raise InputError(
            f"Algorithm 1 walks all permutations: at most {MOST_PARTIES} parties, got {counts.n_parties}"
        )
    return _average(counts, list(permutations(range(counts.n_parties))))


def published_procedure(counts: JointCounts, n_permutations: int, seed: int = 0) -> list[float]:
    """Sampled permutations as the paper's notebooks walk them: what the benchmarks compare with.

    For each prefix of each permutation, the columns are taken from a NumPy matrix of the samples, each row
    is made a tuple, joined with the label as text, and counted; a marginal is the difference of two
    mutual informations. The notebooks do so sample by sample, so weights are spread out again.
    """
    generator = random.Random(seed)
    matrix = np.repeat(np.column_stack([counts.parties, counts.task]), counts.count, axis=0)
    label = np.repeat(counts.label, counts.count).tolist()
    nobody = _mutual_information(label, matrix[:, [-1]])
    phi = [0.0] * counts.n_parties
    for _ in range(n_permutations):
        joined = [counts.n_parties]
        before = nobody
        for d in generator.sample(range(counts.n_parties), counts.n_parties):
            joined.append(d)
            after = _mutual_information(label, matrix[:, joined])
            phi[d] += after - before
            before = after
    return [value / n_permutations for value in phi]


def _mutual_information(y: list[int], matrix: NDArray[np.int64]) -> float:
    """H(Y) + H(X) - H(X, Y), from counters of rows."""
    x = [tuple(row) for row in matrix]
    joint = [f"{a}{b}" for a, b in zip(y, x, strict=True)]
    return _entropy(Counter(y)) + _entropy(Counter(x)) - _entropy(Counter(joint))


def _entropy(counter: Counter[Any]) -> float:
    n = sum(counter.values())
    return -sum(k / n * math.log(k / n) for k in counter.values())


def _average(counts: JointCounts, orders: Sequence[Sequence[int]]) -> list[float]:
    rows = _rows(counts)
    phi = [0.0] * counts.n_parties
    for order in orders:
        joined: list[int] = []
        for d in order:
            phi[d] += cmi(rows, d, joined)
            joined.append(d)
    return [value / len(orders) for value in phi]


def cmi(rows: Rows, d: int, joined: Iterable[int]) -> float:
    """I(X_d; Y | X_D, X_t) by Eq. 4, recounted from the rows."""
    before = tuple(joined)
    n_xyz: Counter[tuple[int, int, tuple[int, ...]]] = Counter()
    n_xz: Counter[tuple[int, tuple[int, ...]]] = Counter()
    n_yz: Counter[tuple[int, tuple[int, ...]]] = Counter()
    n_z: Counter[tuple[int, ...]] = Counter()
    n = 0
    for task, codes, y, weight in rows:
        z = (task, *(codes[e] for e in before))
        x = codes[d]
        n_xyz[x, y, z] += weight
        n_xz[x, z] += weight
        n_yz[y, z] += weight
        n_z[z] += weight
        n += weight
    return sum(k / n * math.log(n_z[z] * k / (n_xz[x, z] * n_yz[y, z])) for (x, y, z), k in n_xyz.items())


def _rows(counts: JointCounts) -> Rows:
    return [
        (int(task), tuple(int(code) for code in codes), int(y), int(weight))
        for task, codes, y, weight in zip(
            counts.task, counts.parties, counts.label, counts.count, strict=True
        )
    ]
