"""How two servers add the same noise, which neither has chosen and no party knows.

1. `NoiseCommit`, C to V: a hash of C's contribution to the noise's key.
2. `NoiseSeed`, V to C: V's contribution. It cannot depend on C's, which V has not seen. V keeps it back
   until it has counted all uploads: whoever knows the noise and does not like it can stop the run, but not
   before every party has paid for it.
3. `NoiseOpening`, C to V: C's contribution, which must fit the hash, and C's rounded values.

V compares C's rounded values with its own and then takes them over, so that both release the same
numbers. If each rounded on its own, the difference between two neighbours of the grid would show a bit
of the data that no noise covers. C knows the noise one message before V, V before its results leave, and
either can then stop the run; neither can choose it. Contributions derive from a server's seed: a server that
is restarted adds the same noise.
"""

from __future__ import annotations

import hmac
import math
from collections.abc import Sequence

from fedvalue.crypto import keys
from fedvalue.crypto.discrete_laplace import discrete_laplace
from fedvalue.errors import VerificationError
from fedvalue.protocol import messages as m
from fedvalue.protocol.outcome import Answer
from fedvalue.protocol.privacy import GRID_BITS, Privacy
from fedvalue.protocol.settings import Settings

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


class NoisyRelease:
    """What one server knows: its exact answer, and both contributions to the key."""

    def __init__(self, settings: Settings, privacy: Privacy, server: str, seed: bytes) -> None:
        self._run_id = settings.run_id
        self._privacy = privacy
        self._own = keys.subkey(seed, settings.run_id, "noise-seed", settings.digest(), server)
        self._other: bytes | None = None
        self._exact: Answer | None = None

    def counted(self, exact: Answer) -> None:
        """Keep the exact answer until the noise is known. It never leaves."""
        self._exact = exact

    @property
    def ready(self) -> bool:
        """Whether the answer and both contributions are here."""
        return self._exact is not None and self._other is not None

    def _noisy(self, points: tuple[int, ...], *contributions: bytes) -> Answer:
        assert self._exact is not None
        key = keys.subkey(b"".join(contributions), self._run_id, "noise")
        return released(self._exact, points, self._privacy, key)

    def _hash(self, contribution: bytes) -> bytes:
        return keys.digest(b"noise-commit", self._run_id, contribution)


class CommittingRelease(NoisyRelease):
    """The computation server's side."""

    def commit(self) -> m.NoiseCommit:
        """Step 1."""
        return m.NoiseCommit(self._hash(self._own))

    def take(self, message: m.NoiseSeed) -> None:
        """Step 2: the validation server's contribution."""
        self._other = message.seed

    def open(self) -> tuple[m.NoiseOpening, Answer]:
        """Step 3, and the noisy answer."""
        assert self._exact is not None
        assert self._other is not None
        points = grid_points(self._exact)
        return m.NoiseOpening(self._own, points), self._noisy(points, self._own, self._other)


class AnsweringRelease(NoisyRelease):
    """The validation server's side."""

    _commitment = b""
    _points: tuple[int, ...] = ()

    def committed(self, message: m.NoiseCommit) -> None:
        """Step 1: from here on the other server can no longer change its contribution."""
        self._commitment = message.commitment

    def answer(self) -> list[m.NoiseSeed]:
        """Step 2: our contribution, when the other's is fixed and all is counted. Ask after either."""
        due = self._commitment and self._exact is not None
        return [m.NoiseSeed(self._own)] if due else []

    def take(self, message: m.NoiseOpening) -> None:
        """Step 3.

        Raises:
            VerificationError: The computation server has committed to something else, or not at all
                (E_NOISE).
        """
        if not hmac.compare_digest(self._hash(message.seed), self._commitment):
            raise VerificationError(
                "the computation server opened another noise seed than it had committed to", code="E_NOISE"
            )
        self._other, self._points = message.seed, message.points

    def noisy(self) -> Answer:
        """The noisy answer, with the other server's rounding.

        Raises:
            VerificationError: The other server's values are not ours (E_MIRROR).
        """
        assert self._exact is not None
        assert self._other is not None
        check_points(grid_points(self._exact), self._points)
        return self._noisy(self._points, self._other, self._own)
