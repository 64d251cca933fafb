"""The knowledge and the goal of a cheating role of the drill."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedvalue.crypto.aes import Blocks

Intersection: TypeAlias = tuple[Blocks, NDArray[np.uint64]]
"""Tokens, and the sums of their authenticators (empty without H2)."""


@dataclass(slots=True)
class Plot:
    """The plan of one cheat in one trial.

    Args:
        rng: Its random numbers.
        q: The agreed q, which it knows.
        target: Number of samples in the intersection that it will falsify (servers see sizes); 0 for
            the first query where its trick changes anything.
        n_samples: How many samples it drops.
        stolen: Intersections of an earlier run.
        memory: True intersections of this run, in order of arrival.
        fired: Whether it has cheated.
    """

    rng: np.random.Generator
    q: int = 1
    target: int = 0
    n_samples: int = 1
    stolen: list[Intersection] = field(default_factory=list)
    memory: list[Intersection] = field(default_factory=list)
    fired: bool = False
