"""Whole numbers from the discrete Gaussian distribution, exactly, out of a 32-byte key.

P(k) is proportional to exp(-k^2 / (2 variance)) for a rational variance. Only whole numbers are computed
with (Canonne, Kamath and Steinke, "The Discrete Gaussian for Differential Privacy", 2020, algorithms 1 to
3), so that no rounding of a floating-point logarithm shows in the result (Mironov, 2012). Given the key it
is deterministic: every holder of the key draws the same numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from fedvalue.errors import InputError

_KEY_BYTES = 32
_BUFFER = bytes(1 << 16)
_BETWEEN_CHECKPOINTS = 1 << 12


def discrete_gaussian(
    key: bytes, n: int, variance: Fraction, checkpoint: Callable[[], None] = lambda: None
) -> tuple[int, ...]:
    """`n` independent numbers.

    Args:
        key: 32 secret bytes, used for this one call.
        n: How many.
        variance: Above 0. From about 1 on, the variance of the numbers is this to many digits.
        checkpoint: Called every few thousand numbers; raises where the caller is to stop.

    Raises:
        InputError: The key or the variance is out of range.
    """
    if len(key) != _KEY_BYTES or variance <= 0:
        raise InputError(f"expected a key of {_KEY_BYTES} bytes and a variance above 0")
    stream = _Stream(key)
    scale = math.isqrt(math.floor(variance)) + 1
    # (|k| - variance / scale)^2 / (2 variance) over one denominator, with whole numbers alone.
    a, b = variance.numerator, variance.denominator
    below = 2 * a * b * scale * scale
    numbers: list[int] = []
    while len(numbers) < n:
        if len(numbers) % _BETWEEN_CHECKPOINTS == 0:
            checkpoint()
        candidate = _discrete_laplace(stream, scale)
        above = (abs(candidate) * b * scale - a) ** 2
        if _bernoulli_exp(stream, above, below):
            numbers.append(candidate)
    return tuple(numbers)


def _discrete_laplace(stream: _Stream, scale: int) -> int:
    """Algorithm 2: P(k) proportional to exp(-|k| / scale)."""
    while True:
        rest = stream.below(scale)
        if not _bernoulli_exp(stream, rest, scale):
            continue
        whole = 0
        while _bernoulli_exp(stream, 1, 1):
            whole += 1
        size = rest + scale * whole
        negative = stream.below(2) == 1
        if negative and size == 0:
            continue  # 0 has one sign only
        return -size if negative else size


def _bernoulli_exp(stream: _Stream, a: int, b: int) -> bool:
    """Algorithm 1: true with probability exp(-a / b), for a and b that are not negative."""
    while a > b:
        if not _bernoulli_exp(stream, 1, 1):
            return False
        a -= b
    k = 1
    while stream.below(b * k) < a:
        k += 1
    return k % 2 == 1


class _Stream:
    """Uniform numbers from AES-256 in counter mode."""

    def __init__(self, key: bytes) -> None:
        self._cipher = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()
        self._rest = b""
        self._at = 0

    def below(self, bound: int) -> int:
        """A uniform number in 0 .. bound - 1, by rejection."""
        bits = (bound - 1).bit_length()
        size = (bits + 7) >> 3
        mask = (1 << bits) - 1
        while True:
            if self._at + size > len(self._rest):
                self._rest = self._rest[self._at :] + self._cipher.update(_BUFFER)
                self._at = 0
            number = int.from_bytes(self._rest[self._at : self._at + size], "big") & mask
            self._at += size
            if number < bound:
                return number
