"""The advice on populations whose coalition values are known, and how often contributions hold the truth."""

from __future__ import annotations

import math

import numpy as np
import pytest

import fedvalue
from fedvalue.datasets.populations import Population, noise_codes, redundancy, synergy

WORLDS = [redundancy(), synergy(2), synergy(3), noise_codes(200)]
WORTH = 0.001
"""Nats; what a party adds in these populations is either more than ten times this or nothing."""


def value(world: Population, n_samples: int, seed: int) -> fedvalue.Valuation:
    rows = world.draw(n_samples, seed)
    return fedvalue.value(
        label=rows.y,
        task=rows.columns(world.split.task) if world.split.task else None,
        parties={name: rows.columns(columns) for name, columns in world.split.parties.items()},
    )


def best_sets(world: Population) -> list[set[str]]:
    """The smallest sets of parties that are worth what all are worth."""
    names = list(world.split.parties)
    whole = [mask for mask in range(len(world.game)) if world.game[mask] > world.game[-1] - WORTH]
    fewest = min(mask.bit_count() for mask in whole)
    return [
        {name for k, name in enumerate(names) if mask >> k & 1}
        for mask in whole
        if mask.bit_count() == fewest
    ]


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
@pytest.mark.parametrize("n_samples", [1000, 5000])
def test_the_smallest_set_that_is_worth_everything_is_invited(world: Population, n_samples: int) -> None:
    """And the others are not even called undecided: these rows suffice."""
    for seed in range(4):
        choice = fedvalue.select(value(world, n_samples, seed))
        assert set(choice.parties) in best_sets(world)
        assert choice.undecided == ()


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
def test_too_few_rows_leave_parties_undecided_and_invite_no_useless_one(world: Population) -> None:
    useful = set().union(*best_sets(world))
    for seed in range(4):
        choice = fedvalue.select(value(world, 300, seed))
        assert set(choice.parties) <= useful
        assert choice.undecided
        assert all(step.adds.rows_needed and step.adds.rows_needed > 300 for step in choice.undecided)


@pytest.mark.slow
def test_intervals_of_contributions_hold_the_truth() -> None:
    """4 worlds of 3 to 5 parties x 3 sizes x 20 draws: 95% and no fewer, within four standard errors.

    Contributions of one draw depend on each other; the bound counts each draw once.
    """
    held, draws = [], 0
    for world in WORLDS:
        names = list(world.split.parties)
        for n_samples in (300, 1000, 5000):
            for seed in range(100, 120):
                mask, draws = 0, draws + 1
                for step in fedvalue.select(value(world, n_samples, seed)).steps:
                    joined = mask | 1 << names.index(step.party)
                    truth = world.game[joined] - world.game[mask]
                    assert step.adds.low is not None
                    assert step.adds.high is not None
                    held.append(step.adds.low <= truth <= step.adds.high)
                    mask = joined
    assert np.mean(held) >= 0.95 - 4 * math.sqrt(0.95 * 0.05 / draws)
