"""Whom to invite: against brute force, and every wrong input by its message."""

from __future__ import annotations

import itertools
from decimal import Decimal

import numpy as np
import pytest
from msgspec.structs import replace

from fedvalue.decisions import select
from fedvalue.decisions.games import Game, game_of
from fedvalue.decisions.selection import GREEDY_BOUND
from fedvalue.errors import InputError
from fedvalue.valuation.result import JoiningStep, UpliftRow
from fedvalue.valuation.shapley_indices import interactions_of
from tests.unit.decisions.results import random_monotone_game, result_of_game, result_of_values


def brute_force(table, prices, budget):
    """The largest value in the budget, and the least cost that reaches it."""
    p = len(prices)
    best = (0.0, Decimal(0))
    for size in range(p + 1):
        for S in itertools.combinations(range(p), size):
            cost = sum((prices[k] for k in S), Decimal(0))
            value = table[sum(1 << k for k in S)]
            if cost <= budget and (value > best[0] + 1e-12 or (value > best[0] - 1e-12 and cost < best[1])):
                best = (value, cost)
    return best


@pytest.mark.parametrize("p", [1, 2, 3, 5, 8, 10])
def test_selection_equals_brute_force_but_for_negligible_gains(p):
    """The curve is exact. The invited set may lack gains that are negligible, at most one per party."""
    rng = np.random.default_rng(p)
    for _ in range(4):
        table = random_monotone_game(rng, p)
        prices = [Decimal(int(rng.integers(0, 500))) / 100 for _ in range(p)]
        budget = Decimal(int(rng.integers(0, 250 * p))) / 100
        found = select(result_of_game(table), {f"p{k}": price for k, price in enumerate(prices)}, budget)
        value, cost = brute_force(table, prices, budget)
        best = [point for point in found.curve if point.cost <= budget][-1]
        assert (best.value, best.cost) == (pytest.approx(value, abs=1e-12), cost)
        assert value - 0.05 * max(table[-1], 0.1 * (2 * table[-1] + 0.1)) <= found.value <= value + 1e-12
        assert found.cost <= budget
        assert found.method == "exact"
        mask = sum(1 << int(name[1:]) for name in found.parties)
        assert table[mask] == pytest.approx(found.value)
        for point in found.curve:
            assert brute_force(table, prices, point.cost) == pytest.approx((point.value, point.cost))


def test_costs_are_added_exactly():
    """0.1 + 0.2 is 0.3 in money, and within a budget of 0.3."""
    result = result_of_values([1.0, 1.0])
    assert select(result, {"p0": "0.1", "p1": "0.2"}, "0.3").parties == ("p0", "p1")


def test_curve_rises_in_cost_and_value():
    rng = np.random.default_rng(3)
    found = select(result_of_game(random_monotone_game(rng, 6)), {f"p{k}": k + 1 for k in range(6)}, 9)
    costs, values = [p.cost for p in found.curve], [p.value for p in found.curve]
    assert costs == sorted(set(costs))
    assert values == sorted(set(values))
    assert (costs[0], values[0]) == (0, 0)
    assert values[-1] == pytest.approx(found.total)


def test_a_gain_inside_its_error_is_undecided_and_the_rows_that_would_settle_it_are_stated():
    """Gains of 0.5, 0.2 and 0.001 with standard errors of 0.01.

    Negligible is a twentieth of an equal share, 0.05 x 0.701 / 3 = 0.01168. The third interval, 0.001 +-
    0.0196, holds both 0 and that. It is settled when its half-width is below 0.01168 - 0.001: 1000 x (0.0196
    / 0.01068)^2 = 3,368 rows.
    """
    result = result_of_values([0.2, 0.5, 0.001], se=0.01, n_samples=1000)
    found = select(result)
    assert [step.party for step in found.steps] == ["p1", "p0", "p2"]
    assert [step.adds.verdict for step in found.steps] == ["adds", "adds", "undecided"]
    assert found.parties == ("p1", "p0")
    assert found.steps[2].adds.rows_needed == pytest.approx(3368, abs=2)


def test_a_gain_that_is_surely_negligible_is_called_nothing():
    """0.001 +- 0.002 is below 0.01168 for sure."""
    found = select(result_of_values([0.2, 0.5, 0.001], se=0.001, n_samples=10**6))
    assert found.parties == ("p1", "p0")
    assert [step.party for step in found.idle] == ["p2"]
    assert found.undecided == ()


