"""Low-order values against populations whose coalition values are known by enumeration."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from fedvalue.errors import InputError
from fedvalue.information.pair_tables import MAX_CELLS, PairLayout, PairTables, tables_of_columns
from fedvalue.protocol.privacy import Privacy
from fedvalue.valuation.low_order.low_order_valuation import low_order_values
from fedvalue.valuation.shapley_indices import shapley_of

NAMES = ("a", "b", "c", "d", "noise")


class Population:
    """Columns of three codes that depend on each other in pairs; a label by an additive logit. The last
    column tells nothing. Drawn from a seed."""

    def __init__(self, seed: int, n_labels: int = 2) -> None:
        rng = np.random.default_rng(seed)
        self.cells = np.array(list(product(range(3), repeat=4)))
        level = self.cells - 1.0
        pull = np.triu(rng.normal(0, 0.5, (4, 4)), 1)
        chance = np.exp(np.einsum("if,fg,ig->i", level, pull, level))
        effect = rng.normal(0, 0.5, (4, 3, n_labels)) * np.array([1.0, 0.7, 0.4, 0.15])[:, None, None]
        logit = sum(effect[f][self.cells[:, f]] for f in range(4)) + rng.normal(0, 0.5, n_labels)
        given = np.exp(logit)
        self.joint = (chance / chance.sum())[:, None] * given / given.sum(axis=1, keepdims=True)

    def truth(self) -> np.ndarray:
        """Shapley values of the information of columns about the label."""
        return np.append(shapley_of(np.array([self._information(mask) for mask in range(16)])), 0.0)

    def _information(self, mask: int) -> float:
        group = sum((self.cells[:, f] * 3**f for f in range(4) if mask >> f & 1), np.zeros(81, dtype=int))
        table = np.array(
            [np.bincount(group, weights=self.joint[:, y], minlength=81) for y in range(self.joint.shape[1])]
        )
        held = table / np.maximum(table.sum(axis=0), 1e-300) / table.sum(axis=1, keepdims=True)
        return float(np.sum(table * np.log(np.where(table > 0, held, 1.0))))

    def tables(self, n: int, seed: int) -> PairTables:
        """Exact tables of n rows."""
        rng = np.random.default_rng(seed)
        n_labels = self.joint.shape[1]
        at = rng.choice(self.joint.size, n, p=self.joint.ravel())
        columns = [*self.cells[at // n_labels].T, rng.integers(0, 3, n)]
        layout = PairLayout((3,) * 5, tuple(range(5)), n_labels, NAMES)
        return tables_of_columns(layout, columns, at % n_labels)


def with_noise(tables: PairTables, epsilon: int | Fraction, seed: int) -> PairTables:
    privacy = Privacy(Fraction(epsilon), tables.n_samples, tables.layout.n_columns)
    cut = tables.layout.n_label_cells
    rng = np.random.default_rng(seed)
    variance = np.full(len(tables.cells), float(privacy.pair_variance))
    variance[:cut] = float(privacy.label_variance)
    drawn = np.rint(rng.normal(0, np.sqrt(variance))).astype(np.int64)
    return tables.with_noise(drawn, float(privacy.label_variance), float(privacy.pair_variance))


def off(values: np.ndarray, truth: np.ndarray) -> float:
    """Part of the money that goes to the wrong party."""
    share = np.maximum(values, 0) / np.maximum(values, 0).sum()
    return float(np.abs(share - truth / truth.sum()).sum() / 2)


@pytest.mark.parametrize("n_labels", [2, 3])
def test_without_noise_the_values_are_those_of_the_population(n_labels):
    apart, ratio = [], []
    for seed in range(4):
        world = Population(seed, n_labels)
        found = low_order_values(world.tables(30_000, seed)).values
        apart.append(off(found, world.truth()))
        ratio.append(found.sum() / world.truth().sum())
        assert found[-1] < 0.01 * found.sum()
    assert np.mean(apart) < 0.06
    assert 0.9 < np.mean(ratio) < 1.1


def test_at_epsilon_1_and_10_000_rows_the_values_are_still_useful():
    apart = []
    for seed in range(6):
        world = Population(seed)
        found = low_order_values(with_noise(world.tables(10_000, seed), 1, seed)).values
        apart.append(off(found, world.truth()))
        assert found[-1] <= 0.02 * found.sum()
    assert np.mean(apart) < 0.10


def test_intervals_include_the_noise_and_cover():
    """Nominal 95%; 12 worlds x 5 parties, so a share below 0.87 has a chance below 1% if they do."""
    covered = []
    for seed in range(12):
        world = Population(seed)
        found = low_order_values(with_noise(world.tables(20_000, seed), 1, 100 + seed))
        covered += list(np.abs(found.values - world.truth()) <= 1.96 * found.se)
    assert np.mean(covered) >= 0.87


def test_with_shuffled_labels_no_value_differs_from_zero():
    for seed in range(4):
        tables = Population(seed).tables(10_000, seed)
        rng = np.random.default_rng(seed)
        columns = [rng.integers(0, 3, 10_000) for _ in range(5)]
        shuffled = tables_of_columns(tables.layout, columns, rng.integers(0, 2, 10_000))
        found = low_order_values(with_noise(shuffled, 1, seed))
        assert found.total < 5e-4
        assert all(found.values - 1.96 * found.se <= 1e-9)


def plug_in(table: np.ndarray) -> float:
    """I(X; Y) of a noisy table as it stands, in nats; negative cells count as empty."""
    joint = np.maximum(table, 0.0) / np.maximum(table, 0.0).sum()
    apart = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0, keepdims=True)
    seen = joint > 0
    return float(np.sum(joint[seen] * np.log(joint[seen] / apart[seen])))


def test_396_random_codes_earn_nothing():
    """Issue 13, item 9: at n = 2,000 they once earned more than both honest parties, with epsilon 1.

    The old rule released values of the noisy counts as they stand, where random codes look best.
    """
    rng = np.random.default_rng(1)
    n = 2000
    label = rng.integers(0, 2, n)
    honest = [np.where(rng.random(n) < 0.8, label, 1 - label) for _ in range(2)]
    random = rng.integers(0, 396, n)
    layout = PairLayout((2, 2, 396), (0, 1, 2), 2, ("a", "b", "inflated"))
    exact = tables_of_columns(layout, [*honest, random], label)
    for tables in (exact, *(with_noise(exact, 1, seed) for seed in range(5))):
        values = low_order_values(tables).values
        assert values[2] < 0.01 * values[0]
        assert values[2] < 0.01 * values[1]
        old = [plug_in(np.asarray(table)) for table in tables.label_tables()]
        assert tables is exact or old[2] > max(old[:2])


def test_the_same_tables_give_the_same_values_whatever_codes_are_called():
    world = Population(2)
    tables = world.tables(5_000, 2)
    rng = np.random.default_rng(0)
    order = [rng.permutation(3) for _ in range(5)]
    label = [table[order[f]] for f, table in enumerate(tables.label_tables())]
    pairs = [table[np.ix_(order[f], order[g])] for (f, g), table in tables.pair_table().items()]
    renamed = PairTables(tables.layout, np.concatenate([t.ravel() for t in (*label, *pairs)]), 5_000)
    assert low_order_values(renamed).values == pytest.approx(low_order_values(tables).values, abs=1e-9)


def test_tables_that_are_too_large_are_refused():
    with pytest.raises(InputError, match="cells") as caught:
        PairLayout((3000, 3000), (0, 1), 2, ("a", "b"))
    assert caught.value.code == "E_BUDGET"
    assert MAX_CELLS < 9_000_000
