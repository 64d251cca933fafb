"""Makes frozen-random.json: SplitMix64 and the orders drawn from it, with Python's integers alone.

Run `python tests/vectors/make_frozen_random.py` to make the file again. Nothing of the package is used: one
state, one number at a time, written from Steele, Lea and Flood (2014) and the docstrings of the module.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

M = 2**64 - 1
GAMMA = 0x9E3779B97F4A7C15


def finalise(z: int) -> int:
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & M
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & M
    return z ^ (z >> 31)


def splitmix64(state: int) -> Iterator[int]:
    while True:
        state = state + GAMMA & M
        yield finalise(state)


def generator(seed: int, stream: int) -> Iterator[int]:
    if stream == 0:
        return splitmix64(seed)
    hashed = next(splitmix64(seed))
    return splitmix64(next(splitmix64(hashed ^ stream)))


def order(words: Iterator[int], p: int) -> list[int]:
    places = list(range(p))
    for k in range(p - 1, 0, -1):
        j = (next(words) >> 32) * (k + 1) >> 32
        places[k], places[j] = places[j], places[k]
    return places


def main() -> None:
    cases = [(0, 0), (1234567, 0), (0, 1), (7, 3), (2**53 - 1, 2**40)]
    vectors = {
        "words": [
            {"seed": seed, "stream": stream, "words": [str(w) for w in islice(generator(seed, stream), 8)]}
            for seed, stream in cases
        ],
        "orders": [],
    }
    for (seed, stream), p in zip(cases, (1, 2, 5, 13, 30), strict=True):
        words = generator(seed, stream)
        orders = [order(words, p) for _ in range(4)]
        vectors["orders"].append({"seed": seed, "stream": stream, "n_parties": p, "orders": orders})
    Path(__file__).with_name("frozen-random.json").write_text(json.dumps(vectors, indent=1) + "\n")


if __name__ == "__main__":
    main()
