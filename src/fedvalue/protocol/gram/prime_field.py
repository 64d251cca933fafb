"""Numbers modulo the prime 2^31 - 1, in arrays of uint64 below it."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedvalue.crypto import aes, keys
from fedvalue.errors import RemoteProtocolError

Elements: TypeAlias = NDArray[np.uint64]

PRIME = 2**31 - 1
_P, _SHIFT = np.uint64(PRIME), np.uint64(31)
_LOW, _HALF = np.uint64(0xFFFF), np.uint64(16)

MOST_ROWS = 1 << 20
"""Rows of one exact product in floating point: 2^31 times this stays below 2^53."""


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


def minus(a: Elements, b: Elements) -> Elements:
    """A - b."""
    return reduced(a + _P - b)


def times(a: Elements, b: Elements) -> Elements:
    """Product, element by element."""
    return reduced(a * b)


def products(left: Elements, right: Elements) -> Elements:
    """Left' right, for arrays with the same number of rows, at most `MOST_ROWS`.

    Numbers are cut into halves of 16 bits, whose products BLAS adds up exactly in floating point.
    """
    assert len(left) == len(right) <= MOST_ROWS
    low, high = (left & _LOW).astype(np.float64), (left >> _HALF).astype(np.float64)
    if left is right:
        mixed = high.T @ low
        cross, top, bottom = mixed + mixed.T, high.T @ high, low.T @ low
    else:
        other_low, other_high = (right & _LOW).astype(np.float64), (right >> _HALF).astype(np.float64)
        cross = high.T @ other_low + low.T @ other_high
        top, bottom = high.T @ other_high, low.T @ other_low
    # 2^32 is 2 modulo the prime.
    parts = [reduced(part.astype(np.uint64)) for part in (top, cross, bottom)]
    return reduced(parts[0] * np.uint64(2) + parts[1] * np.uint64(1 << 16) + parts[2])


def expanded(secret: bytes, purpose: str, shape: tuple[int, ...], *parts: bytes) -> Elements:
    """Uniform numbers out of 32 secret bytes: exactly uniform if AES is a random function."""
    n = int(np.prod(shape))
    numbers = _words(keys.subkey(secret, b"", purpose, *parts, length=16), n)
    spoilt, again = np.flatnonzero(numbers == _P), 0
    while len(spoilt):  # one number in two billion
        again += 1
        key = keys.subkey(secret, b"", purpose, *parts, bytes([again]), length=16)
        numbers[spoilt] = _words(key, len(spoilt))
        spoilt = spoilt[numbers[spoilt] == _P]
    return numbers.reshape(shape)


def _words(key: bytes, n: int) -> Elements:
    blocks = aes.encrypt(key, aes.counter_blocks(-(-n // 4)))
    return np.ascontiguousarray(blocks).view(np.uint32).ravel()[:n].astype(np.uint64) & _P


def to_bytes(x: Elements) -> bytes:
    """Four bytes per number."""
    return x.astype("<u4").tobytes()


def from_bytes(data: bytes | memoryview, shape: tuple[int, ...], *, who: str) -> Elements:
    """The inverse of `to_bytes`.

    Raises:
        RemoteProtocolError: Another length (E_SIZE), or a number that is none (E_RANGE).
    """
    if len(data) != 4 * int(np.prod(shape)):
        raise RemoteProtocolError(
            f"{who!r} sent {len(data)} bytes, expected {4 * int(np.prod(shape))}", code="E_SIZE"
        )
    x = np.frombuffer(data, dtype="<u4").astype(np.uint64).reshape(shape)
    if x.size and x.max() >= _P:
        raise RemoteProtocolError(f"{who!r} sent a number outside its range", code="E_RANGE")
    return x
