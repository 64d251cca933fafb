"""The plan of one cheat, and the roles that carry it out.

A cheat is a subclass of one part of a role (its uploads, counts or checks) with one step replaced. `cheating`
puts it in the place of the honest part.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from fedvalue.protocol.chunk_store import MemoryChunkStore
from fedvalue.protocol.mirror.counting import MirrorCounting
from fedvalue.protocol.mirror.upload import MirrorWork
from fedvalue.protocol.role import Role
from fedvalue.protocol.tokens.asking import TokenWork
from fedvalue.protocol.tokens.intersecting import TokenCounting
from fedvalue.protocol.tokens.validating import TokenChecking

T = TypeVar("T")
R = TypeVar("R", bound=Role)


@dataclass(slots=True)
class Plot:
    """The plan of one cheat in one trial.

    Args:
        rng: Its random numbers.
        q: The agreed q, which the cheat knows.
        target: Number of samples in the intersection to falsify (servers see sizes); 0 for the first query
            where the trick changes anything.
        n_samples: Number of samples to drop.
        stolen: The memory of an earlier run, for a replay.
        memory: True intersections of this run, or results, in order.
        fired: The role has cheated.
    """

    rng: np.random.Generator
    q: int = 1
    target: int = 0
    n_samples: int = 1
    stolen: list[Any] = field(default_factory=list)
    memory: list[Any] = field(default_factory=list)
    fired: bool = False


def following(plot: Plot, kind: type[T], **options: Any) -> type[T]:
    """The class with a plot; the options become attributes of it."""
    attributes = {name: staticmethod(value) if callable(value) else value for name, value in options.items()}
    return type(kind.__name__, (kind,), {"plot": plot, **attributes})


def cheating(role: type[R], part: type, plot: Plot, **options: Any) -> type[R]:
    """The role with a part that follows the plot."""
    made: Any = following(plot, part, **options)

    def make_mirror(self: Any, n_samples: int) -> Any:
        return made(self.terms, n_samples, self.name, self._credentials, self._valuer, MemoryChunkStore())

    steps = {
        MirrorWork: {"mirror_work": made},
        TokenWork: {"token_work": made},
        MirrorCounting: {"_make_mirror": make_mirror},
        TokenCounting: {"_make_tokens": lambda self, settings: made(settings, self._credentials)},
        TokenChecking: {"_make_tokens": lambda self, settings: made(settings, self._credentials.signing_key)},
    }
    step = next(step for kind, step in steps.items() if issubclass(part, kind))
    return type(f"Cheating{role.__name__}", (role,), step)
