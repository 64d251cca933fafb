"""Synthetic tables: the paper's for its efficiency experiments, and populations with known coalition values.

A population has hidden bits, a label probability for every state of them, and columns that are the XOR of
some bits (one bit, mostly). So v(S) = I(X_S; Y | X_t) is a finite sum, and no estimate.

- LINEAR and MONKLarge of the journal version (Han, Wang, Wu, Fang, MIS Quarterly 50(1), 2026), in its
  scenarios S0 to S2.
- Small worlds: redundancy, synergy of two and of three parties, noise of 200 codes, row numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np

from fedvalue.datasets.dataset import Dataset
from fedvalue.datasets.parse import Columns, fingerprint
from fedvalue.datasets.split import VerticalSplit
from fedvalue.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fedvalue.typing import Floats

Scenario = Literal["S0", "S1", "S2"]


@dataclass(frozen=True, eq=False)
class Population:
    """Hidden bits, a label that depends on them, and the columns of each party.

    Args:
        name: Short name.
        chance: Probability that each hidden bit is 1; bits are independent, at most 20 of them.
        label: P(label = 1) of every state, shape (2^n_bits,); bit j of the index is hidden bit j.
        task: The task party's columns: name -> hidden bits whose XOR it is.
        parties: The same for each data party.
        codes: Columns of independent noise of each party, worth nothing: name -> number of equally likely
            codes, or 0 for row numbers.
    """

    name: str
    chance: tuple[float, ...]
    label: Floats = field(repr=False)
    task: Mapping[str, tuple[int, ...]]
    parties: Mapping[str, Mapping[str, tuple[int, ...]]]
    codes: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    @cached_property
    def game(self) -> Floats:
        """v(S) = I(X_S; Y | X_t) of all coalitions by mask (party k is bit k), in nats, shape (2^p,)."""
        held = [frozenset(self.parties.get(name, {}).values()) for name in self.split.parties]
        task = frozenset(self.task.values())
        seen: dict[frozenset[tuple[int, ...]], float] = {}  # copies of columns make many coalitions equal
        game = np.zeros(1 << len(held))
        for mask in range(len(game)):
            columns = task.union(*(columns for k, columns in enumerate(held) if mask >> k & 1))
            if columns not in seen:
                seen[columns] = self._conditional_entropy(columns)
            game[mask] = seen[task] - seen[columns]
        return game

    @property
    def split(self) -> VerticalSplit:
        """The owner of each column."""
        names = dict.fromkeys((*self.parties, *self.codes))
        return VerticalSplit(
            tuple(self.task),
            {name: (*self.parties.get(name, {}), *self.codes.get(name, {})) for name in names},
        )

    def draw(self, n_samples: int, seed: int) -> Dataset:
        """Independent rows."""
        if n_samples < 1:
            raise InputError(f"n_samples must be at least 1, got {n_samples}")
        rng = np.random.default_rng(seed)
        bits = rng.random((n_samples, len(self.chance))) < np.array(self.chance)
        state = bits @ (1 << np.arange(len(self.chance)))
        y = (rng.random(n_samples) < self.label[state]).astype(np.int64).astype(np.str_)
        columns: dict[str, Floats] = {}
        for held in (self.task, *self.parties.values()):
            columns |= {
                name: (bits[:, list(of)].sum(axis=1) % 2).astype(np.float64) for name, of in held.items()
            }
        for noise in self.codes.values():
            for name, size in noise.items():
                # Text: a number would be binned, and its codes hidden from every method.
                drawn = rng.integers(0, size, n_samples) if size else rng.permutation(n_samples)
                columns[name] = drawn.astype(np.float64)
        texts = {name for noise in self.codes.values() for name in noise}
        values = np.column_stack(list(columns.values()))
        return Dataset(
            name=self.name,
            X={
                name: np.char.add("c", column.astype(np.int64).astype(np.str_)) if name in texts else column
                for name, column in columns.items()
            },
            y=y,
            origin=f"{self.name}, a synthetic population with known values",
            licence="none needed",
            source=f"seed {seed}",
            sha256=fingerprint(Columns(tuple(columns), values, y)),
            categorical=True,
        )

    @cached_property
    def _weights(self) -> Floats:
        """Probability of every state."""
        weights = np.ones(1)
        for chance in self.chance:
            weights = np.concatenate([weights * (1 - chance), weights * chance])
        return weights

    def _conditional_entropy(self, columns: frozenset[tuple[int, ...]]) -> float:
        """H(Y | the columns)."""
        state = np.arange(len(self.label), dtype=np.uint32)
        code = np.zeros(len(self.label), dtype=np.uint32)
        for place, bits in enumerate(columns):
            mask = np.uint32(sum(1 << bit for bit in bits))
            code |= (np.bitwise_count(state & mask) & 1).astype(np.uint32) << np.uint32(place)
        total: Floats = np.bincount(code, self._weights).astype(np.float64)
        ones: Floats = np.bincount(code, self._weights * self.label).astype(np.float64)
        return float(_plogp(total) - _plogp(ones) - _plogp(total - ones))


def _plogp(p: Floats) -> np.float64:
    p = p[p > 1e-300]
    return np.float64(np.sum(p * np.log(p)))


def _states(n_bits: int) -> NDArray[np.int64]:
    """The bits of every state, shape (2^n_bits, n_bits)."""
    return np.arange(1 << n_bits)[:, None] >> np.arange(n_bits) & 1


def _logistic(logits: Floats) -> Floats:
    return np.asarray(1.0 / (1.0 + np.exp(-logits)))


def _journal(name: str, label: Floats, scenario: Scenario) -> Population:
    """40 features, 21 to 40 being copies of 1 to 20, dealt as the journal version's scenario says."""
    if scenario not in ("S0", "S1", "S2"):
        raise InputError(f"scenario must be S0, S1 or S2, got {scenario!r}")

    def features(first: int, last: int) -> dict[str, tuple[int, ...]]:
        return {f"x{j}": ((j - 1) % 20,) for j in range(first, last + 1)}

    parties = {"d1": features(1, 5), "d2": features(6, 10), "d3": features(11, 20)}
    if scenario != "S0":
        parties["d4"] = features(21, 30)
    task = features(31, 40) if scenario == "S2" else {}
    return Population(f"{name} {scenario}", (0.5,) * 20, label, task, parties)


