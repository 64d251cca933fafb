"""Random numbers and random orders that are the same on every machine and in every version.

- SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014) and the
  Fisher-Yates shuffle are written out here: NumPy may change the stream of `Generator.permutation` between
  versions, and two servers would then disagree.
- SplitMix64 mixes a counter, so a whole array of numbers is made at once.
- For statistics only: nothing secret comes from here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fedvalue.typing import Floats

GOLDEN = 0x9E3779B97F4A7C15
"""Increment of the counter: the odd integer closest to 2^64 divided by the golden ratio."""

_WORD = 2**64


def mix(z: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """SplitMix64's output for each state: scatters 64-bit numbers one to one."""
    z = z + np.uint64(GOLDEN)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(z ^ (z >> np.uint64(31)))


def random_words(n: int, *, seed: int, stream: int = 0) -> NDArray[np.uint64]:
    """The first n outputs of the generator that a seed and a stream name.

    The generator of stream 0 starts at `seed` itself. Streams are independent for all practical purposes:
    each starts at a 64-bit hash of seed and stream.
    """
    start = np.array([seed % _WORD], dtype=np.uint64)
    if stream:
        start = mix(mix(start) ^ np.uint64(stream % _WORD))
    return mix(start + np.arange(n, dtype=np.uint64) * np.uint64(GOLDEN))


def random_fractions(n: int, *, seed: int, stream: int = 0) -> Floats:
    """The first n numbers from [0, 1), each a multiple of 2^-53."""
    return np.asarray((random_words(n, seed=seed, stream=stream) >> np.uint64(11)) * 2.0**-53)


def random_orders(n_orders: int, n_parties: int, *, seed: int, stream: int = 0) -> NDArray[np.int64]:
    """Uniformly random orders of the parties, one per row, shape (n_orders, n_parties).

    For k = p - 1, ..., 1, place k is exchanged with place floor(u (k + 1) / 2^32), where u is the upper half
    of the next word; the bias of a draw is below p / 2^32. Orders take their words one order after the other,
    so that the first orders do not depend on how many are drawn.
    """
    p = n_parties
    # One row per place and one column per order: each exchange then reads along memory.
    places = np.empty((p, n_orders), dtype=np.int64)
    places[:] = np.arange(p)[:, None]
    words = random_words(n_orders * (p - 1), seed=seed, stream=stream).reshape(n_orders, p - 1)
    sizes: NDArray[np.uint64] = np.arange(p, 1, -1, dtype=np.uint64)
    draws = ((words >> np.uint64(32)) * sizes >> np.uint64(32)).astype(np.int64)
    column = np.arange(n_orders)
    flat = places.reshape(-1)
    for step, k in enumerate(range(p - 1, 0, -1)):
        other = draws[:, step] * n_orders + column
        drawn = flat[other]
        flat[other] = places[k]
        places[k] = drawn
    return np.ascontiguousarray(places.T)


def antithetic_orders(n_pairs: int, n_parties: int, *, seed: int, stream: int = 0) -> NDArray[np.int64]:
    """Random orders and, after all of them, their reverses, shape (2 n_pairs, n_parties).

    A party that comes late in an order comes early in its reverse, so the mean of a pair varies less than
    that of two independent orders.
    """
    forward = random_orders(n_pairs, n_parties, seed=seed, stream=stream)
    return np.concatenate([forward, forward[:, ::-1]])
