"""The learnable value against its definition, and what it is for: useless parties get nothing."""

from __future__ import annotations

import numpy as np
import pytest

from fedvalue.errors import InputError
from fedvalue.information.contingency import JointCounts
from fedvalue.valuation.statistics.learnable import (
    ALPHA,
    CAP,
    NOISE,
    coalition_games,
    coalition_tables,
    learnable_game,
    learnable_values,
    pair_values,
    shapley,
)
from tests.statistics import definitions
from tests.statistics.tables import informative_and_not, random_table, relabelled


def by_mask(game, p):
    return [game[frozenset(d for d in range(p) if mask >> d & 1)] for mask in range(1 << p)]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(
    ("alpha", "cap", "noise"), [(ALPHA, CAP, NOISE), (ALPHA, CAP, 0.5), (3.0, 1.0, 0.0), (0.5, 4.0, 0.0)]
)
def test_values_equal_the_definition(seed, alpha, cap, noise):
    counts = random_table(seed, p=1 + seed % 4, n=30 + 5 * seed, labels=2 + seed % 2)
    samples = definitions.Samples(counts)
    game = definitions.learnable_game(samples, alpha, cap, noise)
    found = learnable_values(counts, alpha=alpha, cap=cap, noise=noise)
    assert found.values == pytest.approx(definitions.shapley(game, samples.p), abs=1e-12)
    assert found.total == pytest.approx(game[frozenset(range(samples.p))], abs=1e-12)
    assert (found.method, found.complete) == ("exact", True)
    plug, learnable = coalition_games(counts, alpha=alpha, cap=cap, noise=noise)
    assert learnable == pytest.approx(by_mask(game, samples.p), abs=1e-12)
    val = {S: samples.val(S) for S in definitions.coalitions(samples.p)}
    assert plug == pytest.approx(by_mask(val, samples.p), abs=1e-12)


@pytest.mark.parametrize("seed", range(6))
def test_leaving_out_subtrees_changes_nothing(seed):
    """The search prunes; the coalition tables do not. Both must give the same values."""
    rng = np.random.default_rng(seed)
    counts = random_table(seed, p=8, n=150, codes=int(rng.integers(2, 6)), labels=3)
    for noise in (0.0, NOISE):
        _, game = coalition_games(counts, noise=noise)
        assert game[-1] > 0
        assert learnable_values(counts, noise=noise).values == pytest.approx(shapley(game), abs=1e-13)


@pytest.mark.parametrize("seed", range(4))
def test_values_do_not_depend_on_names_or_order(seed):
    counts = random_table(seed, p=6, n=120, codes=4)
    assert learnable_values(relabelled(counts)).values == pytest.approx(
        learnable_values(counts).values, abs=1e-13
    )


@pytest.mark.parametrize("n", [178, 5000])
def test_useless_parties_get_nothing_where_the_plug_in_pays_them_most(n):
    """Row numbers and 25 random codes, beside a strong and a weak party (0.03 nats: found with 5,000)."""
    found = learnable_values(informative_and_not(n))
    strong, weak, noise, rows = found.values / found.total
    assert strong > 0.5
    assert n < 5000 or weak > 0.1
    assert noise < 0.01
    assert rows == pytest.approx(0, abs=1e-12)
    plug, _ = coalition_games(informative_and_not(n))
    assert shapley(plug)[3] / plug[-1] > 0.5


def test_twenty_parties_are_exact():
    counts = random_table(1, p=20, n=120, codes=3)
    found = learnable_values(counts)
    assert found.method == "exact"
    assert found.values.sum() == pytest.approx(found.total, abs=1e-12)


def test_more_parties_are_sampled_with_an_error_that_holds():
    """22 parties of which the last 16 are constant: the values are those of the first 6 alone.

    The total is exact, and each sampled value is within 5 of its own standard errors.
    """
    few = random_table(2, p=6, n=200, codes=3)
    columns = {name: few.parties[:, k] for k, name in enumerate(few.names)}
    columns |= {f"constant {k}": np.zeros(few.n_items, np.int64) for k in range(16)}
    many = JointCounts.from_columns(label=few.label, task=few.task, parties=columns, count=few.count)
    exact, sampled = learnable_values(few), learnable_values(many, n_permutations=4000)
    assert sampled.method == "sampled"
    assert sampled.total == pytest.approx(exact.total, abs=1e-12)
    assert sampled.values.sum() == pytest.approx(sampled.total, abs=1e-12)
    assert (np.abs(sampled.values[:6] - exact.values) <= 5 * sampled.se[:6]).all()
    assert (sampled.values[6:] == 0).all()
    assert (sampled.values == learnable_values(many, n_permutations=4000).values).all()