def linear(scenario: Scenario = "S0", *, seed: int = 0) -> Population:
    """LINEAR: 20 fair bits, logit P(y = 1) = Σ w_j (2 x_j − 1), w ~ N(0, 1) by `seed`."""
    w = np.random.default_rng(seed).normal(size=20)
    return _journal("LINEAR", _logistic((2 * _states(20) - 1) @ w), scenario)


def monk_large(scenario: Scenario = "S0") -> Population:
    """MONKLarge: the label is 1 where exactly 40% of the features are 1, that is 8 of 20 fair bits."""
    return _journal("MONKLarge", (_states(20).sum(axis=1) == 8).astype(np.float64), scenario)


def redundancy() -> Population:
    """Three parties with a bit, a copy of it and a noisy copy; a fourth with another bit."""
    a, b = _states(3)[:, 0], _states(3)[:, 1]
    label = _logistic(2.0 * (2 * a - 1) + 1.0 * (2 * b - 1))
    return Population(
        "redundancy", (0.5, 0.5, 0.1), label, {},
        {"original": {"a": (0,)}, "copy": {"a2": (0,)}, "noisy copy": {"a3": (0, 2)}, "own": {"b": (1,)}},
    )  # fmt: skip


def synergy(n_parties: Literal[2, 3] = 2) -> Population:
    """The label is mostly the XOR of the parties' bits, each of which says nothing alone.

    Another party has a bit that matters by itself, and the last one a bit that does not matter.
    """
    bits = _states(n_parties + 2)
    odd = bits[:, :n_parties].sum(axis=1) % 2
    label = _logistic(2.5 * (2 * odd - 1) + 1.0 * (2 * bits[:, n_parties] - 1))
    parties = {f"part-{k + 1}": {f"x{k + 1}": (k,)} for k in range(n_parties)}
    parties |= {"plain": {"b": (n_parties,)}, "nothing": {"c": (n_parties + 1,)}}
    return Population(f"synergy of {n_parties}", (0.5,) * (n_parties + 2), label, {}, parties)


def noise_codes(n_codes: int = 200) -> Population:
    """Two informative parties, and one with a column of many meaningless codes; 0 for row numbers."""
    bits = _states(2)
    label = _logistic(1.5 * (2 * bits[:, 0] - 1) + 1.0 * (2 * bits[:, 1] - 1))
    name = f"noise of {n_codes} codes" if n_codes else "row numbers"
    return Population(
        name, (0.5, 0.5), label, {}, {"one": {"a": (0,)}, "two": {"b": (1,)}}, {"nothing": {"code": n_codes}}
    )


def small_worlds() -> list[Population]:
    """The small worlds, in the order of the docstring above."""
    return [redundancy(), synergy(2), synergy(3), noise_codes(200), noise_codes(0)]


def synthetic(
    *, n_samples: int = 10_000, n_parties: int = 5, features_per_party: int = 1, seed: int = 0
) -> tuple[Dataset, VerticalSplit]:
    """Binary features, a binary task feature and a binary label.

    The paper says no more about the values. Here the label is the majority of all features for three samples
    in four and a coin toss otherwise, so that every party has a value well above 0.

    Args:
        n_samples: Real samples; the protocol adds the adversarial ones.
        n_parties: Data parties.
        features_per_party: Binary features of each data party; the task party has one.
        seed: Of the draw.

    Returns:
        The table, and the owner of each feature.
    """
    for name, number in (
        ("n_samples", n_samples), ("n_parties", n_parties), ("features_per_party", features_per_party)
    ):  # fmt: skip
        if number < 1:
            raise InputError(f"{name} must be at least 1, got {number}")
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 2, size=(n_samples, 1 + n_parties * features_per_party)).astype(np.float64)
    votes = values.mean(axis=1)
    majority = np.where(votes == 0.5, rng.integers(0, 2, n_samples), votes > 0.5)
    noisy = rng.random(n_samples) < 0.25
    label = np.where(noisy, rng.integers(0, 2, n_samples), majority).astype(np.int64).astype(np.str_)
    parties = {
        f"party-{d + 1:02d}": tuple(f"x{d + 1}.{k + 1}" for k in range(features_per_party))
        for d in range(n_parties)
    }
    names = ("t1", *(name for group in parties.values() for name in group))
    table = Dataset(
        name="synthetic",
        X={name: values[:, k].copy() for k, name in enumerate(names)},
        y=label,
        origin="made by FedValue for the efficiency experiments",
        licence="none needed",
        source=f"seed {seed}",
        sha256=fingerprint(Columns(names, values, label)),
        categorical=True,
    )
    return table, VerticalSplit(("t1",), parties)
