"""Sampled values: within their standard errors of the exact ones, reproducible, mergeable."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from fedvalue.engines import Execution, Stop
from fedvalue.information.contingency import JointCounts
from fedvalue.valuation.entropies import CmiValues
from fedvalue.valuation.items import item_table
from fedvalue.valuation.permutations.sampling import CHUNK_PAIRS, RunningMoments, _precise
from fedvalue.valuation.permutations.sampling import sampled_values as sampled_values_of
from tests.support.joint_tables import Table, exact_walk, random_table, tables


def sampled_values(counts: JointCounts, **keywords: Any) -> CmiValues:
    return sampled_values_of(item_table(counts), **keywords)


@given(tables(most_parties=6, most_items=24))
@settings(max_examples=60)
def test_values_add_up_to_the_exact_total(table: Table) -> None:
    """Every single order shares out exactly val(all), so any number of them does."""
    counts = table.counts()
    found = sampled_values(counts, n_permutations=10)
    exact = exact_walk(counts)
    assert math.isclose(found.values.sum(), exact.total, rel_tol=0, abs_tol=1e-11)
    assert math.isclose(found.total, exact.total, rel_tol=0, abs_tol=1e-12)
    assert math.isclose(found.label_entropy, exact.label_entropy, rel_tol=0, abs_tol=1e-12)


@pytest.mark.parametrize("seed", range(8))
def test_within_4_standard_errors_of_exact(seed: int) -> None:
    """8 seeded tables of different shapes; fixed seeds, so no reruns are needed."""
    rng = np.random.default_rng(seed)
    table = random_table(
        rng, n_parties=3 + seed, n_items=40 + 20 * seed, n_codes=2 + seed % 4, n_labels=2 + 3 * (seed % 3)
    )
    found = sampled_values(table.counts(), n_permutations=3000, seed=seed)
    deviation = np.abs(found.values - exact_walk(table.counts()).values)
    assert (deviation <= 4 * found.se + 1e-12).all()


def test_standard_errors_are_honest() -> None:
    """The spread over 60 seeds is what the standard errors say, within what 60 draws can tell (25%)."""
    counts = random_table(np.random.default_rng(1), n_parties=6, n_items=60, n_codes=3, n_labels=2).counts()
    runs = [sampled_values(counts, n_permutations=400, seed=seed) for seed in range(60)]
    spread = np.std([run.values for run in runs], axis=0, ddof=1).mean()
    claimed = np.mean([run.se for run in runs])
    assert 0.75 < spread / claimed < 1.25


def test_one_and_two_parties_have_no_sampling_error() -> None:
    """A pair of antithetic orders of two parties is all orders."""
    rng = np.random.default_rng(0)
    x, z, y = rng.integers(0, 3, (3, 50))
    for parties in ({"a": x}, {"a": x, "b": z}):
        counts = JointCounts.from_columns(label=y, parties=parties)
        found = sampled_values(counts, n_permutations=100)
        np.testing.assert_allclose(found.values, exact_walk(counts).values, rtol=0, atol=1e-12)
        assert found.se.max() < 1e-12


def test_three_hundred_parties() -> None:
    """Weights w(s) of 300 parties underflow; orders do not care. Two copies of Y share ln 2 equally."""
    label = np.array([0, 1] * 20)
    parties = {f"c{k}": label * 0 for k in range(298)} | {"copy": label, "again": 1 - label}
    found = sampled_values(JointCounts.from_columns(label=label, parties=parties), n_permutations=1000)
    np.testing.assert_allclose(found.values[298:], math.log(2) / 2, rtol=1e-12)
    assert np.abs(found.values[:298]).max() == 0.0


def test_many_labels_and_many_codes() -> None:
    """60 labels do not fit into one word, 400 codes not into a byte, and keys have to be hashed."""
    rng = np.random.default_rng(9)
    table = Table(
        [
            rng.integers(0, 400, 500).tolist(),
            rng.integers(0, 300, 500).tolist(),
            rng.integers(0, 2, 500).tolist(),
        ],
        rng.integers(0, 60, 500).tolist(),
        rng.integers(0, 30, 500).tolist(),
        rng.integers(1, 50, 500).tolist(),
    )
    counts = table.counts()
    found = sampled_values(counts, n_permutations=2000)
    deviation = np.abs(found.values - exact_walk(counts).values)
    assert (deviation <= 4 * found.se + 1e-12).all()


def test_same_seed_same_values_other_seed_others() -> None:
    counts = random_table(np.random.default_rng(1), n_parties=5, n_items=40, n_codes=3, n_labels=2).counts()
    first, second, other = (sampled_values(counts, n_permutations=200, seed=s).values for s in (3, 3, 4))
    assert first.tolist() == second.tolist()
    assert first.tolist() != other.tolist()


def test_number_of_permutations_is_rounded_up_to_pairs() -> None:
    counts = random_table(np.random.default_rng(1), n_parties=4, n_items=20, n_codes=2, n_labels=2).counts()
    assert sampled_values(counts, n_permutations=7).n_permutations == 8


def test_precision_stops_early_and_keeps_its_promise() -> None:
    """The largest standard error is at most the fraction of the total, after fewer orders than allowed."""
    counts = random_table(np.random.default_rng(6), n_parties=7, n_items=80, n_codes=3, n_labels=2).counts()
    found = sampled_values(counts, n_permutations=10**7, precision=0.003)
    assert found.se.max() <= 0.003 * found.total
    assert found.n_permutations < 10**6
    assert found.n_permutations % (2 * CHUNK_PAIRS) == 0


def test_precision_waits_for_a_trusted_variance() -> None:
    """Equal samples have no variance, and a few of them are not enough to stop."""
    few, enough = (RunningMoments(n, np.array([1.0]), np.array([0.0])) for n in (63, 64))
    assert not _precise(few, 0.1)
    assert _precise(enough, 0.1)


def test_an_early_stop_needs_a_margin() -> None:
    """A standard error of 64 pairs just below the bound may be too small by chance; one of 512 may not."""

    def moments(n: int, se: float) -> RunningMoments:
        return RunningMoments(n, np.array([1.0]), np.array([se**2 * n * (n - 1)]))

    assert not _precise(moments(64, 0.0095), 0.01)
    assert _precise(moments(64, 0.0084), 0.01)  # 1 + 2 / sqrt(128) is 1.177
    assert _precise(moments(512, 0.0095), 0.01)


def test_intervals_of_early_stops_cover_the_exact_values() -> None:
    """95% intervals of 400 seeds that stop within the first chunk, each at a time of its own choosing.

    400 independent intervals cover in 95% with a standard deviation of 1.1%; those of one seed are not
    independent of each other, so three standard deviations of 400 are allowed.
    """
    counts = random_table(np.random.default_rng(3), n_parties=7, n_items=120, n_codes=3, n_labels=2).counts()
    exact = exact_walk(counts).values
    runs = [sampled_values(counts, n_permutations=10**5, precision=0.018, seed=seed) for seed in range(400)]
    assert {run.n_permutations for run in runs} == {128, 256}
    assert all(run.se.max() <= 0.018 * run.total for run in runs)
    covered = np.mean([np.abs(run.values - exact) <= 1.96 * run.se for run in runs])
    assert 0.95 - 0.033 <= covered <= 0.95 + 0.033


def test_progress_counts_permutations() -> None:
    seen: list[float] = []
    counts = random_table(np.random.default_rng(6), n_parties=4, n_items=30, n_codes=3, n_labels=2).counts()
    sampled_values(
        counts,
        n_permutations=3000,
        execution=Execution(progress=lambda done, total, note="": seen.append(done / total)),
    )
    assert seen == sorted(seen)
    assert seen[-1] == 1.0


def test_asked_to_stop_it_keeps_the_orders_walked_so_far() -> None:
    """What is there after the first chunk is the same as if only that chunk had been asked for."""
    counts = random_table(np.random.default_rng(4), n_parties=6, n_items=60, n_codes=3, n_labels=2).counts()
    stop = Stop()

    def tell(done: float, total: float, note: str = "") -> None:
        stop.asked = stop.possible

    found = sampled_values(
        counts, n_permutations=100 * CHUNK_PAIRS, execution=Execution(progress=tell, stop=stop)
    )
    alone = sampled_values(counts, n_permutations=2 * CHUNK_PAIRS)
    assert found.n_permutations == 2 * CHUNK_PAIRS
    assert found.values.tolist() == alone.values.tolist()
    assert found.se.tolist() == alone.se.tolist()
    assert not stop.possible
