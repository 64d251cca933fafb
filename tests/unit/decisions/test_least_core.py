"""The least core against a general linear program, and games with known cores."""

from __future__ import annotations

import numpy as np
import pytest

from fedvalue.decisions.stability import MAX_PARTIES, excesses, least_core
from fedvalue.errors import InputError


def by_linear_program(table):
    """min epsilon with x(S) + epsilon >= v(S) for every S but nobody and everybody, x(N) = v(N)."""
    from scipy.optimize import linprog

    p = len(table).bit_length() - 1
    rows = [[-(mask >> k & 1) for k in range(p)] + [-1] for mask in range(1, len(table) - 1)]
    solved = linprog(
        c=[0] * p + [1],
        A_ub=rows,
        b_ub=-np.asarray(table[1:-1]),
        A_eq=[[1] * p + [0]],
        b_eq=[table[-1]],
        bounds=[(None, None)] * (p + 1),
    )
    assert solved.status == 0
    return solved.fun


def random_game(rng, p, kind):
    if kind == "any":
        table = rng.random(1 << p)
        table[0] = 0.0
        return table
    table = np.zeros(1 << p)  # monotone, with the many ties that make a simplex degenerate
    for mask in range(1, 1 << p):
        parts = [table[mask ^ (1 << k)] for k in range(p) if mask >> k & 1]
        table[mask] = max(parts) + (0.25 * rng.integers(0, 3) if kind == "steps" else rng.random() ** 3)
    return table


@pytest.mark.parametrize("kind", ["any", "steps", "monotone"])
@pytest.mark.parametrize("p", [2, 3, 4, 5, 6, 7, 8])
def test_epsilon_equals_the_linear_program(kind, p):
    rng = np.random.default_rng([p, len(kind)])
    for _ in range(5):
        table = random_game(rng, p, kind)
        found = least_core(table)
        assert found.epsilon == pytest.approx(by_linear_program(table), abs=1e-9)
        assert sum(found.shares) == pytest.approx(table[-1], abs=1e-9)
        assert excesses(table, np.array(found.shares)).max() == pytest.approx(found.epsilon, abs=1e-9)


def test_three_player_majority_game_has_epsilon_one_third():
    """Two of three win: equal shares leave each pair 1 - 2/3 short, and no sharing does better."""
    table = np.array([0, 0, 0, 1, 0, 1, 1, 1.0])
    assert least_core(table).epsilon == pytest.approx(1 / 3)


def test_additive_game_has_a_core():
    table = np.array([0, 1, 2, 3.0])
    found = least_core(table)
    assert found.epsilon == pytest.approx(0)
    assert found.shares == pytest.approx((1, 2))


def test_one_party_takes_everything():
    assert least_core(np.array([0, 0.7])).shares == (0.7,)


def test_excess_is_what_a_coalition_gains_by_leaving():
    table = np.array([0, 3, 1, 4.0])
    found = excesses(table, np.array([2.5, 1.5]))
    assert found[1] == pytest.approx(0.5)
    assert found[2] == pytest.approx(-0.5)
    assert found[0] == found[3] == -np.inf


def test_too_many_parties_are_refused():
    with pytest.raises(InputError, match=f"at most {MAX_PARTIES}"):
        least_core(np.zeros(1 << (MAX_PARTIES + 1)))
