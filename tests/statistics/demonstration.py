"""The demonstration's population: its true values in closed form, and how far valuations of redraws are off.

    python -m tests.statistics.demonstration [--redraws 200]

Default depends on three independent hidden traits (`fedvalue.simulation.example.generate`). The bank's
income and the telco's columns see only the first, the shop's only the second, the insurer's only the
third. So the posterior of the traits given any columns is a product, and H(Y | columns) is a finite sum over
a grid of the traits: no sampling, no estimator of ours.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from functools import cache
from itertools import combinations

import numpy as np
import pyarrow as pa

import fedvalue
from fedvalue.simulation.example.generate import tables
from tests.naive import shapley

PARTIES = ("telco", "shop", "insurer", "utility")
INFORMATIVE = PARTIES[:3]
BINS = 5
"""Bins of a numeric column by default."""
GRID = 61
"""Points of each trait; 41 and 81 give the same values to 1e-5."""


def _steps(mean: np.ndarray, spread: float, most: int) -> np.ndarray:
    """P(clip(round(mean + spread e), 0, most) = k), shape (traits, most + 1)."""
    from scipy.stats import norm

    edges = np.concatenate([[-np.inf], np.arange(most) + 0.5, [np.inf]])
    return np.diff(norm.cdf((edges - mean[:, None]) / spread), axis=1)


def _filled_evenly(seen: np.ndarray, prior: np.ndarray, bins: int | None) -> np.ndarray:
    """The same column cut into bins that hold about equally many customers."""
    if bins is None:
        return seen
    below = np.cumsum(prior @ seen) - 1e-9
    place = np.minimum(below * bins, bins - 0.5).astype(int)
    merged = np.zeros((len(prior), bins))
    np.add.at(merged.T, place, seen.T)
    return merged


@cache
def population_values(bins: int | None = BINS) -> dict[str, float]:
    """Shapley values of I(columns of S; default | income) in the population, in nats.

    Args:
        bins: Bins of the two columns with many values, income and bought_on_credit; None for their values
            as they are.
    """
    from scipy.special import expit, xlogy
    from scipy.stats import norm

    trait = np.linspace(-4.5, 4.5, GRID)
    prior = norm.pdf(trait)
    prior /= prior.sum()
    late = _steps(1 + 1.2 * trait, 0.3, 3)
    credit = _steps(45 + 20 * trait, 6.0, 90)
    returns = _steps(0.5 + 0.3 * trait, 0.3, 2)
    claims = _steps(1 - 1.1 * trait, 0.3, 3)
    edges = np.concatenate([[-np.inf], np.linspace(9.2, np.log(70_000), 60), [np.inf]])
    income = np.diff(norm.cdf((edges - (10.4 - 0.2 * trait)[:, None]) / 0.3), axis=1)
    income, credit = _filled_evenly(income, prior, bins), _filled_evenly(credit, prior, bins)
    odds = -1.5 + 1.8 * trait[:, None, None] + 1.5 * trait[None, :, None] - 1.6 * trait[None, None, :]
    default = expit(odds)
    unknown = np.ones((GRID, 1))
    both = (credit[:, :, None] * returns[:, None, :]).reshape(GRID, -1)
    seen = {
        "strain": {False: income, True: (income[:, :, None] * late[:, None, :]).reshape(GRID, -1)},
        "habit": {False: unknown, True: both},
        "luck": {False: unknown, True: claims},
    }

    def entropy(members: frozenset[int]) -> float:
        weights = [
            prior[:, None] * seen[name][k in members] for k, name in enumerate(("strain", "habit", "luck"))
        ]
        mass = np.einsum("a,b,c->abc", *(w.sum(axis=0) for w in weights))
        ones = np.einsum("sa,hb,lc,shl->abc", *weights, default, optimize=True)
        zeros = mass - ones
        return float(-(xlogy(ones, ones) + xlogy(zeros, zeros) - xlogy(mass, mass)).sum())

    nobody = entropy(frozenset())
    everybody = range(len(PARTIES))
    game = {
        members: nobody - entropy(members)
        for size in range(len(PARTIES) + 1)
        for members in map(frozenset, combinations(everybody, size))
    }
    found = shapley(game, len(PARTIES))
    return dict(zip(PARTIES, found, strict=True))


@dataclass(frozen=True)
class Redraws:
    """What valuations of many redraws say about the population.

    Args:
        n: Number of redraws.
        mean: Mean learnable value by party.
        covered: Part of the redraws whose 95% interval holds the population value of the coded columns, by
            party.
        invited: Part of the redraws that recommend exactly the three informative parties.
    """

    n: int
    mean: dict[str, float]
    covered: dict[str, float]
    invited: float


def redraws(n: int, first_seed: int = 1) -> Redraws:
    """Value `n` redraws of the demonstration's 5,000 customers, as `fedvalue value` does by default."""
    truth = population_values()
    values: list[list[float]] = []
    hits: list[list[bool]] = []
    invited = 0
    for seed in range(first_seed, first_seed + n):
        drawn = {name: pa.table(table).sort_by("customer") for name, table in tables(seed).items()}
        numbers = {
            name: pa.table({column: _typed(table[column]) for column in table.column_names[1:]})
            for name, table in drawn.items()
        }
        result = fedvalue.value(
            label=numbers["bank"]["defaulted"],
            task=numbers["bank"].select(["income"]),
            parties={name: numbers[name] for name in PARTIES},
        )
        rows = [result[name] for name in PARTIES]
        values.append([row.learnable for row in rows])
        hits.append(
            [row.learnable_interval[0] <= truth[row.name] <= row.learnable_interval[1] for row in rows]
        )
        invited += set(fedvalue.select(result).parties) == set(INFORMATIVE)
    return Redraws(
        n=n,
        mean=dict(zip(PARTIES, np.mean(values, axis=0).tolist(), strict=True)),
        covered=dict(zip(PARTIES, np.mean(hits, axis=0).tolist(), strict=True)),
        invited=invited / n,
    )


def _typed(column: pa.ChunkedArray) -> pa.ChunkedArray:
    try:
        return column.cast(pa.float64())
    except pa.ArrowInvalid:
        return column


def main() -> None:
    """Print the population values and what the redraws give."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--redraws", type=int, default=200)
    found = redraws(parser.parse_args().redraws)
    truth, uncut = population_values(), population_values(None)
    print("| party | population | in 5 bins | mean of redraws | error | intervals that cover |")
    print("|---|---|---|---|---|---|")
    for name in PARTIES:
        error = f"{found.mean[name] / truth[name] - 1:+.1%}" if truth[name] > 1e-9 else ""
        values = " | ".join(f"{value[name]:.4f}" for value in (uncut, truth, found.mean))
        print(f"| {name} | {values} | {error} | {found.covered[name]:.1%} |")
    print(f"\nExactly the three informative parties recommended: {found.invited:.1%} of {found.n} redraws.")


if __name__ == "__main__":
    main()
