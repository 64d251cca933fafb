"""How far one replaced row moves the values: closed forms, a case that reaches them, many that do not."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest

from fedvalue.errors import InputError
from fedvalue.information.sensitivity import cmi_sensitivity, values_sensitivity
from tests.naive import cmi, shapley_cmi

Row = tuple[int, ...]
"""(task, label, party 0, party 1, ...)"""


def privbayes(n: int) -> float:
    """The bound as PrivBayes prints it, in nats."""
    return 2 / n * math.log((n + 1) / 2) + (n - 1) / n * math.log((n + 1) / (n - 1))


@pytest.mark.parametrize("n", [2, 3, 10, 1000, 10**6])
def test_the_bound_of_one_cmi_is_that_of_privbayes(n):
    assert float(cmi_sensitivity(n)) == pytest.approx(privbayes(n), rel=1e-12)


@pytest.mark.parametrize("n_parties", [3, 5, 256])
def test_from_three_parties_on_the_bound_does_not_grow(n_parties):
    """4 g(n - 1) / n with g(c) = (c + 1) ln(c + 1) - c ln c, by hand."""
    expected = 4 / 1000 * (1000 * math.log(1000) - 999 * math.log(999))
    assert float(values_sensitivity(1000, n_parties)) == pytest.approx(expected, rel=1e-12)
    few = [float(values_sensitivity(1000, p)) for p in (1, 2)]
    assert few == pytest.approx([privbayes(1000), 2 * privbayes(1000)], rel=1e-12)


def test_one_sample_moves_nothing_and_no_sample_is_refused():
    assert values_sensitivity(1, 3) == 0
    for n, p in ((0, 1), (5, 0)):
        with pytest.raises(InputError):
            values_sensitivity(n, p)


def values(rows: list[Row]) -> list[float]:
    task, label, *parties = (list(column) for column in zip(*rows, strict=True))
    return shapley_cmi(parties, label, task)


def moved(rows: list[Row], new: Row) -> float:
    """L1 distance of the values before and after the last row is replaced."""
    return sum(abs(a - b) for a, b in zip(values(rows), values([*rows[:-1], new]), strict=True))


@pytest.mark.parametrize("n", [3, 9, 101])
def test_the_bound_is_reached(n):
    """Half of the rows at (0, 1), half at (1, 0); (0, 0) is replaced by (2, 2)."""
    rows = [(0, k % 2, 1 - k % 2) for k in range(n - 1)] + [(0, 0, 0)]
    assert moved(rows, (0, 2, 2)) == pytest.approx(float(cmi_sensitivity(n)), rel=1e-12)


@pytest.mark.parametrize("n_parties", [1, 2, 3, 4])
def test_random_replacements_never_exceed_the_bound(n_parties):
    """Tables of all kinds, and rows replaced by seen and by new codes: 4,000 in all."""
    rng = np.random.default_rng(n_parties)
    largest = 0.0
    for _ in range(1000):
        n, codes = int(rng.integers(2, 24)), int(rng.integers(1, 5))
        table = rng.integers(0, codes, (n, 2 + n_parties))
        if rng.random() < 0.5:  # the label is a function of all parties: they complement each other
            table[:, 1] = table[:, 2:].sum(axis=1) % max(codes, 2)
        if rng.random() < 0.5:
            table[:, 0] = 0
        new = rng.integers(0, codes + 2, 2 + n_parties)
        rows = [tuple(int(x) for x in row) for row in table]
        found = moved(rows, tuple(int(x) for x in new)) / float(values_sensitivity(n, n_parties))
        largest = max(largest, found)
    assert 0.2 < largest <= 1 + 1e-9


def test_along_one_order_the_bound_holds_for_any_number_of_parties():
    """The step that the proof rests on, for single orders of up to six parties: 600 replacements."""
    rng = np.random.default_rng(7)
    for _ in range(600):
        n, p = int(rng.integers(2, 20)), int(rng.integers(3, 7))
        table = rng.integers(0, 3, (n, 2 + p))
        other = table.copy()
        other[-1] = rng.integers(0, 4, 2 + p)
        total = sum(abs(a - b) for a, b in zip(along(table), along(other), strict=True))
        assert total <= float(values_sensitivity(n, p)) + 1e-12


def along(table: np.ndarray) -> list[float]:
    """I(X_d; Y | X_t, those before d) for parties in the order of the columns."""
    task, label, *parties = table.T.tolist()
    seen = [[(t,) for t in task]]
    for column in parties:
        seen.append([(*before, x) for before, x in zip(seen[-1], column, strict=True)])
    return [
        cmi(column, label, [hash(one) for one in before])
        for column, (before, _) in zip(parties, pairwise(seen), strict=True)
    ]
