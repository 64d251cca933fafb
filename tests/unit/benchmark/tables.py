"""Small tables for the tests of the benchmark."""

from __future__ import annotations

import numpy as np

from fedvalue.benchmark.problem import Problem, VerticalTable


def small_table(n: int, seed: int, *, task: bool = False) -> VerticalTable:
    """`good` and a text column of `text` carry the label's bits with errors; `noise` carries nothing."""
    rng = np.random.default_rng(seed)
    label = rng.integers(0, 2, n)
    flipped = np.where(rng.random(n) < 0.1, 1 - label, label)
    other = np.where(rng.random(n) < 0.3, 1 - label, label)
    return VerticalTable(
        label=label,
        task={"t": rng.normal(size=n) + 0.5 * label} if task else {},
        parties={
            "good": {"x": flipped + 0.1 * rng.normal(size=n)},
            "text": {"colour": np.array(["red", "blue"])[other]},
            "noise": {"z": rng.normal(size=n)},
        },
    )


def small_problem(n: int = 80, n_unseen: int = 400, *, task: bool = False, seed: int = 1) -> Problem:
    """A problem whose truth costs a second or two."""
    unseen = small_table(n_unseen, seed + 100, task=task) if n_unseen else None
    return Problem("small", "small", small_table(n, seed, task=task), unseen, noise="noise", seed=seed)
