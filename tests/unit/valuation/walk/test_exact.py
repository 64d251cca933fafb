"""The exact walk against the definition, whatever the layout of its table."""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from fedvalue.engines import Execution, Stop
from fedvalue.information.contingency import JointCounts
from fedvalue.valuation.entropies import CmiValues
from fedvalue.valuation.items import item_table
from fedvalue.valuation.permutations.sampling import sampled_values
from fedvalue.valuation.walk import block_table
from fedvalue.valuation.walk import exact as walk
from fedvalue.valuation.walk.exact import ExactWalk
from fedvalue.valuation.walk.regions import REGION_BLOCKS
from tests.support.joint_tables import Table, binned, exact_walk, random_table, tables

LAYOUTS = [(share, blocks) for share in (1, 8, 10**9) for blocks in (15, 40, 10**9)]
"""Which cells are lists and which are bit sets, and how many blocks a region has."""

LISTS = (1, 25)
"""Every cell a list, regions of a few blocks."""


def walked(counts: JointCounts, layout: tuple[int, int], **keywords: Any) -> CmiValues:
    """The exact walk of a table laid out in another way than usual."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(block_table, "BITSET_SHARE", layout[0])
        return exact_walk(counts, region_blocks=layout[1], **keywords)


@given(tables())
@settings(max_examples=120)
def test_values_equal_brute_force(table: Table) -> None:
    """Eq. 8 over all coalitions with dictionaries, to 1e-12 nats, whatever the layout."""
    expected = table.shapley_cmi()
    for found in (exact_walk(table.counts()), walked(table.counts(), LISTS)):
        np.testing.assert_allclose(found.values, expected, rtol=0, atol=1e-12)


@given(tables(most_parties=5, most_items=16))
@settings(max_examples=40)
def test_total_and_label_entropy_come_from_the_same_table(table: Table) -> None:
    """Additivity: the values add up to H(Y|X_t) - H(Y|X_t, X_all), each computed apart."""
    found = exact_walk(table.counts())
    assert math.isclose(found.values.sum(), found.total, rel_tol=0, abs_tol=1e-12)
    assert -1e-12 <= found.total <= found.label_entropy + 1e-12


class Here(Executor):
    """Runs a task when it is submitted: no threads, for thousands of tiny games."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


def test_every_layout_agrees_on_thousands_of_games() -> None:
    """2,000 random games: as lists, in one of 9 other layouts, and as usual."""
    rng = np.random.default_rng(7)
    here = Here()
    for _ in range(2000):
        counts = random_table(
            rng,
            n_parties=int(rng.integers(1, 7)),
            n_items=int(rng.integers(1, 30)),
            n_codes=int(rng.integers(1, 7)),
            n_labels=int(rng.integers(1, 12)),
        ).counts()
        first = walked(counts, LISTS, execution=Execution(here))
        layout = LAYOUTS[int(rng.integers(len(LAYOUTS)))]
        for found in (
            walked(counts, layout, execution=Execution(here)),
            exact_walk(counts, execution=Execution(here)),
        ):
            np.testing.assert_allclose(found.values, first.values, rtol=0, atol=1e-13)


@pytest.mark.parametrize("share", [1, 8, 256])
def test_blocks_of_hundreds_of_items_equal_brute_force(share: int) -> None:
    """Large blocks are compared by bit sets: with none, with some, and with all cells having one."""
    rng = np.random.default_rng(share)
    table = random_table(rng, n_parties=5, n_items=900, n_codes=4, n_labels=3)
    table.parties[2][:] = (rng.random(900) < 0.004).astype(int).tolist()
    table.parties[4][:] = [a * (b == 0) for a, b in zip(table.parties[0], table.parties[1], strict=True)]
    found = walked(table.counts(), (share, REGION_BLOCKS))
    np.testing.assert_allclose(found.values, table.shapley_cmi(), rtol=0, atol=1e-12)


@pytest.mark.parametrize("n_labels", [2, 9, 25])
def test_labels_that_need_several_words_of_counts(n_labels: int) -> None:
    """Weights of 2^40 make every label field 50 bits wide, so few of them fit into a word."""
    rng = np.random.default_rng(n_labels)
    table = random_table(rng, n_parties=5, n_items=60, n_codes=3, n_labels=n_labels)
    heavy = Table(table.parties, table.label, table.task, rng.integers(1, 2**40, 60).tolist())
    for found in (exact_walk(heavy.counts()), walked(heavy.counts(), LISTS)):
        np.testing.assert_allclose(found.values, heavy.shapley_cmi(), rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    "n_codes",
    [300, pytest.param(70_000, marks=pytest.mark.slow)],  # the latter compiles the kernels for wide codes
)
def test_parties_with_more_codes_than_a_byte_or_two_hold(n_codes: int) -> None:
    """A party that knows every sample takes half of what the label's copy explains, and vice versa."""
    unique = np.arange(n_codes)
    label = unique % 2
    counts = JointCounts.from_columns(
        label=label, parties={"unique": unique, "copy": label, "none": label * 0}
    )
    found = exact_walk(counts)
    np.testing.assert_allclose(found.values, [math.log(2) / 2, math.log(2) / 2, 0.0], rtol=0, atol=1e-12)