def test_finding_nothing_in_a_few_rows_does_not_prove_that_there_is_nothing():
    """The error of a party without evidence is at least that of a ratio without effect, 1.39 / n."""
    few = select(result_of_values([0.2, 0.0], n_samples=100))
    assert [step.party for step in few.undecided] == ["p1"]
    many = select(result_of_values([0.2, 0.0], n_samples=10_000))
    assert [step.party for step in many.idle] == ["p1"]


def test_a_column_with_the_same_value_in_every_row_adds_nothing_however_few_the_rows():
    """An empty column was undecided at 100 rows, and more rows of it were recommended."""
    result = result_of_values([0.2, 0.0], n_samples=100)
    first, second = result.parties
    found = select(replace(result, parties=(first, replace(second, n_codes=1))))
    assert [step.party for step in found.idle] == ["p1"]


def test_where_values_are_added_a_party_is_invited_when_its_own_interval_is_above_0():
    """0.0124 with a standard error of 0.0034, and 0.0049 with 0.0027, in 569 rows (as in Breast)."""
    result = result_of_values([0.3, 0.0124, 0.0049], n_samples=569)
    first, second, third = result.parties
    second = replace(second, learnable_interval=(0.0057, 0.0192))
    third = replace(third, learnable_interval=(-0.0003, 0.0102))
    found = select(replace(result, parties=(first, second, third)))
    assert found.parties == ("p0", "p1")
    assert [step.party for step in found.undecided] == ["p2"]


def test_of_two_copies_one_is_invited_and_the_dearer_one_adds_nothing():
    result = result_of_game([0, 1.0, 1.0, 1.0], names=["a", "b"])
    found = select(result, {"a": 5, "b": 3}, 100)
    assert found.parties == ("b",)
    assert found.cost == 3
    assert [step.party for step in found.idle] == ["a"]


def test_parties_that_only_help_together_are_both_invited():
    """XOR: each alone is worth nothing, both together everything."""
    found = select(result_of_game([0, 0, 0, 1.0], names=["a", "b"]))
    assert set(found.parties) == {"a", "b"}
    assert [step.only_together for step in found.steps] == [True, False]
    assert [step.adds.verdict for step in found.steps] == ["adds", "adds"]


def test_noisy_copies_that_are_weak_given_each_other_leave_one_behind():
    """v(a) = v(b) = 0.1, v(ab) = 0.102 with errors of 0.02: one is clear, the other undecided."""
    found = select(result_of_game([0, 0.1, 0.1, 0.102], names=["a", "b"], se=0.02, n_samples=1000))
    assert len(found.parties) == 1
    assert len(found.undecided) == 1


def test_undecided_parties_are_also_judged_together():
    """Nine parties of 0.004 +- 0.005 each: no single one is clear, 0.036 nats of all of them are."""
    found = select(result_of_values([0.2] + [0.004] * 9, se=0.0025, n_samples=5000))
    assert found.parties == ("p0",)
    assert len(found.undecided) == 9
    assert found.undecided_together is not None
    assert found.undecided_together.gain == pytest.approx(0.036)
    assert found.undecided_together.verdict == "adds"


def test_the_luck_of_many_columns_adds_up_over_undecided_parties():
    """Six parties of 60 columns of noise each, at 1,000 rows, as measured: 0.0394 nats of nothing.

    docs/statistics.md: useless columns add up to about 0.15/n each, here 360 x 0.15 / 1000 = 0.054.
    """
    noise = [0.0102, 0.0082, 0.0084, 0.0058, 0.0042, 0.0025]
    half = [0.0186, 0.0187, 0.0175, 0.0172, 0.0165, 0.0156]
    result = result_of_values([0.1711, *noise], n_samples=1000)
    first, *others = result.parties
    others = [
        replace(party, learnable_interval=(value - error, value + error))
        for party, value, error in zip(others, noise, half, strict=True)
    ]
    found = select(replace(result, parties=(first, *others)))
    assert (found.parties, len(found.undecided)) == (("p0",), 6)
    assert found.undecided_together is not None
    assert found.undecided_together.gain == pytest.approx(0.0393)
    assert found.undecided_together.verdict == "undecided"


