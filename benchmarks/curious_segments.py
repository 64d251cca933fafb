"""Number of labels that a data party reads from its numbers with a column of segments: docs/security.md.

The attacker knows the labels of all persons except k targets. Its column has k segments, each with one target
and people whose labels it knows, and a code for everybody else. It computes its numbers for all 2^k guesses,
and keeps the guesses that explain its result: its learnable value, the total and an error of each. A label is
certain if all remaining guesses agree on it. For every label it names the likelier of 0 and 1.

It chooses the best of several columns: segments of 12 people and more, all with label 0; half of all persons
in segments, all with label 0, where one label changes much; and random ones. Three rules of release are
compared: doubles, the fixed grid of 0.0001 nats, and the random rounding of a deployed run, for which the
chances of all outcomes are computed.

Run: python benchmarks/curious_segments.py
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from fractions import Fraction
from itertools import product

import numpy as np
from numpy.typing import NDArray

from fedvalue.information.contingency import JointCounts
from fedvalue.protocol.release_grid import Grid, ladder
from fedvalue.protocol.share_rounding import share_step
from fedvalue.valuation.engine import value_counts

SIZES = (500, 2_000, 20_000, 200_000)
TARGETS = (1, 2, 4, 6, 8)
COLUMNS = 12
"""Columns that the attacker tries for each number of targets."""
GRID = Grid.of("0.0001")

Ints = NDArray[np.int64]
Outcome = tuple[float, float]
Chances = list[dict[Outcome, float]]
"""For every guess, the outcomes that it explains, with their probabilities."""


def numbers(sizes: Ints, ones: Ints) -> Outcome:
    """The value of a column of segments and its error. With one data party the total is the same."""
    count = np.column_stack([sizes - ones, ones]).ravel()
    seen = count > 0
    counts = JointCounts(
        task=np.zeros(int(seen.sum()), dtype=np.int64),
        parties=np.repeat(np.arange(len(sizes)), 2)[seen][:, None],
        label=np.tile([0, 1], len(sizes))[seen],
        count=count[seen],
        names=("party",),
        n_codes=(len(sizes),),
    )
    valuation = value_counts(counts, reproducible=True)
    assert valuation.learnable_total is not None
    assert valuation.learnable_total_interval is not None
    low, high = valuation.learnable_total_interval
    return valuation.learnable_total, (high - low) / 2


def columns(n: int, n_targets: int, rng: np.random.Generator) -> Iterator[tuple[Ints, Ints]]:
    """Sizes of the segments and of the rest, and the number of known people with label 1 in each."""
    for k in range(COLUMNS):
        sizes, ones = 12 + 7 * np.arange(n_targets), np.zeros(n_targets, dtype=np.int64)
        if k == 1:
            sizes = np.full(n_targets, n // (2 * n_targets)) - np.arange(n_targets)
        elif k:
            sizes = np.exp(rng.uniform(math.log(12), math.log(n / (2 * n_targets)), n_targets)).astype(int)
            ones = np.where(rng.random(n_targets) < 0.7, 0, sizes * rng.uniform(0, 0.4, n_targets)).astype(
                int
            )
        rest = n - int(sizes.sum())
        known = int(rest * (0.5 if k == 1 else rng.choice([0.1, 0.3, 0.5]))) + int(rng.integers(0, 5))
        yield np.append(sizes, rest), np.append(ones, known)


def of_doubles(exact: list[Outcome], n: int) -> Chances:
    """No rounding."""
    del n
    return [{pair: 1.0} for pair in exact]


def of_grid(exact: list[Outcome], n: int) -> Chances:
    """A fixed grid."""
    del n
    rounded = [GRID.rounded({"value": value, "value_error": error}) for value, error in exact]
    return [{(pair["value"], pair["value_error"]): 1.0} for pair in rounded]


def of_shares(exact: list[Outcome], n: int) -> Chances:
    """Random rounding, as `share_rounding` does it after the grid."""
    step = share_step(Fraction(1, 10_000), n)
    chances: Chances = []
    for (pair,) in of_grid(exact, n):
        value, error = pair
        low = math.floor(Fraction(value) / step)
        up = float(Fraction(value) / step - low)
        values = {low: 1.0 - up, low + 1: up}
        chances.append(
            {
                (k, size): p * q
                for (k, p), (size, q) in product(values.items(), _errors(error, step))
                if p * q > 0
            }
        )
    return chances


def _errors(error: float, step: Fraction) -> Iterator[tuple[float, float]]:
    """Sizes of a rounded error, with their probabilities: the least size is uniform over a step."""
    low, done = float(error + step), 0.0
    for size in map(float, ladder(step)):
        below = min(1.0, max(0.0, (size - low) / float(step)))
        if below > done:
            yield size, below - done
            done = below
        if done >= 1.0:
            return


def scores(guesses: Ints, chances: Chances) -> tuple[float, float]:
    """Number of certain labels, and share of labels named correctly, on average.

    All labels of the targets are equally likely.
    """
    explaining: dict[Outcome, list[int]] = defaultdict(list)
    for k, outcomes in enumerate(chances):
        for outcome in outcomes:
            explaining[outcome].append(k)
    certain = right = 0.0
    for outcome, numbers_of in explaining.items():
        weights, possible = np.array([chances[k][outcome] for k in numbers_of]), guesses[numbers_of]
        ones = weights @ possible  # by target, the weight of the guesses with label 1
        right += float(np.maximum(ones, weights.sum() - ones).mean())
        certain += float((possible.min(axis=0) == possible.max(axis=0)).sum() * weights.sum())
    return certain / len(guesses), right / len(guesses)


RULES = {"doubles": of_doubles, "grid of 0.0001": of_grid, "random rounding": of_shares}


def attacked(n: int, n_targets: int, seed: int = 0) -> dict[str, tuple[float, float]]:
    """By rule of release, the largest scores of any column."""
    guesses = np.array(list(product((0, 1), repeat=n_targets)))
    best = dict.fromkeys(RULES, (0.0, 0.0))
    for sizes, ones in columns(n, n_targets, np.random.default_rng(seed)):
        exact = [numbers(sizes, ones + np.append(guess, 0)) for guess in guesses]
        for name, rule in RULES.items():
            certain, right = scores(guesses, rule(exact, n))
            best[name] = max(best[name][0], certain), max(best[name][1], right)
    return best


def main() -> None:
    """Print the table."""
    for n in SIZES:
        step = float(share_step(Fraction(1, 10_000), n))
        for n_targets in TARGETS:
            shown = "; ".join(
                f"{name}: {certain:.2f} certain, {right:.0%} named correctly"
                for name, (certain, right) in attacked(n, n_targets).items()
            )
            print(f"n = {n:,} (step {step:g}), {n_targets} targets. {shown}", flush=True)


if __name__ == "__main__":
    main()
