"""What pooled evidence is for: it pays what a model could learn, and nothing else."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from fedvalue.valuation.evidence.evidence_values import evidence_values
from fedvalue.valuation.evidence.feature_table import FeatureTable
from tests.unit.valuation.evidence.worlds import (
    exclusive_or,
    joint_game_of,
    linear_table,
    linear_truth,
    two_informative,
    value_of,
)


@pytest.mark.parametrize("seed", range(5))
def test_exclusive_or_of_two_parties_is_found_in_1000_rows(seed):
    """The two share what there is: ln 2 less the entropy of the noise, 0.368 nats, to within 4 errors of
    0.015.
    """
    found = evidence_values(exclusive_or(1000, 2, seed))
    truth = np.log(2) + 0.1 * np.log(0.1) + 0.9 * np.log(0.9)
    assert found.total == pytest.approx(truth, abs=0.06)
    assert found.values[:2] == pytest.approx(truth / 2, abs=0.03)
    assert abs(found.values[2]) < 0.01 * found.total
    assert found.interactions[0, 1] == pytest.approx(found.total, rel=0.05)


@pytest.mark.parametrize("seed", range(5))
def test_exclusive_or_of_three_parties_is_found_with_the_joint_game(seed):
    table = exclusive_or(1000, 3, seed)
    found = evidence_values(table, joint_game=joint_game_of(table))
    truth = np.log(2) + 0.1 * np.log(0.1) + 0.9 * np.log(0.9)
    assert found.total == pytest.approx(truth, abs=0.06)
    assert found.values[:3] == pytest.approx(truth / 3, abs=0.03)
    assert abs(found.values[3]) < 0.01 * found.total
    assert evidence_values(table).total < 0.02


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("n", [1000, 20_000])
def test_noise_of_200_codes_and_row_numbers_get_at_most_a_thousandth(seed, n):
    label, strong, weak = two_informative(n, seed)
    noise = np.random.default_rng(seed + 100).integers(0, 200, n)
    parties = {"strong": [strong], "weak": [weak], "noise": [noise], "rows": [np.arange(n)]}
    found = evidence_values(FeatureTable.from_columns(label=label, parties=parties))
    assert np.all(np.abs(found.values[2:]) <= 0.001 * found.total)
    assert found.values[3] == 0.0
    assert found.values[1] > 0.1 * found.total


def test_copies_share_equally_and_add_nothing():
    label, strong, weak = two_informative(3000, 0)
    renamed = (strong * 7 + 3) % 11
    parties = {"one": [strong], "weak": [weak], "copy": [renamed]}
    found = evidence_values(FeatureTable.from_columns(label=label, parties=parties))
    assert found.values[0] == pytest.approx(found.values[2], abs=1e-9)
    assert value_of(found, "one", "weak") == value_of(found, "one", "weak", "copy") == found.total
    assert value_of(found, "one") == value_of(found, "copy") == value_of(found, "one", "copy")


def test_holders_of_the_same_two_columns_share_equally():
    """Nine pairs of parties tell the same; none is preferred, and together they are worth one."""
    rng = np.random.default_rng(1)
    first, second = rng.integers(0, 2, (2, 600))
    parties = {f"first {k}": [first] for k in range(3)} | {f"second {k}": [second] for k in range(3)}
    found = evidence_values(FeatureTable.from_columns(label=first ^ second, parties=parties))
    assert found.total > 0.6
    assert found.values[:3] == pytest.approx(found.values[0], abs=1e-9)
    assert found.values[3:] == pytest.approx(found.values[3], abs=1e-9)
    assert found.values.sum() == pytest.approx(found.total, abs=1e-12)
    assert found.values[0] == pytest.approx(found.values[3], rel=0.01)


@pytest.mark.parametrize("seed", range(3))
def test_shuffled_labels_are_worth_nothing(seed):
    """Among 12 useless columns the total stays within 1% of the label's entropy."""
    rng = np.random.default_rng(seed)
    columns = [rng.integers(0, 5, 2000) for _ in range(12)]
    label = rng.integers(0, 2, 2000)
    parties = {f"p{k}": columns[3 * k : 3 * k + 3] for k in range(4)}
    found = evidence_values(FeatureTable.from_columns(label=label, parties=parties))
    assert abs(found.total) < 0.01 * np.log(2)
    assert np.all(np.abs(found.values) < 3.0 * np.maximum(found.se, 1e-3))


