"""Code authenticators of `mirror`: a chunk counts only if every digit is the one its owner wrote.

Masks hide a row but do not protect it: any uploader may add anything to any party's digit. So the owner of a
column has a key that no other party knows. It gives every row i of the server's order a secret weight W(i),
64 bits of AES_key(i div 2), and a chunk of the upload ends with its tag: the sum of W(i) times the renamed
code over the chunk's rows, modulo 2^64, under zero-sum masks of the same rows. A server adds up all parties'
rows and tags, decodes the digits, and computes the sum that the tags must have.

- A party that changes another party's column in some rows must add the sum of these rows' weights times the
  changes, without knowing any of the weights. A guess is right with probability 2^-64 if one of the changes
  is odd; if all are multiples of 2^k, with 2^(k-64), at most 2^-40 for columns of 2^24 codes. A wrong guess
  ends the run.
- Masks derive from the identity of a row. If a row is not the same person at all parties, neither the masks
  of the row nor those of the tag cancel, and the tag is right with probability 2^-64.

The server must know the key of every place, but not which party has which place. So the parties upload their
keys as they upload rows: a table with one line per place, zero except in their own lines, under zero-sum
masks. The sum of all tables is the keys, in the secret order.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fedvalue.compiled import njit
from fedvalue.crypto import aes
from fedvalue.crypto.masks import add_masks
from fedvalue.protocol.mirror.row_layout import RowLayout

KEY_BYTES = 16

_SLAB = 2 * aes.SLAB
"""Rows at a time: two weights come from one block."""


def masked_keys(own: dict[int, bytes], n_places: int, masks: Sequence[tuple[int, bytes]]) -> bytes:
    """A party's upload of its keys.

    Args:
        own: Its key by place.
        n_places: Number of coordinates.
        masks: Sign and key towards every peer, as for rows.
    """
    words = np.zeros((n_places, 2), dtype=np.uint64)
    for place, key in own.items():
        words[place] = np.frombuffer(key, dtype="<u8")
    add_masks(words, aes.counter_blocks(n_places), [(sign, [key]) for sign, key in masks])
    return words.tobytes()


def summed_keys(uploads: Sequence[bytes]) -> list[bytes]:
    """The key of every place, from all parties' uploads of the same length."""
    words = sum((np.frombuffer(upload, dtype="<u8") for upload in uploads), start=np.uint64(0))
    return [row.tobytes() for row in np.asarray(words, dtype=np.uint64).reshape(-1, 2)]


class RowWeights:
    """The weights of the rows of one column at one server."""

    def __init__(self, key: bytes) -> None:
        self._cipher = aes.encryptor(key)

    def of(self, counters: aes.Blocks, first: int) -> NDArray[np.uint64]:
        """Weights of consecutive rows from `first` on, from their `row_counters`; perhaps one too many."""
        return aes.apply(self._cipher, counters).reshape(-1)[first % 2 :]

    def tag(self, codes: NDArray[np.uint32], first: int) -> int:
        """The column owner's part of the tag of consecutive rows, without masks.

        Args:
            codes: Their renamed codes.
            first: Index of the first row in the server's order.
        """
        return int(_weighed(codes, self.of(row_counters(first, len(codes)), first)))


def row_counters(first: int, n_rows: int) -> aes.Blocks:
    """The blocks whose encryptions hold the weights of consecutive rows."""
    blocks = aes.counter_blocks((first + n_rows + 1) // 2 - first // 2)
    blocks[:, 0] += np.uint64(first // 2)
    return blocks


class CodeCheck:
    """Checks sums of chunks against the keys of all places."""

    def __init__(self, layout: RowLayout, keys: Sequence[bytes]) -> None:
        self._layout = layout
        self._weights = [RowWeights(key) for key in keys]

    def authentic(self, rows: NDArray[np.unsignedinteger], first: int, tag: int) -> bool:
        """Whether all rows of a chunk are what their owners wrote.

        A digit outside its range, masks that do not cancel and a wrong tag give the same answer in the same
        time, so an attacker who provokes it learns nothing about a row.

        Args:
            rows: Sums of all parties' rows, shape (n_rows, n_lanes).
            first: Index of the first row.
            tag: Sum of all parties' tags.
        """
        layout = self._layout
        n_outside = expected = 0
        for start in range(0, len(rows), _SLAB):
            slab = rows[start : start + _SLAB]
            counters = row_counters(first + start, len(slab))
            for lane in range(layout.n_lanes):
                rest = slab[:, lane].astype(np.uint32)
                for place, radix in enumerate(layout.radices):
                    if layout.lane[place] == lane:
                        weights = self._weights[place].of(counters, first + start)
                        expected += int(_take_digits(rest, np.uint32(radix), weights))
                n_outside += int(np.count_nonzero(rest))
        return not n_outside and (expected - tag) % 2**64 == 0


@njit(cache=True, nogil=True)
def _weighed(codes: NDArray[np.uint32], weights: NDArray[np.uint64]) -> np.uint64:
    """Sum of all codes times their weights, modulo 2^64."""
    total = np.uint64(0)
    for i in range(len(codes)):
        total += weights[i] * np.uint64(codes[i])
    return total


@njit(cache=True, nogil=True)
def _take_digits(rest: NDArray[np.uint32], radix: np.uint32, weights: NDArray[np.uint64]) -> np.uint64:
    """Remove the lowest digits from `rest`, and return their sum times their weights, modulo 2^64."""
    total = np.uint64(0)
    # Exact: a quotient times its radix is below 2^32, and (x + 1/2) / radix is at least 1 / (2 radix) away
    # from a whole number, where the product of rounded numbers is off by less than 2^-51 of it.
    inverse = 1.0 / float(radix)
    for i in range(len(rest)):
        above = np.uint32(np.int64((float(rest[i]) + 0.5) * inverse))
        total += weights[i] * np.uint64(rest[i] - above * radix)
        rest[i] = above
    return total
