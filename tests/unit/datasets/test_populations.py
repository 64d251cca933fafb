"""Populations with known values, against sums written out another way."""

from __future__ import annotations

from itertools import product
from math import comb, log

import numpy as np
import pytest

from fedvalue import datasets
from fedvalue.datasets.populations import Population, noise_codes, redundancy, synergy
from fedvalue.errors import InputError


def entropy(*p: float) -> float:
    return -sum(x * log(x) for x in p if x > 0)


def sigmoid(x: float) -> float:
    return float(1 / (1 + np.exp(-x)))


def game_of(population: Population) -> dict[tuple[str, ...], float]:
    names = list(population.split.parties)
    return {
        tuple(name for k, name in enumerate(names) if mask >> k & 1): float(value)
        for mask, value in enumerate(population.game)
    }


def test_redundancy_by_adding_up_four_states() -> None:
    """P(y = 1 | a, b) = σ(±2 ± 1); the copy brings nothing beyond the original."""
    p = {(a, b): sigmoid(2 * (2 * a - 1) + (2 * b - 1)) for a, b in product((0, 1), repeat=2)}
    both = entropy(0.5, 0.5) - np.mean([entropy(q, 1 - q) for q in p.values()])
    only_a = entropy(0.5, 0.5) - np.mean(
        [entropy(q, 1 - q) for q in ((p[a, 0] + p[a, 1]) / 2 for a in (0, 1))]
    )
    game = game_of(redundancy())
    assert game["original",] == pytest.approx(only_a)
    assert game["copy",] == pytest.approx(only_a)
    assert game["original", "copy", "noisy copy"] == pytest.approx(only_a)
    assert game["original", "own"] == pytest.approx(both)
    # The noisy copy is a through a channel with 10% errors.
    q = 0.9 * (p[1, 0] + p[1, 1]) / 2 + 0.1 * (p[0, 0] + p[0, 1]) / 2
    assert game["noisy copy",] == pytest.approx(log(2) - entropy(q, 1 - q))


@pytest.mark.parametrize("n_parties", [2, 3])
def test_synergy_shows_only_when_all_its_parts_are_there(n_parties: int) -> None:
    game = game_of(synergy(n_parties))  # type: ignore[arg-type]
    parts = tuple(f"part-{k + 1}" for k in range(n_parties))
    assert game[parts[:-1]] == pytest.approx(0, abs=1e-12)
    p = (sigmoid(2.5 + 1) + sigmoid(2.5 - 1)) / 2
    assert game[parts] == pytest.approx(log(2) - entropy(p, 1 - p))
    assert game["nothing",] == pytest.approx(0, abs=1e-12)
    assert max(game.values()) == pytest.approx(game[(*parts, "plain")])


def test_noise_and_row_numbers_are_worth_nothing() -> None:
    for n_codes in (200, 0):
        game = game_of(noise_codes(n_codes))
        assert game["one", "two", "nothing"] == game["one", "two"] > 0
        assert game["nothing",] == 0
    rows = noise_codes(0).draw(50, 1)
    assert len(set(rows.X["code"])) == 50
    assert rows.X["code"].dtype.kind == "U"
    assert len(set(noise_codes(200).draw(5000, 1).X["code"])) == 200


def test_monk_large_by_the_hypergeometric_distribution() -> None:
    """k ones among m of the bits: the rest hold 8 - k ones, with chance C(20 - m, 8 - k) / 2^(20 - m)."""

    def left(m: int) -> float:
        total = 0.0
        for k in range(m + 1):
            p = comb(20 - m, 8 - k) / 2 ** (20 - m) if k <= 8 else 0.0
            total += comb(m, k) / 2**m * entropy(p, 1 - p)
        return total

    game = game_of(datasets.monk_large("S2"))
    # The task party has the bits of d3, d4 those of d1 and d2.
    assert game["d3",] == pytest.approx(0, abs=1e-12)
    assert game["d1",] == pytest.approx(left(10) - left(15))
    assert game["d1", "d2"] == pytest.approx(left(10))
    assert game["d4",] == pytest.approx(left(10))
    alone = game_of(datasets.monk_large("S0"))
    assert alone["d3",] == pytest.approx(left(0) - left(10))
    assert alone["d1", "d2", "d3"] == pytest.approx(left(0))


def test_linear_is_what_its_rows_show() -> None:
    """Mean log loss of the true probabilities over 200,000 rows, error below 4 × 0.5 / sqrt(n) = 0.0045."""
    population = datasets.linear("S0", seed=3)
    w = np.random.default_rng(3).normal(size=20)
    rows = population.draw(200_000, 5)
    logits = (2 * np.column_stack([rows.X[f"x{j}"] for j in range(1, 21)]) - 1) @ w
    sign = np.where(rows.y == "1", 1, -1)
    loss = np.mean(np.log1p(np.exp(-sign * logits)))
    rate = np.mean(rows.y == "1")
    assert population.game[-1] == pytest.approx(entropy(rate, 1 - rate) - loss, abs=0.0045)


def test_scenarios_of_the_journal_version() -> None:
    s0, s1, s2 = (datasets.linear(scenario) for scenario in ("S0", "S1", "S2"))
    assert [len(held) for held in s0.split.parties.values()] == [5, 5, 10]
    assert list(s1.split.parties) == ["d1", "d2", "d3", "d4"]
    assert s2.split.task == tuple(f"x{j}" for j in range(31, 41))
    rows = s2.draw(100, 0)
    assert all((rows.X[f"x{j}"] == rows.X[f"x{j - 20}"]).all() for j in range(21, 41))
    assert rows.sha256 == s2.draw(100, 0).sha256 != s2.draw(100, 1).sha256
    with pytest.raises(InputError, match="scenario must be S0, S1 or S2, got 'S3'"):
        datasets.linear("S3")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="n_samples must be at least 1, got 0"):
        s0.draw(0, 0)