@pytest.mark.parametrize("repeats", [1, 7, 40])
def test_exact_independence_is_worth_exactly_nothing(repeats):
    """Every combination of codes and labels equally often: zero, not rounding."""
    rows = np.array(list(itertools.product(range(3), range(2), range(4), range(2))))
    table = FeatureTable.from_columns(
        label=rows[:, 3],
        parties={"a": [rows[:, 0]], "b": [rows[:, 1]], "c": [rows[:, 2], rows[:, 0] + 3 * rows[:, 1]]},
        count=np.full(len(rows), repeats),
    )
    found = evidence_values(table)
    assert found.values.tolist() == [0.0, 0.0, 0.0]
    assert found.every_coalition.tolist() == [0.0] * 8
    assert found.covariance.tolist() == [[0.0] * 3] * 3
    assert found.se == pytest.approx([1 / len(rows) / repeats] * 3, rel=1e-12)


def test_a_party_exactly_independent_of_all_else_is_worth_exactly_nothing():
    """The label depends on b; a is crossed with both."""
    rows = np.array(list(itertools.product(range(3), range(2), range(2))))
    table = FeatureTable.from_columns(
        label=rows[:, 2],
        parties={"a": [rows[:, 0]], "b": [rows[:, 1]]},
        count=np.where(rows[:, 1] == rows[:, 2], 90, 30),
    )
    found = evidence_values(table)
    assert found.values[0] == 0.0
    assert found.values[1] > 0.1
    assert found.interactions.tolist() == [[0.0, 0.0], [0.0, 0.0]]


@pytest.mark.parametrize("setting", ["S0", "S1", "S2"])
@pytest.mark.parametrize("seed", range(2))
def test_linear_populations_get_their_true_values(setting, seed):
    """The journal version's LINEAR at n = 20,000: correlation at least 0.99 and the total within 10%."""
    truth, total = linear_truth(setting, seed)
    found = evidence_values(linear_table(setting, 20_000, seed))
    assert np.corrcoef(truth, found.values)[0, 1] >= 0.99
    assert found.total == pytest.approx(total, rel=0.1)


def test_a_wide_party_keeps_what_its_two_informative_columns_are_worth():
    """200 columns of which two tell something: at least 80% of what the two get alone."""
    label, strong, weak = two_informative(4000, 3)
    rng = np.random.default_rng(4)
    other = rng.integers(0, 5, 4000)
    label = np.where(rng.random(4000) < 0.2, other % 2, label)
    useless = [rng.integers(0, 5, 4000) for _ in range(198)]
    narrow = FeatureTable.from_columns(label=label, parties={"wide": [strong, weak], "other": [other]})
    wide = FeatureTable.from_columns(
        label=label, parties={"wide": [strong, weak, *useless], "other": [other]}
    )
    assert evidence_values(wide).values[0] >= 0.8 * evidence_values(narrow).values[0]


def test_one_label_and_constant_columns_are_worth_nothing():
    column = np.arange(40) % 4
    same = FeatureTable.from_columns(label=np.zeros(40, dtype=int), parties={"a": [column], "b": []})
    assert evidence_values(same).values.tolist() == [0.0, 0.0]
    constant = FeatureTable.from_columns(
        label=column % 2, parties={"a": [np.zeros(40, dtype=int)], "b": [column]}
    )
    found = evidence_values(constant)
    assert found.values[0] == 0.0
    assert found.values[1] > 0.4
