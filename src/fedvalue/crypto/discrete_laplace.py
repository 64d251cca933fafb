"""Whole numbers from the discrete Laplace distribution, exactly, out of a 32-byte key.

P(k) is proportional to exp(-|k| / scale) for a rational scale. Only whole numbers are computed with
(Canonne, Kamath and Steinke, "The Discrete Gaussian for Differential Privacy", 2020, algorithms 1
and 2), so that no rounding of a floating-point logarithm shows in the result (Mironov, 2012). Given the
key it is deterministic: whoever has the key draws the same numbers.
"""

from __future__ import annotations

import hmac
from fractions import Fraction

from fedvalue.errors import InputError

_KEY_BYTES = 32


def discrete_laplace(key: bytes, n: int, scale: Fraction) -> tuple[int, ...]:
    """`n` independent numbers.

    Args:
        key: 32 secret bytes, used for this one call.
        n: How many.
        scale: Above 0; the numbers have a standard deviation of about 1.414 times it.

    Raises:
        InputError: The key or the scale is out of range.
    """
    if len(key) != _KEY_BYTES or scale <= 0:
        raise InputError(f"expected a key of {_KEY_BYTES} bytes and a scale above 0")
    stream = _Stream(key)
    return tuple(_one(stream, scale.numerator, scale.denominator) for _ in range(n))


def _one(stream: _Stream, t: int, s: int) -> int:
    """Algorithm 2: one number with scale t / s."""
    while True:
        rest = stream.below(t)
        if not _bernoulli_exp(stream, rest, t):
            continue
        whole = 0
        while _bernoulli_exp(stream, 1, 1):
            whole += 1
        size = (rest + t * whole) // s
        negative = stream.below(2) == 1
        if negative and size == 0:
            continue  # 0 has one sign only
        return -size if negative else size


def _bernoulli_exp(stream: _Stream, a: int, b: int) -> bool:
    """Algorithm 1: true with probability exp(-a / b), for 0 <= a <= b."""
    k = 1
    while stream.below(b * k) < a:
        k += 1
    return k % 2 == 1


class _Stream:
    """Uniform numbers from HMAC-SHA256 of a counter."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._block = 0
        self._rest = b""

    def below(self, bound: int) -> int:
        """A uniform number in 0 .. bound - 1, by rejection."""
        bits = (bound - 1).bit_length()
        while True:
            number = int.from_bytes(self._take(-(-bits // 8)), "big") & ((1 << bits) - 1)
            if number < bound:
                return number

    def _take(self, size: int) -> bytes:
        while len(self._rest) < size:
            self._rest += hmac.digest(self._key, self._block.to_bytes(8, "big"), "sha256")
            self._block += 1
        taken, self._rest = self._rest[:size], self._rest[size:]
        return taken