def test_more_than_64_parties() -> None:
    """100 parties: two copies of the label, 97 constants and one useless coin, which gets nothing."""
    label = np.array([0, 1, 0, 1])
    coin = np.array([0, 0, 1, 1])
    parties = {f"constant{k}": label * 0 for k in range(97)} | {"copy": label, "again": label, "coin": coin}
    found = exact_walk(JointCounts.from_columns(label=label, parties=parties))
    np.testing.assert_allclose(found.values[:97], 0.0)
    np.testing.assert_allclose(found.values[97:], [math.log(2) / 2, math.log(2) / 2, 0.0], atol=1e-15)


def test_seventy_different_parties_against_the_closed_form() -> None:
    """Each party separates one pair of rows of its own: it gets that pair's share of H(Y), ln 2 / 70."""
    p = 70
    task = np.repeat(np.arange(p), 2)
    label = np.tile([0, 1], p)
    parties = {f"p{k}": ((task == k) & (label == 1)).astype(int) for k in range(p)}
    found = exact_walk(JointCounts.from_columns(label=label, parties=parties, task=task))
    np.testing.assert_allclose(found.values, math.log(2) / p, rtol=1e-13)


@pytest.mark.parametrize(
    ("label", "party"),
    [([0], [0]), ([0, 0], [0, 1]), ([0, 1], [0, 0])],
    ids=["one item", "a constant label", "a constant party"],
)
def test_nothing_to_explain_or_nobody_who_explains(label: list[int], party: list[int]) -> None:
    """One item, a pure label or a party without information: value 0, no error."""
    found = exact_walk(JointCounts.from_columns(label=np.array(label), parties={"a": np.array(party)}))
    assert found.values.tolist() == [0.0]


def test_exclusive_or_is_shared_equally() -> None:
    """Y = A xor B: neither helps alone, together they explain ln 2, so each gets half."""
    a, b = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])
    found = exact_walk(JointCounts.from_columns(label=a ^ b, parties={"a": a, "b": b}))
    np.testing.assert_allclose(found.values, math.log(2) / 2, rtol=1e-15)


def test_duplicate_parties_get_equal_values() -> None:
    """Bit-equal, also under other code names: they are one column of the walk."""
    rng = np.random.default_rng(3)
    x, y, z = rng.integers(0, 3, (3, 40))
    counts = JointCounts.from_columns(label=y, parties={"a": x, "b": z, "c": 2 - x})
    found = exact_walk(counts)
    assert found.values[0] == found.values[2]


def test_order_of_rows_and_names_of_codes_do_not_matter() -> None:
    """Shuffled rows and relabelled codes change the values by rounding only."""
    rng = np.random.default_rng(5)
    table = random_table(rng, n_parties=6, n_items=80, n_codes=4, n_labels=3)
    order = rng.permutation(80)
    other = JointCounts.from_columns(
        label=2 - np.array(table.label)[order],
        parties={f"p{k}": 3 - np.array(column)[order] for k, column in enumerate(table.parties)},
    )
    np.testing.assert_allclose(
        exact_walk(other).values, exact_walk(table.counts()).values, rtol=0, atol=1e-14
    )


class Clock:
    """A second passes with every look."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


@pytest.mark.parametrize("time_limit", [0.0, 15.0, 60.0])
def test_walk_gives_nothing_after_its_time_limit(time_limit: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """A part of the regions is no answer; with more time the same walk ends."""
    table = random_table(np.random.default_rng(11), n_parties=12, n_items=150, n_codes=3, n_labels=3)
    items = item_table(table.counts())
    monkeypatch.setattr(walk, "monotonic", Clock())
    assert ExactWalk(items, time_limit=time_limit, region_blocks=400).run() is None
    assert ExactWalk(items, time_limit=1e9, region_blocks=400).run() is not None


def test_walk_gives_nothing_when_a_person_stops_it() -> None:
    """Stopping is possible while regions are walked, and not afterwards."""
    table = random_table(np.random.default_rng(11), n_parties=12, n_items=150, n_codes=3, n_labels=3)
    items = item_table(table.counts())
    stop = Stop()
    done: list[float] = []

    def tell(work: float, total: float, note: str = "") -> None:
        done.append(work)
        stop.asked = stop.possible and work > 0.3 * total

    assert ExactWalk(items, region_blocks=400).run(Execution(progress=tell, stop=stop)) is None
    assert len(done) > 1
    assert not stop.possible


@pytest.mark.parametrize("blocks", [30, 1000])
def test_small_regions_change_the_work_and_not_the_values(blocks: int) -> None:
    """Each coalition's blocks lie in one region each; a block of several coalitions perhaps in several."""
    counts = random_table(np.random.default_rng(1), n_parties=10, n_items=100, n_codes=3, n_labels=2).counts()
    whole = exact_walk(counts)
    split = exact_walk(counts, region_blocks=blocks)
    assert split.n_blocks > whole.n_blocks
    assert split.values == pytest.approx(whole.values, abs=1e-13)


