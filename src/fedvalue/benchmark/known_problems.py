"""Problems whose truth is known exactly: LINEAR, MONKLarge and the small worlds of `fedvalue.datasets`."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from fedvalue.benchmark.problem import Problem, VerticalTable
from fedvalue.datasets import label_codes, linear, monk_large, small_worlds

if TYPE_CHECKING:
    from fedvalue.datasets import Population

N_SMALL = 1000
"""Rows of a small world."""


def known_problem(population: Population, n_samples: int) -> Problem:
    """Rows of a population, with its known game as the truth."""
    seed = zlib.crc32(population.name.encode())
    rows, split = population.draw(n_samples, seed), population.split
    table = VerticalTable(
        label_codes(rows),
        rows.columns(split.task),
        {name: rows.columns(columns) for name, columns in split.parties.items()},
    )
    nothing = "nothing" if "nothing" in split.parties else None
    return Problem(population.name, population.name, table, noise=nothing, game=population.game, seed=seed)


def known_problems(n_journal: int) -> list[Problem]:
    """The small worlds, then LINEAR and MONKLarge in their three scenarios.

    Args:
        n_journal: Rows of LINEAR and MONKLarge.
    """
    small = [known_problem(population, N_SMALL) for population in small_worlds()]
    journal = [make(scenario) for make in (linear, monk_large) for scenario in ("S0", "S1", "S2")]
    return small + [known_problem(population, n_journal) for population in journal]
