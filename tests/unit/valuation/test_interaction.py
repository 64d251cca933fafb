"""Pairwise interactions against their definition, and toy tables whose sign is known."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from fedvalue.information.contingency import JointCounts
from fedvalue.valuation.statistics.interaction import _latin, interactions
from tests.statistics import definitions
from tests.statistics.tables import random_table, relabelled


@pytest.mark.parametrize("seed", range(5))
def test_index_equals_the_definition(seed):
    counts = random_table(seed, p=2 + seed % 4)
    samples = definitions.Samples(counts)
    game = {S: samples.val(S) for S in definitions.coalitions(samples.p)}
    expected = np.zeros((samples.p, samples.p))
    for i in range(samples.p):
        for j in range(samples.p):
            if i != j:
                expected[i, j] = definitions.interaction(game, samples.p, i, j)
    assert interactions(counts) == pytest.approx(expected, abs=1e-12)


def test_parties_that_tell_only_together_are_synergistic():
    """Y = A xor B: nothing apart, ln 2 together."""
    a, b = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])
    counts = JointCounts.from_columns(label=a ^ b, parties={"a": a, "b": b})
    assert interactions(counts)[0, 1] == pytest.approx(np.log(2))


def test_copies_are_redundant():
    a = np.array([0, 0, 1, 1])
    counts = JointCounts.from_columns(label=a, parties={"a": a, "copy": a})
    assert interactions(counts)[0, 1] == pytest.approx(-np.log(2))


def test_one_party_has_no_partner():
    assert interactions(random_table(0, p=1)).tolist() == [[0.0]]


@pytest.mark.parametrize("p", [5, 6])
def test_sampled_index_comes_close_to_the_exact_one(p):
    """At least 3,000 observations per pair with a spread below 0.1 nats: 5 errors are under 0.01."""
    counts = random_table(1, p=p, n=60)
    sampled = interactions(counts, budget=0, n_permutations=9000)
    assert sampled == pytest.approx(interactions(counts), abs=0.01)
    assert (sampled == sampled.T).all()
    assert (np.diag(sampled) == 0).all()


def test_index_does_not_depend_on_names_or_order():
    counts = random_table(2, p=5, n=90)
    for budget in (10**9, 0):
        found = interactions(relabelled(counts), budget=budget)
        assert found == pytest.approx(interactions(counts, budget=budget), abs=1e-13)


@pytest.mark.parametrize("p", [2, 3, 4, 7, 8])
def test_every_pair_is_a_neighbour_equally_often(p):
    seen = np.zeros((p, p), int)
    for order in _latin(np.arange(p)):
        assert sorted(order) == list(range(p))
        for a, b in itertools.pairwise(order):
            seen[a, b] += 1
            seen[b, a] += 1
    assert len(set(seen[~np.eye(p, dtype=bool)])) == 1


def test_more_than_twenty_parties_are_sampled():
    """Twins among 21 parties stand out as the most redundant pair."""
    counts = random_table(3, p=20, n=50)
    twin = np.column_stack([counts.parties, counts.parties[:, 4]])
    wider = JointCounts(
        counts.task, twin, counts.label, counts.count, (*counts.names, "twin"), (*counts.n_codes, 3)
    )
    found = interactions(wider, n_permutations=2100)
    assert np.unravel_index(found.argmin(), found.shape) in {(4, 20), (20, 4)}
