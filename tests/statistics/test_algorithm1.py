"""The paper's Algorithm 1 against the definition, and the fast engine against Algorithm 1."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from fedvalue.errors import InputError
from fedvalue.information.contingency import JointCounts
from tests.algorithm1 import algorithm_1, published_procedure
from tests.support.joint_tables import Table, exact_walk, tables


@given(tables(most_parties=4, most_items=16))
@settings(max_examples=40)
def test_algorithm_1_equals_eq_8_and_the_walk(table: Table) -> None:
    found = algorithm_1(table.counts())
    np.testing.assert_allclose(found, table.shapley_cmi(), rtol=0, atol=1e-12)
    np.testing.assert_allclose(found, exact_walk(table.counts()).values, rtol=0, atol=1e-12)


def test_published_procedure_comes_near_with_many_permutations() -> None:
    """1,500 sampled orders of three parties: within 0.02 nats; a marginal is at most ln 2.

    The standard error is at most ln 2 / 2 / √1500 = 0.009, so 0.02 is more than two of the largest possible.
    """
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 2, (2, 30))
    counts = JointCounts.from_columns(label=a ^ b, parties={"a": a, "b": b, "c": rng.integers(0, 2, 30)})
    found = published_procedure(counts, 1500)
    np.testing.assert_allclose(found, exact_walk(counts).values, rtol=0, atol=0.02)


def test_more_than_eight_parties_are_refused() -> None:
    parties = {f"p{k}": np.array([0, 1]) for k in range(9)}
    with pytest.raises(InputError, match="at most 8 parties, got 9"):
        algorithm_1(JointCounts.from_columns(label=np.array([0, 1]), parties=parties))
