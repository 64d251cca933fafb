"""Bootstrap and permutation test agree with what the influence form says in one walk."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import pytest

from fedvalue.errors import InputError
from fedvalue.information.contingency import JointCounts
from fedvalue.valuation.items import item_table
from fedvalue.valuation.statistics.influence import exact_influence
from tests.statistics import definitions
from tests.statistics.bootstrap import bootstrap, permutation_test, shapley_cmi
from tests.statistics.tables import informative_and_not, random_table


def test_statistic_is_the_shapley_value():
    counts = random_table(0)
    samples = definitions.Samples(counts)
    game = {S: samples.val(S) for S in definitions.coalitions(samples.p)}
    assert shapley_cmi(counts) == pytest.approx(definitions.shapley(game, 3), abs=1e-12)


def test_bootstrap_error_agrees_with_the_influence_form():
    """400 repeats know a standard deviation to 1/sqrt(800) = 3.5%; 15% is four of these."""
    counts = informative_and_not(2000, row_id=False)
    exact = exact_influence(item_table(counts))
    assert exact is not None
    found = bootstrap(counts, n_repeats=400)
    assert found.se[:2] == pytest.approx(exact.spread[:2], rel=0.15)
    assert (found.low < found.high).all()


def test_repeats_are_the_same_on_any_executor():
    counts = informative_and_not(150)
    alone = bootstrap(counts, n_repeats=60)
    with ThreadPoolExecutor(2) as threads:
        assert (bootstrap(counts, n_repeats=60, executor=threads).se == alone.se).all()


@pytest.mark.slow
def test_repeats_reach_other_processes():
    counts = informative_and_not(150)
    alone = bootstrap(counts, n_repeats=30)
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as processes:
        assert (bootstrap(counts, n_repeats=30, executor=processes).se == alone.se).all()


def test_permutation_test_tells_signal_from_noise():
    """An informative party beats all 99 shuffles; a useless one does not stand out."""
    counts = informative_and_not(400, row_id=False)
    assert permutation_test(counts, "strong", n_repeats=99) == pytest.approx(0.01)
    assert permutation_test(counts, "noise", n_repeats=99) > 0.05


def test_shuffling_keeps_the_relation_to_the_task_party():
    """A party that repeats X_t cannot be shuffled into anything else: every shuffle ties with it."""
    rng = np.random.default_rng(0)
    task = rng.integers(0, 3, 60)
    counts = JointCounts.from_columns(label=rng.integers(0, 2, 60), task=task, parties={"echo": task})
    assert permutation_test(counts, "echo", n_repeats=9) == 1.0


def test_wrong_settings_are_refused():
    counts = random_table(0)
    with pytest.raises(InputError, match="n_repeats must be at least 2, got 1"):
        bootstrap(counts, n_repeats=1)
    with pytest.raises(InputError, match="level must be between 0 and 1, got 1"):
        bootstrap(counts, level=1)
    with pytest.raises(InputError, match="no party 'x'"):
        permutation_test(counts, "x")
    with pytest.raises(InputError, match="n_repeats must be at least 1"):
        permutation_test(counts, "p0", n_repeats=0)