def test_regions_of_tables_with_only_duplicate_parties_cannot_be_split() -> None:
    """A column of several parties is no pivot: the region is walked as it is."""
    table = random_table(np.random.default_rng(3), n_parties=4, n_items=40, n_codes=3, n_labels=2)
    doubled = Table(table.parties * 2, table.label, table.task, table.weight)
    found = exact_walk(doubled.counts(), region_blocks=1)
    np.testing.assert_allclose(found.values, doubled.shapley_cmi(), rtol=0, atol=1e-12)
    assert found.n_blocks == exact_walk(doubled.counts()).n_blocks


def test_progress_rises_to_its_end() -> None:
    """Work done never falls, never exceeds what is expected, and ends at it."""
    seen: list[tuple[float, float]] = []
    counts = random_table(np.random.default_rng(2), n_parties=9, n_items=90, n_codes=3, n_labels=2).counts()
    exact_walk(
        counts,
        execution=Execution(progress=lambda done, total, note="": seen.append((done, total))),
        region_blocks=100,
    )
    done = [d for d, _ in seen]
    assert len(done) > 9
    assert done == sorted(done)
    assert all(d <= total for d, total in seen)
    assert seen[-1][0] == seen[-1][1]


def test_a_long_walk_estimates_its_work_for_the_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    """Early in the walk the expected work is near the true one, though few blocks are known yet."""
    monkeypatch.setattr(walk, "ESTIMATE_AFTER", 0.0)
    seen: list[float] = []
    counts = random_table(np.random.default_rng(2), n_parties=9, n_items=90, n_codes=3, n_labels=2).counts()
    found = exact_walk(
        counts,
        execution=Execution(progress=lambda done, total, note="": seen.append(total)),
        region_blocks=500,
    )
    assert len(seen) > 3
    assert 0.7 < seen[0] / found.work < 1.4
    assert seen[-1] >= found.work


def test_interrupt_from_progress_ends_the_walk() -> None:
    """Ctrl-C leaves as KeyboardInterrupt, not as a number."""

    def interrupt(done: float, total: float, note: str = "") -> None:
        raise KeyboardInterrupt

    counts = random_table(np.random.default_rng(2), n_parties=9, n_items=90, n_codes=3, n_labels=2).counts()
    with pytest.raises(KeyboardInterrupt):
        exact_walk(counts, execution=Execution(progress=interrupt))


def test_wine_and_breast_agree_with_sampled_permutations() -> None:
    """13 and 30 parties with one feature each; no two rows of Wine agree on all features, so H(Y) is shared.

    43 values: a normal deviate beyond 4.5 standard errors has probability 3e-4 among them.
    """
    from sklearn.datasets import load_breast_cancer, load_wine

    wine, breast = load_wine(), load_breast_cancer()
    shares = np.bincount(wine.target) / len(wine.target)
    for data in (wine, breast):
        counts = binned(data.data, data.target)
        exact = exact_walk(counts)
        assert math.isclose(exact.values.sum(), exact.total, rel_tol=1e-12)
        if data is wine:
            assert math.isclose(exact.total, -(shares * np.log(shares)).sum(), rel_tol=1e-12)
        sampled = sampled_values(item_table(counts), n_permutations=20_000, seed=1)
        assert np.abs((sampled.values - exact.values) / sampled.se).max() < 4.5


@pytest.mark.slow
def test_breast_agrees_with_a_million_sampled_permutations() -> None:
    """30 values: a normal deviate beyond 4 standard errors has probability 2e-3 among them."""
    from sklearn.datasets import load_breast_cancer

    breast = load_breast_cancer()
    counts = binned(breast.data, breast.target)
    exact = exact_walk(counts)
    sampled = sampled_values(item_table(counts), n_permutations=1_000_000, seed=2)
    assert sampled.n_permutations == 1_000_000
    assert np.abs((sampled.values - exact.values) / sampled.se).max() < 4


@pytest.mark.data
def test_spect_and_parkinsons_agree_with_sampled_permutations() -> None:
    """22 parties each; 44 values at 4.5 standard errors, as above."""
    import pandas as pd

    from tests.conftest import data_folder

    folder = data_folder()
    assert folder is not None
    for name in ("spect", "parkinsons"):
        frame = pd.read_csv(folder / f"{name}.csv").drop(columns="id")
        label = pd.factorize(frame.pop("label"))[0]
        counts = binned(frame.to_numpy(), label)
        exact = exact_walk(counts)
        assert math.isclose(exact.values.sum(), exact.total, rel_tol=1e-12)
        sampled = sampled_values(item_table(counts), n_permutations=20_000, seed=2)
        assert np.abs((sampled.values - exact.values) / sampled.se).max() < 4.5
