"""Numbers modulo the prime 2^31 - 1.

Sums are arrays of uint64 below the prime. Rows are arrays of uint32 below it, four bytes per number, as they
travel: there are millions of them, and every pass over them counts.
"""

from __future__ import annotations

from typing import TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from fedvalue.crypto import aes, keys
from fedvalue.errors import RemoteProtocolError

Elements: TypeAlias = NDArray[np.uint64]
Words: TypeAlias = NDArray[np.uint32]
Unsigned = TypeVar("Unsigned", np.uint32, np.uint64)

PRIME = 2**31 - 1
_P, _SHIFT = np.uint64(PRIME), np.uint64(31)

MOST_ROWS = 1 << 20
"""Rows of one exact product in floating point: 2^32, of two digits, times this stays below 2^53."""


def reduced(x: Elements) -> Elements:
    """X modulo the prime, for x below 2^62."""
    x = (x & _P) + (x >> _SHIFT)
    x = (x & _P) + (x >> _SHIFT)
    return np.where(x >= _P, x - _P, x)


def of_whole(x: NDArray[np.int64]) -> Elements:
    """Whole numbers of either sign modulo the prime."""
    return np.asarray(np.mod(x, PRIME)).astype(np.uint64)


def centred(x: Elements) -> NDArray[np.int64]:
    """The whole numbers closest to 0 that x stands for."""
    signed = x.astype(np.int64)
    return np.asarray(np.where(signed > PRIME // 2, signed - PRIME, signed))


def plus(a: NDArray[Unsigned], b: NDArray[Unsigned]) -> NDArray[Unsigned]:
    """A + b."""
    total = a + b
    # What is below 0 wraps around to a large number.
    return np.asarray(np.minimum(total, total - PRIME))


def minus(a: NDArray[Unsigned], b: NDArray[Unsigned]) -> NDArray[Unsigned]:
    """A - b."""
    difference = a - b
    return np.asarray(np.minimum(difference, difference + PRIME))


def halved(x: Elements) -> Elements:
    """X / 2: the number whose double is x."""
    return (x >> np.uint64(1)) + (x & np.uint64(1)) * np.uint64(1 << 30)


def times(a: Elements, b: Elements) -> Elements:
    """Product, element by element."""
    return reduced(a * b)


def limbs(x: NDArray[Unsigned]) -> NDArray[np.float64]:
    """Every number as its 16-bit digits, the lowest first, side by side: shape (n_rows, k * n_columns).

    BLAS adds up products of digits exactly in floating point, for `MOST_ROWS` rows at most.
    """
    return np.ascontiguousarray(x).view(np.uint16).astype(np.float64)


def joined(sums: NDArray[np.float64], left: int, right: int) -> Elements:
    """Sums of products of digits -> sums of products of numbers.

    Args:
        sums: left' right of two arrays of digits.
        left: Digits of each number on the left.
        right: Digits of each number on the right.
    """
    total = np.zeros((sums.shape[0] // left, sums.shape[1] // right), dtype=np.uint64)
    for a in range(left):
        for b in range(right):
            part = reduced(sums[a::left, b::right].astype(np.uint64))
            # 2^31 is 1 modulo the prime.
            total = reduced(total + reduced(part << np.uint64(16 * (a + b) % 31)))
    return total


def products(left: Elements, right: Elements) -> Elements:
    """Left' right, for arrays with the same number of rows, at most `MOST_ROWS`."""
    assert len(left) == len(right) <= MOST_ROWS
    return joined(limbs(left.astype(np.uint32)).T @ limbs(right.astype(np.uint32)), 2, 2)


def expanded_words(secret: bytes, purpose: str, shape: tuple[int, ...], *parts: bytes) -> Words:
    """Uniform numbers out of 32 secret bytes: exactly uniform if AES is a random function."""
    n = int(np.prod(shape))
    numbers = _words(keys.subkey(secret, b"", purpose, *parts, length=16), n)
    if n and numbers.max() == PRIME:  # one number in two billion
        spoilt, again = np.flatnonzero(numbers == PRIME), 0
        while len(spoilt):
            again += 1
            key = keys.subkey(secret, b"", purpose, *parts, bytes([again]), length=16)
            numbers[spoilt] = _words(key, len(spoilt))
            spoilt = spoilt[numbers[spoilt] == PRIME]
    return numbers.reshape(shape)


def expanded(secret: bytes, purpose: str, shape: tuple[int, ...], *parts: bytes) -> Elements:
    """The numbers of `expanded_words`, to calculate with."""
    return expanded_words(secret, purpose, shape, *parts).astype(np.uint64)


def _words(key: bytes, n: int) -> Words:
    numbers = aes.encrypt(key, aes.counter_blocks(-(-n // 4))).view(np.uint32).ravel()[:n]
    numbers &= PRIME
    return numbers


def to_bytes(x: NDArray[Unsigned]) -> bytes:
    """Four bytes per number."""
    return x.astype("<u4", copy=False).tobytes()


def words_of(data: bytes | memoryview, shape: tuple[int, ...], *, who: str) -> Words:
    """The numbers in these bytes, which are not copied.

    Raises:
        RemoteProtocolError: Another length (E_SIZE), or a number that is none (E_RANGE).
    """
    if len(data) != 4 * int(np.prod(shape)):
        raise RemoteProtocolError(
            f"{who!r} sent {len(data)} bytes, expected {4 * int(np.prod(shape))}", code="E_SIZE"
        )
    x = np.frombuffer(data, dtype=np.uint32).reshape(shape)
    if x.size and x.max() >= PRIME:
        raise RemoteProtocolError(f"{who!r} sent a number outside its range", code="E_RANGE")
    return x


def from_bytes(data: bytes | memoryview, shape: tuple[int, ...], *, who: str) -> Elements:
    """The numbers of `words_of`, to calculate with; raises as it does."""
    return words_of(data, shape, who=who).astype(np.uint64)
