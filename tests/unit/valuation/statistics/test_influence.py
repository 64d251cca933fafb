"""The data error against its definition, sample by sample and order by order."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from fedvalue.information.contingency import JointCounts
from fedvalue.valuation import items as layout
from fedvalue.valuation.statistics import influence
from fedvalue.valuation.statistics.influence import (
    Influence,
    exact_influence,
    sampled_influence,
    small_influence,
)
from fedvalue.valuation.statistics.partition_kernels import partition_scratch, refine_blocks
from tests.statistics import definitions
from tests.statistics.tables import informative_and_not, random_table, relabelled


def items_of(counts):
    return layout.item_table(counts)


def data_errors(counts, **keywords):
    return influence.data_errors(items_of(counts), **keywords)


def sampled_errors(counts, n_permutations=1000, seed=0):
    return sampled_influence(items_of(counts), n_permutations, seed).error


def exact(counts) -> Influence:
    """The compiled walk over all coalitions."""
    found = exact_influence(items_of(counts))
    assert found is not None
    return found


def by_definition(counts):
    """sqrt(var(psi)/n + bias^2), psi from all orders and the bias from the degrees of freedom."""
    samples = definitions.Samples(counts)
    psi = definitions.pointwise_shapley(samples)
    n = len(samples.rows)
    freedom = {S: samples.freedom(S) for S in definitions.coalitions(samples.p)}
    bias = definitions.shapley(freedom, samples.p) / (2 * n)
    return np.sqrt(psi.var(axis=1) / n + bias**2), psi.mean(axis=1), bias


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("p", [1, 2, 4])
def test_error_equals_the_definition(seed, p):
    counts = random_table(seed, p=p, labels=2 + seed % 2)
    errors, values, bias = by_definition(counts)
    assert data_errors(counts) == pytest.approx(errors, abs=1e-13)
    for found in (exact(counts), small_influence(items_of(counts))):
        assert found.error == pytest.approx(errors, abs=1e-13)
        assert found.values == pytest.approx(values, abs=1e-13)
        assert found.bias == pytest.approx(bias, abs=1e-13)


def test_error_of_one_binary_party_has_a_closed_form():
    """X = Y flipped in one sample of ten: psi is ln(1.8) or ln(0.2), so sd = 0.3 ln 9; 1 degree more."""
    counts = JointCounts.from_columns(
        label=np.array([0, 0, 1, 1]), parties={"x": np.array([0, 1, 0, 1])}, count=np.array([45, 5, 5, 45])
    )
    expected = np.hypot(0.3 * np.log(9) / np.sqrt(100), 1 / 200)
    assert data_errors(counts) == pytest.approx([expected], abs=1e-14)


@pytest.mark.parametrize("seed", range(4))
def test_error_does_not_depend_on_names_or_order(seed):
    counts = random_table(seed, p=5, n=80, codes=4)
    assert data_errors(relabelled(counts)) == pytest.approx(data_errors(counts), abs=1e-14)
    assert exact(relabelled(counts)).error == pytest.approx(exact(counts).error, abs=1e-14)
    assert sampled_errors(relabelled(counts)) == pytest.approx(sampled_errors(counts), abs=1e-14)


def test_sampled_error_comes_close_to_the_exact_one():
    """The covariance of two halves is unbiased: 4,000 permutations come within 5% on 300 samples."""
    counts = informative_and_not(300)
    sampled = sampled_errors(counts, n_permutations=4000)
    assert sampled == pytest.approx(data_errors(counts), rel=0.05)


def test_sampled_values_are_the_shapley_values_when_all_orders_are_equal():
    """Two parties have two orders, and antithetic pairs hold both: sampling is then exact."""
    counts = random_table(3, p=2)
    whole = exact(counts)
    sampled = sampled_influence(items_of(counts), 8, seed=1)
    assert sampled.first == pytest.approx(whole.first, abs=1e-14)
    assert sampled.bias == pytest.approx(whole.bias, abs=1e-14)


def test_walk_that_passes_its_budget_gives_no_half_answer():
    assert exact_influence(items_of(informative_and_not(100)), budget=50) is None


def test_same_seed_gives_the_same_error():
    counts = informative_and_not(120)
    once, again = (sampled_errors(counts, seed=7) for _ in range(2))
    assert (once == again).all()
    assert (once != sampled_errors(counts, seed=8)).any()


def test_label_that_is_known_already_has_no_error():
    counts = JointCounts.from_columns(label=np.zeros(9, int), parties={"x": np.arange(9)})
    assert data_errors(counts) == pytest.approx([0.0])


def test_too_large_a_lattice_is_known_before_it_is_walked(monkeypatch):
    """The visits predicted from a few orders are near those of the walk, which then does not begin."""
    items = items_of(random_table(2, p=9, n=300, codes=2))
    walked = sum(influence.influence_task(items, top, 10**9)[1] for top in range(9))
    assert 0.7 < influence._predicted_visits(items, influence.EXACT_BUDGET) / walked < 1.4
    monkeypatch.setattr(influence, "influence_task", None)
    assert exact_influence(items, budget=walked // 3) is None


@pytest.mark.parametrize("seed", range(5))
def test_refinement_splits_like_a_dictionary(seed):
    """Each block splits into its codes, keeps the order inside them, and leaves the scratch clean."""
    rng = np.random.default_rng(seed)
    m = 30
    codes = rng.integers(0, 4, m)
    items = rng.permutation(m)
    starts = np.array([0, 1, 3, 5, 14, 30])
    table = items_of(JointCounts.from_columns(label=np.arange(m), parties={"x": codes}))
    scratch = partition_scratch(table, 2)
    scratch.items[0], scratch.starts[0, :6], scratch.n_blocks[0] = items, starts, 5
    refine_blocks(codes.astype(np.uint32), scratch, 0, 1)
    expected = []
    for lo, hi in itertools.pairwise(starts):
        groups: dict = {}
        for item in items[lo:hi]:
            groups.setdefault(codes[item], []).append(item)
        expected += list(groups.values())
    borders = scratch.starts[1, : scratch.n_blocks[1] + 1]
    found = [scratch.items[1, lo:hi].tolist() for lo, hi in itertools.pairwise(borders)]
    assert found == expected
    assert not scratch.size.any()
