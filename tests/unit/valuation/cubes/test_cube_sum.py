"""The sum over all coalitions against the definition and the walk, whatever the layout of its table."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from fedvalue.engines import Execution, Stop, thread_engine
from fedvalue.information.contingency import JointCounts
from fedvalue.valuation.cubes import cube_sum
from fedvalue.valuation.cubes.cube_sum import CubeSum, one_core_seconds
from fedvalue.valuation.cubes.cube_table import MOST_SAMPLES, cube_table
from fedvalue.valuation.entropies import CmiValues
from fedvalue.valuation.items import item_table
from tests.support.joint_tables import Table, exact_walk, random_table, tables


def summed(counts: JointCounts, **keywords: Any) -> CmiValues:
    """A sum that nothing stops."""
    cubes = CubeSum.of(item_table(counts))
    assert cubes is not None
    values = cubes.run(**keywords)
    assert values is not None
    return values


def many_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a task of every coalition of the decided columns."""
    monkeypatch.setattr(cube_sum, "TASK_SECONDS", 1e-12)


@given(tables())
@settings(max_examples=120)
def test_values_equal_brute_force(table: Table) -> None:
    """Eq. 8 over all coalitions with dictionaries, to 1e-12 nats: at most 8 parties, all in the cube."""
    if sum(table.weight) > MOST_SAMPLES:
        assert cube_table(item_table(table.counts())) is None
        return
    expected = table.shapley_cmi()
    np.testing.assert_allclose(summed(table.counts()).values, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("n_codes", [2, 3, 9])
@pytest.mark.parametrize("n_labels", [2, 3, 11])
def test_columns_outside_the_cube_equal_brute_force(n_codes: int, n_labels: int) -> None:
    """Ten parties, so two are decided one after another; weights, task codes and a label for each."""
    rng = np.random.default_rng(10 * n_codes + n_labels)
    plain = random_table(rng, n_parties=10, n_items=60, n_codes=n_codes, n_labels=n_labels)
    table = Table(
        plain.parties, plain.label, rng.integers(0, 2, 60).tolist(), rng.integers(1, 9, 60).tolist()
    )
    np.testing.assert_allclose(summed(table.counts()).values, table.shapley_cmi(), rtol=0, atol=1e-12)


def test_tables_of_many_shapes_equal_the_walk() -> None:
    """300 random tables of 9 to 14 parties, with and without structure."""
    rng = np.random.default_rng(5)
    for _ in range(300):
        n_parties, n_items = int(rng.integers(9, 15)), int(rng.integers(1, 120))
        table = random_table(
            rng,
            n_parties=n_parties,
            n_items=n_items,
            n_codes=int(rng.integers(1, 6)),
            n_labels=int(rng.integers(1, 5)),
        )
        noise = rng.random(n_items) < 0.2
        label = np.where(noise, table.label, np.array(table.parties[0]) % 3)
        counts = Table(
            table.parties, label.tolist(), rng.integers(0, 1 + n_items // 20, n_items).tolist(), table.weight
        ).counts()
        found, expected = summed(counts), exact_walk(counts)
        np.testing.assert_allclose(found.values, expected.values, rtol=0, atol=1e-13)


@pytest.mark.parametrize("n_codes", [300, 70_000])
def test_codes_that_need_wide_lanes(n_codes: int) -> None:
    """A party that knows every sample takes half of what the label's copy explains, and vice versa.

    Eight more parties that tell nothing about the label fill the cube.
    """
    unique = np.arange(n_codes)
    label = unique % 2
    parties = {f"none{k}": (unique // 2 + k) % 2 * (unique // 2 % (k + 3) == 0) for k in range(8)}
    counts = JointCounts.from_columns(label=label, parties=parties | {"unique": unique, "copy": label})
    found = summed(counts)
    assert found.values[-2] == pytest.approx(found.values[-1], abs=1e-12)
    np.testing.assert_allclose(found.values[-2:], math.log(2) / 2, rtol=0, atol=1e-12)


def test_label_counts_of_several_words() -> None:
    """A million samples with 25 labels: fields of 20 bits, nine words."""
    rng = np.random.default_rng(8)
    plain = random_table(rng, n_parties=9, n_items=80, n_codes=3, n_labels=25)
    heavy = Table(plain.parties, plain.label, plain.task, rng.integers(1, 2 * 10**4, 80).tolist())
    found, expected = summed(heavy.counts()), exact_walk(heavy.counts())
    np.testing.assert_allclose(found.values, expected.values, rtol=0, atol=1e-12)


def test_parity_of_ten_parties_is_shared_equally() -> None:
    """Only all ten together know the label, so each gets a tenth of ln 2; nothing is pure before."""
    rows = np.arange(1024)
    bits = [(rows >> k) & 1 for k in range(10)]
    counts = JointCounts.from_columns(label=sum(bits) % 2, parties={f"p{k}": b for k, b in enumerate(bits)})
    np.testing.assert_allclose(summed(counts).values, math.log(2) / 10, rtol=0, atol=1e-14)


def test_a_majority_of_independent_coins_against_the_closed_form() -> None:
    """Eleven coins and their majority: equal shares of ln 2, and a twelfth coin that gets nothing."""
    rows = np.arange(1 << 12)
    coins = [(rows >> k) & 1 for k in range(12)]
    label = (sum(coins[:11]) > 5).astype(int)
    counts = JointCounts.from_columns(label=label, parties={f"p{k}": coin for k, coin in enumerate(coins)})
    values = summed(counts).values
    np.testing.assert_allclose(values[:11], math.log(2) / 11, rtol=0, atol=1e-13)
    assert abs(values[11]) < 1e-13


@pytest.mark.parametrize(
    ("label", "party"),
    [([0], [0]), ([0, 0], [0, 1]), ([0, 1], [0, 0])],
    ids=["one item", "a constant label", "a constant party"],
)
def test_nothing_to_explain_or_nobody_who_explains(label: list[int], party: list[int]) -> None:
    found = summed(JointCounts.from_columns(label=np.array(label), parties={"a": np.array(party)}))
    assert found.values.tolist() == [0.0]


def test_duplicate_parties_get_equal_values() -> None:
    """Bit-equal, also under other code names and with one of them outside the cube."""
    rng = np.random.default_rng(3)
    table = random_table(rng, n_parties=10, n_items=50, n_codes=3, n_labels=2)
    parties = [*table.parties, [2 - code for code in table.parties[0]]]
    counts = Table(parties, table.label, table.task, table.weight).counts()
    found = summed(counts)
    assert found.values[0] == found.values[-1]
    np.testing.assert_allclose(found.values, exact_walk(counts).values, rtol=0, atol=1e-13)


@pytest.mark.parametrize("workers", [1, 3])
def test_tasks_add_up_to_the_same_values(workers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixteen tasks, each with another prefix of four columns, against one; on any number of threads."""
    counts = random_table(np.random.default_rng(2), n_parties=12, n_items=90, n_codes=3, n_labels=3).counts()
    whole = summed(counts)
    many_tasks(monkeypatch)
    with thread_engine(workers) as pool:
        first, second = (summed(counts, execution=Execution(pool)) for _ in range(2))
    assert first.values.tolist() == second.values.tolist()
    np.testing.assert_allclose(first.values, whole.values, rtol=0, atol=1e-14)


def test_small_blocks_are_closed_once_by_all_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks that become small at every depth of the prefix: 4 task codes of 6 items, and unique codes."""
    rng = np.random.default_rng(4)
    parties = [rng.integers(0, 4, 24).tolist() for _ in range(9)] + [
        list(range(24)),
        [k // 2 for k in range(24)],
    ]
    table = Table(parties, rng.integers(0, 2, 24).tolist(), [k // 6 for k in range(24)], [1] * 24)
    expected = table.shapley_cmi()
    many_tasks(monkeypatch)
    np.testing.assert_allclose(summed(table.counts()).values, expected, rtol=0, atol=1e-12)


def test_more_columns_than_bits_of_a_word_are_not_taken() -> None:
    rows = np.arange(128)
    parties = {f"p{k}": (rows == k).astype(int) for k in range(63)}
    assert CubeSum.of(item_table(JointCounts.from_columns(label=rows % 2, parties=parties))) is None


class Clock:
    """A second passes with every look."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


@pytest.mark.parametrize("time_limit", [0.0, 5.0])
def test_nothing_is_released_after_the_time_limit(time_limit: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """A part of the coalitions is no answer; with more time the same sum ends."""
    table = random_table(np.random.default_rng(11), n_parties=12, n_items=90, n_codes=3, n_labels=3)
    items = item_table(table.counts())
    many_tasks(monkeypatch)
    monkeypatch.setattr(cube_sum, "monotonic", Clock())
    for limit, complete in ((time_limit, False), (1e9, True)):
        cubes = CubeSum.of(items, time_limit=limit)
        assert cubes is not None
        assert (cubes.run() is not None) == complete


def test_nothing_is_released_when_a_person_stops_it(monkeypatch: pytest.MonkeyPatch) -> None:
    table = random_table(np.random.default_rng(11), n_parties=12, n_items=90, n_codes=3, n_labels=3)
    cubes = CubeSum.of(item_table(table.counts()))
    assert cubes is not None
    many_tasks(monkeypatch)
    stop = Stop()
    done: list[float] = []

    def tell(work: float, total: float, note: str = "") -> None:
        done.append(work)
        stop.asked = stop.possible and work > 0.3 * total

    assert cubes.run(Execution(progress=tell, stop=stop)) is None
    assert 1 < len(done) < 16
    assert not stop.possible


def test_progress_rises_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = random_table(np.random.default_rng(2), n_parties=12, n_items=90, n_codes=3, n_labels=3).counts()
    many_tasks(monkeypatch)
    told: list[tuple[float, float]] = []
    summed(counts, execution=Execution(progress=lambda work, total, note="": told.append((work, total))))
    assert told == [(k, 16.0) for k in range(1, 17)]


def test_the_prediction_counts_every_leaf_of_a_small_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where all leaves are looked at, their number is 2 to the power of the decided columns.

    With leaves at one second each and everything else free, that number is the prediction.
    """
    counts = random_table(np.random.default_rng(3), n_parties=10, n_items=90, n_codes=2, n_labels=2).counts()
    for name in ("SPLIT_SECONDS", "CLOSED_SECONDS", "SMALL_SECONDS", "PAIR_SECONDS"):
        monkeypatch.setattr(cube_sum, name, 0.0)
    monkeypatch.setattr(cube_sum, "LEAF_SECONDS", 1.0)
    laid_out = cube_table(item_table(counts))
    assert laid_out is not None
    assert one_core_seconds(laid_out[0]) == pytest.approx(4, rel=1e-2)


def test_a_sampled_prediction_is_close_to_that_of_all_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    """16 parties: 4 leaves of each size out of 256 predict the work of all of them to a half."""
    counts = random_table(np.random.default_rng(6), n_parties=16, n_items=400, n_codes=3, n_labels=2).counts()
    laid_out = cube_table(item_table(counts))
    assert laid_out is not None
    sampled = one_core_seconds(laid_out[0])
    monkeypatch.setattr(cube_sum, "PATHS", 256)
    assert 1 / 1.5 < sampled / one_core_seconds(laid_out[0]) < 1.5
