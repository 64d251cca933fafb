"""Values with noise, where the parties agreed on an epsilon: what is added, and what may leave.

The exact values are rounded to a grid, discrete Laplace noise is added on the grid, and the sum of the
noisy values is the total. Nothing else that depends on the data leaves: `released` takes the values
out of an answer and makes a new one, whatever else the answer holds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from fedvalue.crypto.discrete_laplace import discrete_laplace
from fedvalue.errors import VerificationError
from fedvalue.protocol.outcome import Answer
from fedvalue.protocol.privacy import GRID_BITS, Privacy

_KEPT = ("method", "n_permutations", "seed")
"""Of the public part: how the values were computed, which the agreement and public sizes decide."""


def grid_points(answer: Answer) -> tuple[int, ...]:
    """The exact values as multiples of the grid's step."""
    return tuple(round(math.ldexp(float(share["value"]), GRID_BITS)) for share in answer.shares)


def check_points(own: Sequence[int], other: Sequence[int]) -> None:
    """Whether the other server's rounded values are ours; two honest ones may round to neighbours.

    Raises:
        VerificationError: They are not (E_MIRROR).
    """
    if len(own) != len(other) or any(abs(a - b) > 1 for a, b in zip(own, other, strict=True)):
        raise VerificationError("the two servers' values differ", code="E_MIRROR")


def drawn(privacy: Privacy, key: bytes) -> tuple[int, ...]:
    """The noise on every value, in grid steps; the same for the same key."""
    return discrete_laplace(key, privacy.n_parties, privacy.sensitivity / privacy.epsilon)


def released(answer: Answer, points: Sequence[int], privacy: Privacy, key: bytes) -> Answer:
    """The answer that may leave: noisy values, their sum, and how they were computed."""
    noisy = [point + noise for point, noise in zip(points, drawn(privacy, key), strict=True)]
    return Answer(
        public={
            "total": _nats(sum(noisy)),
            "n_samples": privacy.n_samples,
            **{name: answer.public[name] for name in _KEPT if name in answer.public},
        },
        task={},
        shares=tuple({"value": _nats(point)} for point in noisy),
    )


def _nats(point: int) -> float:
    return math.ldexp(point, -GRID_BITS)