def test_search_that_runs_out_says_so_and_is_a_lower_bound():
    counts = random_table(5, p=9, n=300, codes=2)
    complete, cut = learnable_values(counts), learnable_values(counts, budget=30_000)
    assert complete.complete
    assert not cut.complete
    assert cut.order < 9
    assert f"at most {cut.order} parties" in (cut.remark or "")
    assert complete.remark is None
    assert cut.total <= complete.total + 1e-12


@pytest.mark.parametrize("p", [3, 22])
def test_game_of_records_equals_the_tables(p):
    few = random_table(4, p=3, n=150, codes=3)
    columns = {name: few.parties[:, k] for k, name in enumerate(few.names)}
    columns |= {f"constant {k}": np.zeros(few.n_items, np.int64) for k in range(p - 3)}
    counts = JointCounts.from_columns(label=few.label, task=few.task, parties=columns, count=few.count)
    game = learnable_game(counts)
    _, table = coalition_games(few)
    assert [game(mask) for mask in range(8)] == pytest.approx(table.tolist(), abs=1e-13)
    assert game((1 << p) - 1) == pytest.approx(table[-1], abs=1e-13)


def test_tables_are_part_of_a_result_where_they_are_small():
    """All coalitions up to 12 parties, pairs up to 100, nothing beyond."""
    tables = coalition_tables(random_table(0, p=3))
    assert tables is not None
    assert {key: len(item) for key, item in tables.items()} == {"value": 8, "learnable": 8}
    many = coalition_tables(random_table(0, p=13))
    assert many is not None
    assert {key: len(item) for key, item in many.items()} == {"learnable_pairs": 169}
    assert coalition_tables(random_table(0, p=101)) is None


@pytest.mark.parametrize("p", [1, 2, 5])
def test_values_of_pairs_are_those_of_the_game(p):
    counts = random_table(8, p=p, n=90)
    _, game = coalition_games(counts)
    expected = [[game[1 << a | 1 << b] for b in range(p)] for a in range(p)]
    assert pair_values(counts) == pytest.approx(np.array(expected), abs=1e-13)


def test_weighted_items_count_as_many_samples():
    counts = random_table(6, p=2, n=25)
    tripled = JointCounts(
        counts.task, counts.parties, counts.label, counts.count * 3, counts.names, counts.n_codes
    )
    game = definitions.learnable_game(definitions.Samples(tripled), ALPHA, CAP, NOISE)
    assert learnable_values(tripled).values == pytest.approx(definitions.shapley(game, 2), abs=1e-12)


def test_large_counts_need_no_table_of_logarithms():
    """Beyond the table of logarithms the numbers come from the same formula."""
    counts = random_table(7, p=2, n=60)
    large = JointCounts(
        counts.task, counts.parties, counts.label, counts.count * 100_000, counts.names, counts.n_codes
    )
    plug, game = coalition_games(large)
    # With so many samples the cost of learning is nothing and v* is the plug-in game, to O(cells / n).
    assert game == pytest.approx(plug, abs=1e-4)
    assert game.max() <= plug.max()


def test_shapley_of_the_glove_game():
    """One left glove, two right gloves: 2/3, 1/6, 1/6 (a textbook game)."""
    game = np.array([0, 0, 0, 1, 0, 1, 0, 1.0])
    assert shapley(game) == pytest.approx([2 / 3, 1 / 6, 1 / 6])


def test_settings_out_of_range_are_refused():
    counts = random_table(0)
    with pytest.raises(InputError, match="alpha must be positive, got 0"):
        learnable_values(counts, alpha=0)
    with pytest.raises(InputError, match=r"cap must be at least 1, got 0\.5"):
        learnable_values(counts, cap=0.5)
    with pytest.raises(InputError, match="noise must not be negative, got -1"):
        learnable_values(counts, noise=-1)
    with pytest.raises(InputError, match="at most 20 parties, got 21"):
        coalition_games(random_table(0, p=21))
