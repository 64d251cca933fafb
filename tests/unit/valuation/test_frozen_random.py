"""The frozen generator against vectors of an independent implementation, and the uniformity of its orders."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from fedvalue.valuation.frozen_random import (
    antithetic_orders,
    random_fractions,
    random_orders,
    random_words,
)

VECTORS = json.loads((Path(__file__).parents[2] / "vectors" / "frozen-random.json").read_text())


@pytest.mark.parametrize("case", VECTORS["words"], ids=lambda case: f"{case['seed']}/{case['stream']}")
def test_words_equal_the_vectors(case: dict[str, object]) -> None:
    words = random_words(8, seed=case["seed"], stream=case["stream"])
    assert [str(word) for word in words.tolist()] == case["words"]


@pytest.mark.parametrize("case", VECTORS["orders"], ids=lambda case: f"{case['n_parties']} parties")
def test_orders_equal_the_vectors(case: dict[str, object]) -> None:
    orders = random_orders(4, case["n_parties"], seed=case["seed"], stream=case["stream"])
    assert orders.tolist() == case["orders"]


def test_words_are_those_that_the_published_program_prints() -> None:
    """The outputs of splitmix64.c (Vigna, 2015) from the state 1234567, as Rosetta Code lists them."""
    assert random_words(5, seed=1234567).tolist() == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]


def test_first_orders_do_not_depend_on_how_many_are_drawn() -> None:
    few, many = (random_orders(n, 7, seed=3, stream=2) for n in (5, 40))
    assert few.tolist() == many[:5].tolist()


def test_orders_are_uniform() -> None:
    """24 orders of four, 48,000 draws: chi-square of 23 degrees of freedom below its 1e-6 quantile, 72."""
    seen = Counter(map(tuple, random_orders(48_000, 4, seed=5).tolist()))
    assert len(seen) == 24
    assert sum((count - 2000) ** 2 / 2000 for count in seen.values()) < 72


def test_fractions_are_uniform() -> None:
    """10,000 numbers in 16 equal parts: chi-square of 15 degrees of freedom below its 1e-6 quantile, 58."""
    fractions = random_fractions(10_000, seed=11)
    assert fractions.min() >= 0
    assert fractions.max() < 1
    counts = np.bincount((fractions * 16).astype(int), minlength=16)
    assert ((counts - 625) ** 2 / 625).sum() < 58


def test_other_seeds_and_streams_give_other_orders() -> None:
    drawn = {
        random_orders(10, 6, seed=seed, stream=stream).tobytes() for seed in range(4) for stream in range(4)
    }
    assert len(drawn) == 16


def test_second_half_of_antithetic_orders_reverses_the_first() -> None:
    orders = antithetic_orders(3, 5, seed=1)
    assert orders[3:].tolist() == orders[:3, ::-1].tolist()
