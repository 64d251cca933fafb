"""Naive twins: the definitions with plain dictionaries and loops, sharing no code with the package."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import combinations

Row = tuple[int, ...]


def entropy_of_label_given(rows: Sequence[tuple[Row, int, int]]) -> float:
    """H(Y | X) of (x, y, weight) rows, in nats, straight from the definition."""
    n = sum(weight for _, _, weight in rows)
    joint: Counter[tuple[Row, int]] = Counter()
    margin: Counter[Row] = Counter()
    for x, y, weight in rows:
        joint[x, y] += weight
        margin[x] += weight
    return -sum(k / n * math.log(k / margin[x]) for (x, _), k in joint.items() if k)


def cmi(x: Sequence[int], y: Sequence[int], z: Sequence[int], weight: Sequence[int] | None = None) -> float:
    """I(X; Y | Z) by Eq. 4, in nats."""
    w = weight if weight is not None else [1] * len(x)
    n = sum(w)
    n_xyz, n_xz, n_yz, n_z = Counter(), Counter(), Counter(), Counter()  # type: ignore[var-annotated]
    for a, b, c, k in zip(x, y, z, w, strict=True):
        n_xyz[a, b, c] += k
        n_xz[a, c] += k
        n_yz[b, c] += k
        n_z[c] += k
    return sum(
        k / n * math.log(n_z[c] * k / (n_xz[a, c] * n_yz[b, c])) for (a, b, c), k in n_xyz.items() if k
    )


def coalition_values(
    parties: Sequence[Sequence[int]], label: Sequence[int], task: Sequence[int], weight: Sequence[int]
) -> dict[frozenset[int], float]:
    """val(S) = I(X_S; Y | X_t) of every coalition (Eq. 6); `parties` holds one column per party."""
    values = {}
    everyone = range(len(parties))
    rows_none = [((t,), y, w) for t, y, w in zip(task, label, weight, strict=True)]
    nobody = entropy_of_label_given(rows_none)
    for size in range(len(parties) + 1):
        for members in combinations(everyone, size):
            rows = [((t, *(parties[d][i] for d in members)), label[i], weight[i]) for i, t in enumerate(task)]
            values[frozenset(members)] = nobody - entropy_of_label_given(rows)
    return values


def shapley(values: dict[frozenset[int], float], n_players: int) -> list[float]:
    """Shapley values of a game given as a dictionary, by Eq. 5."""
    result = []
    for d in range(n_players):
        others = [e for e in range(n_players) if e != d]
        phi = 0.0
        for size in range(n_players):
            weight = math.factorial(size) * math.factorial(n_players - size - 1) / math.factorial(n_players)
            phi += weight * math.fsum(
                values[frozenset(members) | {d}] - values[frozenset(members)]
                for members in combinations(others, size)
            )
        result.append(phi)
    return result


def shapley_cmi(
    parties: Sequence[Sequence[int]],
    label: Sequence[int],
    task: Sequence[int] | None = None,
    weight: Sequence[int] | None = None,
) -> list[float]:
    """Shapley-CMI by brute force over all coalitions (Eq. 8)."""
    n = len(label)
    values = coalition_values(parties, label, task or [0] * n, weight or [1] * n)
    return shapley(values, len(parties))