def test_a_party_hidden_by_noise_is_not_clear_together_with_one_that_adds_nothing():
    """0.0660 with an interval of -0.0026 to 0.135, and 0 with one of 0.0084, as in a run with an epsilon."""
    result = result_of_values([0.0716, 0.0660, 0.0], n_samples=5000)
    shop, insurer, utility = result.parties
    insurer = replace(insurer, learnable_interval=(-0.0026, 0.135))
    utility = replace(utility, learnable_interval=(-0.0084, 0.0084))
    found = select(replace(result, parties=(shop, insurer, utility)))
    assert [step.party for step in found.undecided] == ["p1", "p2"]
    assert found.undecided_together is not None
    assert found.undecided_together.verdict == "undecided"


@pytest.mark.parametrize("seed", range(30))
def test_advice_and_steps_never_contradict_each_other(seed):
    """Invited parties come first, and every one of them adds something to the others."""
    rng = np.random.default_rng(seed)
    p = int(rng.integers(1, 7))
    table = random_monotone_game(rng, p)
    result = result_of_game(table, se=float(rng.random() * 0.4), n_samples=int(rng.integers(20, 5000)))
    prices = {f"p{k}": int(rng.integers(0, 5)) for k in range(p)}
    found = select(result, prices, int(rng.integers(0, 12)))
    assert found.parties == tuple(step.party for step in found.steps if step.invited)
    assert [step.invited for step in found.steps] == sorted((s.invited for s in found.steps), reverse=True)
    mask = sum(1 << int(name[1:]) for name in found.parties)
    assert found.value == pytest.approx(table[mask])
    for name in found.parties:
        assert table[mask] - table[mask ^ (1 << int(name[1:]))] > 0
    for step in found.unaffordable:
        assert step.price is not None
    assert {s.party for s in found.steps} == set(prices)
    assert found.steps[-1].value == pytest.approx(table[-1])


def test_parties_that_only_help_together_are_over_budget_together():
    """XOR of a and b, which cost 3 and 1 of a budget of 2: nobody adds anything, although b has room."""
    table = [1.0 * (mask & 3 == 3) for mask in range(8)]
    found = select(result_of_game(table, names=["a", "b", "idle"]), {"a": 3, "b": 1, "idle": 1}, 2)
    assert found.parties == ()
    assert {step.party for step in found.unaffordable} == {"a", "b"}
    assert [step.party for step in found.steps[2:]] == ["idle"]
    enough = select(result_of_game(table, names=["a", "b", "idle"]), {"a": 3, "b": 1, "idle": 1}, 4)
    assert set(enough.parties) == {"a", "b"}


def test_parties_over_budget_come_before_those_that_are_undecided():
    """c is within the budget and has the best gain for its price, but is not known to help."""
    table = [0.5 * bool(mask & 1) + 0.3 * bool(mask & 2) + 0.001 * bool(mask & 4) for mask in range(8)]
    result = result_of_game(table, names=["a", "b", "c"], se=0.01, n_samples=1000)
    found = select(result, {"a": 5, "b": 5000, "c": 1}, 10)
    assert [step.party for step in found.steps] == ["a", "b", "c"]
    assert [step.invited for step in found.steps] == [True, False, False]
    assert [step.adds.verdict for step in found.steps] == ["adds", "adds", "undecided"]


@pytest.mark.parametrize("prices", [None, {"p0": 1, "a": 1, "b": 1}])
def test_a_party_that_helps_only_beside_an_undecided_one_is_undecided_too(prices):
    """a and b bring 0.3 together and nothing alone, and a's error is too wide to tell.

    b would add 0.3 to p0 and a, but a is not invited. Money is not what keeps b out.
    """
    table = [1.0 * bool(mask & 1) + 0.3 * (mask & 6 == 6) for mask in range(8)]
    result = result_of_game(table, names=["p0", "a", "b"], n_samples=1000)
    first, a, b = result.parties
    a, b = replace(a, learnable_interval=(-0.5, 0.8)), replace(b, learnable_interval=(0.1, 0.2))
    found = select(replace(result, parties=(first, a, b)), prices, None if prices is None else 3)
    assert found.parties == ("p0",)
    assert found.unaffordable == ()
    assert {step.party for step in found.undecided} == {"a", "b"}


