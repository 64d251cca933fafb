"""Random orders of parties from a stream that never changes.

NumPy does not promise the same permutations in its next version, and two servers may have different
versions. This stream is SplitMix64 (Steele, Lea and Flood, OOPSLA 2014) on Python integers, with the
Fisher-Yates shuffle.
"""

from __future__ import annotations

from collections.abc import Iterator

_MASK = 2**64 - 1
_GOLDEN = 0x9E3779B97F4A7C15


def frozen_order(n: int, seed: int, number: int) -> list[int]:
    """A random order of 0 .. n-1: the given number of the stream with this seed."""
    words = _words(_mix(_mix(seed & _MASK) ^ number))
    order = list(range(n))
    for i in range(n - 1, 0, -1):
        j = _below(i + 1, words)
        order[i], order[j] = order[j], order[i]
    return order


def _words(state: int) -> Iterator[int]:
    while True:
        state = (state + _GOLDEN) & _MASK
        yield _mix(state)


def _below(bound: int, words: Iterator[int]) -> int:
    """A number below `bound`, each equally likely: words in the incomplete last interval are drawn again."""
    limit = 2**64 - 2**64 % bound
    while (word := next(words)) >= limit:
        pass
    return word % bound


def _mix(z: int) -> int:
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return z ^ (z >> 31)
