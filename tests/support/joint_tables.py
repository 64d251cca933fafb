"""Random joint tables for tests of the valuation engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from fedvalue.engines import HERE, Execution
from fedvalue.information.contingency import JointCounts
from fedvalue.valuation.entropies import CmiValues
from fedvalue.valuation.items import ItemTable, item_table
from fedvalue.valuation.walk.exact import ExactWalk
from tests import naive


@dataclass(frozen=True)
class Table:
    """Plain columns, as the naive twins take them."""

    parties: list[list[int]]
    label: list[int]
    task: list[int]
    weight: list[int]

    def counts(self) -> JointCounts:
        return JointCounts.from_columns(
            label=np.array(self.label),
            parties={f"p{k}": np.array(column) for k, column in enumerate(self.parties)},
            task=np.array(self.task),
            count=np.array(self.weight),
        )

    def shapley_cmi(self) -> list[float]:
        return naive.shapley_cmi(self.parties, self.label, self.task, self.weight)


def exact_values(items: ItemTable, *, execution: Execution = HERE, **limits: Any) -> CmiValues:
    """An exact walk that nothing stops."""
    values = ExactWalk(items, **limits).run(execution)
    assert values is not None, "a time limit can end a walk"
    return values


def exact_walk(counts: JointCounts, **keywords: Any) -> CmiValues:
    """The exact walk of a table of counts."""
    return exact_values(item_table(counts), **keywords)


@st.composite
def tables(draw: st.DrawFn, *, most_parties: int = 8, most_items: int = 36) -> Table:
    """Tables with ties, weights, constant and duplicate parties, with and without task features."""
    n = draw(st.integers(1, most_items))
    p = draw(st.integers(1, most_parties))

    def column(n_codes: int) -> list[int]:
        return draw(st.lists(st.integers(0, n_codes - 1), min_size=n, max_size=n))

    label = column(draw(st.sampled_from([1, 2, 2, 3, 5, 30])))
    parties = [column(draw(st.sampled_from([1, 2, 2, 3, 5, 40]))) for _ in range(p)]
    if p > 1 and draw(st.booleans()):
        parties[draw(st.integers(1, p - 1))] = list(parties[0])
    task = column(draw(st.sampled_from([1, 1, 2, 3])))
    weight = draw(
        st.one_of(
            st.just([1] * n),
            st.lists(st.integers(1, 4), min_size=n, max_size=n),
            st.lists(st.integers(1, 10**9), min_size=n, max_size=n),
        )
    )
    return Table(parties, label, task, weight)


def random_table(
    rng: np.random.Generator, *, n_parties: int, n_items: int, n_codes: int, n_labels: int
) -> Table:
    """A seeded table without structure."""
    return Table(
        [rng.integers(0, n_codes, n_items).tolist() for _ in range(n_parties)],
        rng.integers(0, n_labels, n_items).tolist(),
        [0] * n_items,
        [1] * n_items,
    )


def binned(features: np.ndarray, label: np.ndarray, bins: int = 5) -> JointCounts:
    """One feature per party in equal-width bins, right-closed like pandas.cut; few values stay."""
    parties = {}
    for k, x in enumerate(features.T):
        if len(np.unique(x)) <= bins:
            codes = np.unique(x, return_inverse=True)[1]
        else:
            edges = np.linspace(x.min(), x.max(), bins + 1)[1:-1]
            codes = np.searchsorted(edges, x, side="left")
        parties[f"f{k}"] = codes
    return JointCounts.from_columns(label=np.unique(label, return_inverse=True)[1], parties=parties)