@pytest.mark.parametrize("seed", range(60))
def test_what_is_over_budget_does_not_fit_into_it(seed):
    """Where sets of parties need each other, the parties over budget and the invited ones cost too much."""
    rng = np.random.default_rng(seed)
    p = int(rng.integers(2, 7))
    table = np.zeros(1 << p)
    for needed in rng.integers(1, 1 << p, size=4):
        table += rng.random() * np.array([mask & needed == needed for mask in range(1 << p)])
    result = result_of_game(table, se=float(rng.random() * 0.4 * table[-1] / p), n_samples=500)
    prices = {f"p{k}": int(rng.integers(0, 5)) for k in range(p)}
    budget = int(rng.integers(0, 12))
    found = select(result, prices, budget)
    missed = [step.price or 0 for step in found.unaffordable]
    assert not missed or (found.cost or 0) + sum(missed) > budget
    order = [(step.invited, step in found.unaffordable) for step in found.steps]
    assert order == sorted(order, reverse=True)
    assert select(result).unaffordable == ()


def test_many_parties_are_chosen_greedily_within_the_known_bound():
    """30 parties with falling returns (a coverage game): at least (1 - 1/e)/2 of the best, by its proof.

    The best cannot exceed everybody's value.
    """
    rng = np.random.default_rng(0)
    covers = rng.random((30, 60)) < 0.15
    names = [f"p{k}" for k in range(30)]

    def value(mask):
        chosen = [covers[k] for k in range(30) if mask >> k & 1]
        return float(np.any(chosen, axis=0).sum()) if chosen else 0.0

    game = Game(tuple(names), value, "coalitions")
    result = _with_names(names)
    found = select(result, dict.fromkeys(names, 1), 6, game=game)
    assert found.method == "greedy"
    assert found.cost <= 6
    assert found.value >= GREEDY_BOUND * value((1 << 30) - 1)
    dear = select(result, {**dict.fromkeys(names, 5), "p3": 6}, 6, game=game)
    assert dear.cost <= 6
    assert dear.value == max(value(1 << k) for k in range(30))


def _with_names(names):
    from fedvalue.valuation.result import PartyValue, Valuation

    parties = tuple(
        PartyValue(
            name=n,
            value=1.0,
            share=0.1,
            alone=1.0,
            last=1.0,
            n_codes=3,
            learnable=1.0,
            learnable_interval=(1.0, 1.0),
        )
        for n in names
    )
    return Valuation(
        parties=parties, total=float(len(names)), label_entropy=99.0, n_samples=10**12,
        method="exact", learnable_total=float(len(names)),
    )  # fmt: skip


def test_free_party_that_gains_comes_first():
    found = select(result_of_values([0.5, 0.1]), {"p0": 3, "p1": 0}, 0)
    assert found.parties == ("p1",)
    assert found.steps[0].party == "p1"


def test_result_without_coalitions_adds_values_and_says_so():
    found = select(result_of_values([0.5, 0.1]), {"p0": 3, "p1": 1}, 4)
    assert found.basis == "sum of values"
    assert found.value == pytest.approx(0.6)


def test_a_budget_without_prices_is_refused():
    with pytest.raises(InputError, match="a budget needs prices"):
        select(result_of_values([0.5]), None, 10)


def test_without_prices_costs_do_not_matter():
    found = select(result_of_values([0.5, 0.1]))
    assert (found.cost, found.budget) == (None, None)
    assert [step.price for step in found.steps] == [None, None]
    assert found.parties == ("p0", "p1")


def test_wrong_prices_and_budgets_are_refused():
    result = result_of_values([0.5, 0.1])
    with pytest.raises(InputError, match="no price for 'p1'"):
        select(result, {"p0": 1}, 1)
    with pytest.raises(InputError, match="the budget must not be negative, got -1"):
        select(result, {"p0": 1, "p1": 1}, -1)
    with pytest.raises(InputError, match="price of party 'p1' must be an amount"):
        select(result, {"p0": 1, "p1": "cheap"}, 1)
    with pytest.raises(InputError, match="the budget must be finite"):
        select(result, {"p0": 1, "p1": 1}, float("nan"))
    with pytest.raises(InputError, match="too many digits"):
        select(result, {"p0": "1e-30", "p1": 1}, 1)
    with pytest.raises(InputError, match="by must be one of"):
        select(result, {"p0": 1, "p1": 1}, 1, by="gut feeling")
    with pytest.raises(InputError, match="no learnable value"):
        select(result_of_game([0, 1.0], learnable=False, coalitions=False), {"p0": 1}, 1, by="learnable")


def pairs_only(result, interactions):
    """The result without its table of coalitions, with interactions of pairs instead."""
    return replace(result, coalitions=None, interactions=tuple(map(tuple, interactions)))


