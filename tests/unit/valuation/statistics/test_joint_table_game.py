"""The joint-table game against its definition, and what it is for: useless parties get nothing."""

from __future__ import annotations

import numpy as np
import pytest

from fedvalue.errors import InputError
from fedvalue.information.contingency import JointCounts
from fedvalue.valuation.items import item_table
from fedvalue.valuation.shapley_indices import shapley_of
from fedvalue.valuation.statistics import joint_table_game as module
from fedvalue.valuation.statistics import joint_table_search
from fedvalue.valuation.statistics.joint_table_game import (
    CAP,
    NOISE,
    coalition_games,
    joint_table_game,
    plug_in_game,
)
from fedvalue.valuation.statistics.joint_table_search import ALPHA
from tests.statistics import definitions
from tests.statistics.tables import informative_and_not, random_table, relabelled
from tests.support.joint_games import shapley_values


@pytest.fixture(params=["numpy", "compiled"], autouse=True)
def path(request, monkeypatch):
    """Every test on both ways to compute a game: small tables in NumPy, and compiled walks."""
    if request.param == "compiled":
        monkeypatch.setattr(module, "is_small", lambda items: False)
    return request.param


def game_of(counts, **keywords):
    return joint_table_game(item_table(counts), **keywords)


def values_of(counts):
    return shapley_values(game_of(counts))[0]


def games_of(counts):
    return coalition_games(item_table(counts))


def by_mask(game, p):
    return [game[frozenset(d for d in range(p) if mask >> d & 1)] for mask in range(1 << p)]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(
    ("alpha", "cap", "noise"), [(ALPHA, CAP, NOISE), (ALPHA, CAP, 0.5), (3.0, 1.0, 0.0), (0.5, 4.0, 0.0)]
)
def test_values_equal_the_definition(seed, alpha, cap, noise, monkeypatch):
    counts = random_table(seed, p=1 + seed % 4, n=30 + 5 * seed, labels=2 + seed % 2)
    samples = definitions.Samples(counts)
    game = definitions.learnable_game(samples, alpha, cap, noise)
    monkeypatch.setattr(joint_table_search, "ALPHA", alpha)
    monkeypatch.setattr(module, "CAP", cap)
    monkeypatch.setattr(module, "NOISE", noise)
    found = game_of(counts)
    values, errors = shapley_values(found)
    assert values == pytest.approx(definitions.shapley(game, samples.p), abs=1e-12)
    assert found.total == pytest.approx(game[frozenset(range(samples.p))], abs=1e-12)
    assert found.complete
    assert not errors.any()
    plug, learned = games_of(counts)
    assert learned == pytest.approx(by_mask(game, samples.p), abs=1e-12)
    val = {S: samples.val(S) for S in definitions.coalitions(samples.p)}
    assert plug == pytest.approx(by_mask(val, samples.p), abs=1e-12)
    assert plug_in_game(item_table(counts)) == pytest.approx(plug, abs=1e-13)


@pytest.mark.parametrize("seed", range(6))
def test_leaving_out_subtrees_changes_nothing(seed, monkeypatch):
    """The search prunes; the coalition tables do not. Both must give the same values."""
    rng = np.random.default_rng(seed)
    counts = random_table(seed, p=8, n=150, codes=int(rng.integers(2, 6)), labels=3)
    for noise in (0.0, NOISE):
        monkeypatch.setattr(module, "NOISE", noise)
        _, game = games_of(counts)
        assert game[-1] > 0
        assert values_of(counts) == pytest.approx(shapley_of(game), abs=1e-13)


@pytest.mark.parametrize("seed", range(4))
def test_values_do_not_depend_on_names_or_order(seed):
    counts = random_table(seed, p=6, n=120, codes=4)
    assert values_of(relabelled(counts)) == pytest.approx(values_of(counts), abs=1e-13)


