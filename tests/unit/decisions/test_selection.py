"""Whom to invite: against brute force, and every wrong input by its message."""

from __future__ import annotations

import itertools
from decimal import Decimal

import numpy as np
import pytest

from fedvalue.decisions import select
from fedvalue.decisions.games import additive_game, game_of, game_of_counts
from fedvalue.decisions.selection import GREEDY_BOUND, read_prices
from fedvalue.errors import InputError
from fedvalue.valuation.engine import value_counts
from fedvalue.valuation.settings import ValuationSettings
from fedvalue.valuation.statistics.learnable import coalition_games
from tests.statistics.tables import random_table
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
def test_selection_equals_brute_force(p):
    rng = np.random.default_rng(p)
    for _ in range(4):
        table = random_monotone_game(rng, p)
        prices = [Decimal(int(rng.integers(0, 500))) / 100 for _ in range(p)]
        budget = Decimal(int(rng.integers(0, 250 * p))) / 100
        result = result_of_game(table)
        found = select(result, {f"p{k}": price for k, price in enumerate(prices)}, budget)
        value, cost = brute_force(table, prices, budget)
        assert found.value == pytest.approx(value, abs=1e-12)
        assert found.cost == cost
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


def test_order_stops_where_gains_are_noise():
    """Gains of 0.5, 0.2 and 0.001 with errors of 0.01: two parties are enough."""
    result = result_of_values([0.2, 0.5, 0.001], se=0.01, n_samples=1000)
    found = select(result, dict.fromkeys(["p0", "p1", "p2"], 1), 3)
    assert [step.party for step in found.order] == ["p1", "p0", "p2"]
    assert [step.above_noise for step in found.order] == [True, True, False]
    assert found.enough == 2


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

    game = additive_game(tuple(names), [0.0] * 30)
    game = type(game)(game.names, value, "coalitions")
    result = _with_names(names)
    found = select(result, dict.fromkeys(names, 1), 6, game=game)
    assert found.method == "greedy"
    assert found.cost <= 6
    assert found.value >= GREEDY_BOUND * value((1 << 30) - 1)
    dear = select(result, {**dict.fromkeys(names, 5), "p3": 6}, 6, game=game)
    assert dear.cost <= 6
    assert dear.value == max(value(1 << k) for k in range(30))


def _with_names(names):
    from fedvalue.valuation.result import PartyValue, Valuation, cmi_interval

    parties = tuple(
        PartyValue(
            name=n,
            value=1.0,
            share=0.1,
            alone=1.0,
            last=1.0,
            n_codes=3,
            learnable=1.0,
            se_data=0.1,
            interval=cmi_interval(1.0, 0.0, 0.1),
        )
        for n in names
    )
    return Valuation(
        parties=parties, total=float(len(names)), label_entropy=99.0, n_samples=100, method="exact",
        learnable_total=float(len(names)),
    )  # fmt: skip


def test_free_party_that_gains_comes_first():
    found = select(result_of_values([0.5, 0.1]), {"p0": 3, "p1": 0}, 0)
    assert found.parties == ("p1",)
    assert found.order[0].party == "p1"


def test_result_without_coalitions_adds_values_and_says_so():
    found = select(result_of_values([0.5, 0.1]), {"p0": 3, "p1": 1}, 4)
    assert found.basis == "sum of values"
    assert found.value == pytest.approx(0.6)


def test_game_of_counts_is_the_game_of_the_result():
    counts = random_table(3, p=4)
    result = value_counts(counts, ValuationSettings(coalitions=True))
    for by in ("shapley-cmi",):
        inside, outside = game_of(result, by), game_of_counts(counts, by)
        assert [outside.value(m) for m in range(16)] == pytest.approx([inside.value(m) for m in range(16)])


def test_game_of_many_parties_is_asked_coalition_by_coalition():
    many = random_table(3, p=21, n=60)
    few, learned = coalition_games(
        type(many)(many.task, many.parties[:, :3], many.label, many.count, many.names[:3], many.n_codes[:3])
    )
    by_value = game_of_counts(many, "shapley-cmi")
    assert [by_value.value(m) for m in range(8)] == pytest.approx(few.tolist(), abs=1e-12)
    by_learning = game_of_counts(many, "learnable")
    assert [by_learning.value(m) for m in range(8)] == pytest.approx(learned.tolist(), abs=1e-12)


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
        select(result_of_game([0, 1.0], learnable=False, coalitions=False), {"p0": 1}, 1)


def test_prices_are_read_with_and_without_a_header(tmp_path):
    file = tmp_path / "prices.csv"
    file.write_text('party,price\ntelco, 12.50\n\n"a, b",3\n')
    assert read_prices(file) == {"telco": Decimal("12.50"), "a, b": Decimal(3)}
    file.write_text("telco,1\n")
    assert read_prices(file) == {"telco": Decimal(1)}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("telco\n", "a party and a price per line, got 1"),
        ("telco,1\ntelco,2\n", "'telco' has two prices"),
        ("telco,-3\n", "must not be negative"),
        ("telco,much\n", "must be an amount"),
    ],
)
def test_wrong_price_files_are_refused(tmp_path, content, message):
    file = tmp_path / "prices.csv"
    file.write_text(content)
    with pytest.raises(InputError, match=message):
        read_prices(file)


def test_unreadable_price_files_are_refused(tmp_path):
    with pytest.raises(InputError, match="cannot read"):
        read_prices(tmp_path / "missing.csv")
    (tmp_path / "binary.csv").write_bytes(b"\xff\xfe\x00\x01")
    with pytest.raises(InputError, match="not a CSV file"):
        read_prices(tmp_path / "binary.csv")