def test_many_parties_are_chosen_by_values_and_interactions_of_pairs():
    """b copies a (0.2 each alone and together), c stands on its own with 0.1: a pair game by construction."""
    table = np.array([0.2 * bool(mask & 3) + 0.1 * bool(mask & 4) for mask in range(8)])
    result = result_of_game(table, names=["a", "b", "c"])
    found = select(pairs_only(result, interactions_of(table)))
    assert found.basis == "pairs of parties"
    assert set(found.parties) in ({"a", "c"}, {"b", "c"})
    assert found.value == pytest.approx(0.3)
    assert select(replace(result, coalitions=None)).basis == "sum of values"
    assert len(select(replace(result, coalitions=None)).parties) == 3  # a sum cannot see the copy


@pytest.mark.parametrize("p", [2, 5, 9])
def test_the_pair_game_is_exact_for_games_of_pairs(p):
    rng = np.random.default_rng(p)
    single, pairs = rng.random(p), np.triu(rng.normal(size=(p, p)), 1)
    inside = (np.arange(1 << p)[:, None] >> np.arange(p)) & 1
    table = inside @ single + np.einsum("mi,ij,mj->m", inside, pairs, inside)
    game = game_of(pairs_only(result_of_game(table), interactions_of(table)))
    assert game.dense() == pytest.approx(table, abs=1e-12)
    assert [game.value(mask) for mask in range(1 << p)] == pytest.approx(table.tolist(), abs=1e-12)
    for k, mask in itertools.product(range(p), range(1 << p)):
        gain = table[mask | 1 << k] - table[mask & ~(1 << k)]
        assert game.gain(k, mask) == pytest.approx(gain, abs=1e-12)


def test_what_the_pair_game_misses_widens_the_intervals():
    """Three parties of which all are needed: pairs cannot tell, so nobody is called clear by pairs alone."""
    table = np.zeros(8)
    table[7] = 0.3
    nobody = UpliftRow(parties=(), role="nobody", log_loss=1.0, accuracy=0.5)
    names = ["p0", "p1", "p2"]
    rows = [nobody, UpliftRow(parties=tuple(names), role="all", log_loss=0.7, accuracy=0.5)]
    for name in names:
        rest = tuple(other for other in names if other != name)
        rows.append(UpliftRow(parties=(name,), role="alone", log_loss=1.0, accuracy=0.5))
        rows.append(UpliftRow(parties=rest, role="all_but", log_loss=1.0, accuracy=0.5))
    result = replace(pairs_only(result_of_game(table), interactions_of(table)), uplift=tuple(rows))
    game = game_of(result)
    # Each has the value 0.1 and interactions of 0.15: alone 0.1 - 0.15 = -0.05 instead of 0.
    assert game.error == pytest.approx([0.05, 0.05, 0.05])
    assert game.value(7) == pytest.approx(0.3)


def test_many_parties_follow_the_results_own_order_of_joining():
    """a and b need each other, c adds 0.1, its copy and noise nothing. Prices need values of other sets."""
    names = ["noise", "copy", "c", "b", "a"]
    result = replace(
        result_of_values([0.0, 0.05, 0.05, 0.25, 0.25], names=names),
        joining=tuple(
            JoiningStep(party=party, learnable=value)
            for party, value in (("a", 0.0), ("b", 0.5), ("c", 0.6), ("copy", 0.6), ("noise", 0.6))
        ),
    )
    found = select(result)
    assert (found.parties, found.basis) == (("a", "b", "c"), "an order of joining")
    assert (found.value, found.total) == (0.6, 0.6)
    assert [step.party for step in found.idle] == ["copy", "noise"]
    assert [step.adds.gain for step in found.steps] == pytest.approx([0.0, 0.5, 0.1, 0.0, 0.0])
    assert found.steps[0].only_together
    assert select(result, dict.fromkeys(names, 1)).basis == "sum of values"


def test_an_order_of_joining_leaves_undecided_what_few_rows_cannot_show():
    names = ["a", "b", "c"]
    result = replace(
        result_of_values([0.2, 0.004, 0.004], names=names, se=0.005, n_samples=1000),
        joining=tuple(
            JoiningStep(party=party, learnable=value)
            for party, value in (("a", 0.2), ("b", 0.204), ("c", 0.208))
        ),
    )
    found = select(result)
    assert found.parties == ("a",)
    assert [step.party for step in found.undecided] == ["b", "c"]
    assert found.undecided_together is not None
    assert found.undecided_together.gain == pytest.approx(0.008)