@pytest.mark.parametrize("n", [178, 5000])
def test_useless_parties_get_nothing_where_the_plug_in_pays_them_most(n):
    """Row numbers and 25 random codes, beside a strong and a weak party (0.03 nats: found with 5,000)."""
    found = game_of(informative_and_not(n))
    strong, weak, noise, rows = shapley_values(found)[0] / found.total
    assert strong > 0.5
    assert n < 5000 or weak > 0.1
    assert noise < 0.01
    assert rows == pytest.approx(0, abs=1e-12)
    plug, _ = games_of(informative_and_not(n))
    assert shapley_of(plug)[3] / plug[-1] > 0.5


def test_twenty_parties_are_exact():
    counts = random_table(1, p=20, n=120, codes=3)
    found = game_of(counts)
    values, errors = shapley_values(found)
    assert not errors.any()
    assert values.sum() == pytest.approx(found.total, abs=1e-12)


def test_more_parties_are_sampled_with_an_error_that_holds():
    """22 parties of which the last 16 are constant: the values are those of the first 6 alone.

    The total is exact, and each sampled value is within 5 of its own standard errors.
    """
    few = random_table(2, p=6, n=200, codes=3)
    columns = {name: few.parties[:, k] for k, name in enumerate(few.names)}
    columns |= {f"constant {k}": np.zeros(few.n_items, np.int64) for k in range(16)}
    many = JointCounts.from_columns(label=few.label, task=few.task, parties=columns, count=few.count)
    game = game_of(many)
    values, errors = shapley_values(game, n_permutations=4000)
    assert game.total == pytest.approx(game_of(few).total, abs=1e-12)
    assert values.sum() == pytest.approx(game.total, abs=1e-12)
    assert (errors[:6] > 0).all()
    assert (np.abs(values[:6] - values_of(few)) <= 5 * errors[:6]).all()
    assert (values[6:] == 0).all()
    assert (values == shapley_values(game, n_permutations=4000)[0]).all()


def test_search_that_runs_out_says_so_and_is_a_lower_bound():
    counts = random_table(5, p=9, n=300, codes=2)
    complete, cut = game_of(counts), game_of(counts, budget=30_000)
    assert complete.complete
    assert not cut.complete
    assert cut.total <= complete.total + 1e-12


@pytest.mark.parametrize("p", [3, 22])
def test_game_of_records_equals_the_tables(p):
    few = random_table(4, p=3, n=150, codes=3)
    columns = {name: few.parties[:, k] for k, name in enumerate(few.names)}
    columns |= {f"constant {k}": np.zeros(few.n_items, np.int64) for k in range(p - 3)}
    counts = JointCounts.from_columns(label=few.label, task=few.task, parties=columns, count=few.count)
    game = game_of(counts)
    _, table = games_of(few)
    assert [game(mask) for mask in range(8)] == pytest.approx(table.tolist(), abs=1e-13)
    assert game((1 << p) - 1) == pytest.approx(table[-1], abs=1e-13)


def test_weighted_items_count_as_many_samples():
    counts = random_table(6, p=2, n=25)
    tripled = JointCounts(
        counts.task, counts.parties, counts.label, counts.count * 3, counts.names, counts.n_codes
    )
    game = definitions.learnable_game(definitions.Samples(tripled), ALPHA, CAP, NOISE)
    assert values_of(tripled) == pytest.approx(definitions.shapley(game, 2), abs=1e-12)


def test_large_counts_need_no_table_of_logarithms():
    """Beyond the table of logarithms the numbers come from the same formula."""
    counts = random_table(7, p=2, n=60)
    large = JointCounts(
        counts.task, counts.parties, counts.label, counts.count * 100_000, counts.names, counts.n_codes
    )
    plug, game = games_of(large)
    # With so many samples the cost of learning is nothing and v* is the plug-in game, to O(cells / n).
    assert game == pytest.approx(plug, abs=1e-4)
    assert game.max() <= plug.max()


def test_tables_of_too_many_parties_are_refused():
    for table in (coalition_games, plug_in_game):
        with pytest.raises(InputError, match="at most 20 parties, got 21"):
            table(item_table(random_table(0, p=21)))
