"""Money is never lost or made, and decisions agree with brute force on random games."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

from fedvalue.decisions import payout, select
from fedvalue.decisions.contribution import ContributionVerdict
from fedvalue.decisions.stability import excesses, least_core
from tests.unit.decisions.results import random_monotone_game, result_of_game, result_of_values

values = st.lists(st.floats(0, 10, allow_subnormal=False), min_size=1, max_size=10)


@given(values, st.integers(0, 10**9), st.integers(0, 100), st.integers(100, 10**9))
def test_amounts_add_up_and_stay_between_floor_and_cap(worths, pot, floor, cap):
    assume(any(worths) and floor * len(worths) <= pot)
    assume(sum(cap if w > 0 else floor for w in worths) >= pot)
    low, high = Decimal(floor) / 100, Decimal(cap) / 100
    found = payout(result_of_values(worths), Decimal(pot) / 100, floor=low, cap=high)
    assert sum(share.amount for share in found.shares) == Decimal(pot) / 100
    for share in found.shares:
        assert low <= share.amount <= max(high, low)


@given(values, st.integers(1, 10**7))
def test_who_is_worth_more_is_not_paid_less(worths, pot):
    assume(any(worths))
    found = payout(result_of_values(worths), pot)
    for a in found.shares:
        for b in found.shares:
            if a.value > b.value:
                assert a.amount >= b.amount - Decimal("0.01")


@given(st.integers(1, 8), st.integers(0, 10**6))
def test_selection_fits_the_budget_and_no_subset_beats_it(p, seed):
    rng = np.random.default_rng(seed)
    table = random_monotone_game(rng, p)
    prices = rng.integers(0, 10, p)
    budget = int(rng.integers(0, 5 * p))
    found = select(result_of_game(table), {f"p{k}": int(prices[k]) for k in range(p)}, budget)
    assert found.cost <= budget
    best = max((point for point in found.curve if point.cost <= budget), key=lambda point: point.value)
    for mask in range(1 << p):
        if sum(int(prices[k]) for k in range(p) if mask >> k & 1) <= budget:
            assert table[mask] <= best.value + 1e-12
    # Of the best set, only parties that do not clearly add anything are left out.
    verdict = {step.party: step.adds.verdict for step in found.steps}
    for name in set(best.parties) - set(found.parties):
        assert verdict[name] is not ContributionVerdict.ADDS


@given(st.integers(2, 6), st.integers(0, 10**6))
def test_no_random_sharing_beats_the_least_core(p, seed):
    rng = np.random.default_rng(seed)
    table = random_monotone_game(rng, p)
    epsilon = least_core(table).epsilon
    for _ in range(20):
        shares = rng.dirichlet(np.ones(p)) * table[-1]
        assert excesses(table, shares).max() >= epsilon - 1e-9
