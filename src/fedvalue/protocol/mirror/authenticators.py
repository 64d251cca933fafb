"""Code authenticators of `mirror`: a row counts only if every digit is the one its owner wrote.

Masks hide a word and do not protect it: whoever uploads may add anything to anybody's digit. So the
owner of a column has a key that no other party knows, and adds the codeword t(v) = AES_key(v)[0:8] of
its renamed code v to the row: in a word of its own, or, where the codes are few, its lower 40 bits above
the codes in the same word. A server compares that with the sum of the codewords of the digits that
it has decoded. Who shifts somebody else's digit would have to add the difference of two codewords that
he does not know: he is right with probability 2^-64 or 2^-40, and a wrong guess ends the run.

The server must know the key of every place, and may not know which party has which place. So the
parties upload their keys as they upload rows: a table with one line per place, zero except in the
own lines, under zero-sum masks. The sum of all tables is the keys, in the secret order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fedvalue.compiled import njit
from fedvalue.crypto import aes
from fedvalue.crypto.masks import add_masks
from fedvalue.protocol.mirror.row_layout import RowLayout

KEY_BYTES = 16

GROUP_LIMIT = 1 << 14
"""Neighbouring digits share one table of sums up to this many entries: 128 KiB stay in the cache."""


def codewords(key: bytes, n_codes: int, shift: int) -> NDArray[np.uint64]:
    """t(v) of every renamed code v of one column at one server, as it stands in its word.

    Args:
        key: Of the column at the server.
        n_codes: Number of codes.
        shift: `Layout.tag_shift`; what would leave the word is cut off.
    """
    return aes.encrypt(key, aes.counter_blocks(n_codes))[:, 0] << np.uint64(shift)


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


class CodeCheck:
    """Checks rows against the keys of all places.

    Digits are not looked up one by one: neighbouring coordinates of a lane form a group, whose table
    holds the sum of the codewords of every combination.
    """

    def __init__(self, layout: RowLayout, keys: Sequence[bytes]) -> None:
        self._n_lanes = layout.n_lanes
        self._codes = np.uint64((1 << layout.tag_shift) - 1)
        first, sizes, tables = [0], [], []
        for lane in range(layout.n_lanes):
            for places in _groups(layout, lane):
                sizes.append(math.prod(layout.radices[place] for place in places))
                words = [codewords(keys[place], layout.radices[place], layout.tag_shift) for place in places]
                tables.append(_sums(words))
            first.append(len(sizes))
        self._first = np.array(first, dtype=np.int64)
        self._sizes = np.array(sizes, dtype=np.uint64)
        self._offsets = np.concatenate([[0], np.cumsum([len(table) for table in tables])]).astype(np.int64)
        self._table = np.concatenate(tables)

    def authentic(self, sums: NDArray[np.uint64]) -> bool:
        """Whether all rows are what their owners wrote; the sums of all uploads, shape (n_rows, n_words).

        A digit outside its range, masks that do not cancel and a wrong authenticator give the same answer, so
        that provoking it teaches nothing about the row.
        """
        return bool(
            _authentic(sums, self._n_lanes, self._codes, self._first, self._sizes, self._offsets, self._table)
        )


def _groups(layout: RowLayout, lane: int) -> list[list[int]]:
    """The places of a lane, lowest digit first, cut where a table of sums would become too large."""
    groups: list[list[int]] = []
    size = 0
    for place, radix in enumerate(layout.radices):
        if layout.lane[place] != lane:
            continue
        if not groups or size * radix > GROUP_LIMIT:
            groups.append([])
            size = 1
        groups[-1].append(place)
        size *= radix
    return groups


def _sums(words: Sequence[NDArray[np.uint64]]) -> NDArray[np.uint64]:
    """The sum of one codeword of each column, for every combination, the first column fastest."""
    out = words[0]
    for more in words[1:]:
        out = np.add.outer(more, out).ravel()
    return out


@njit(cache=True, nogil=True)
def _authentic(
    sums: NDArray[np.uint64],
    n_lanes: int,
    codes: np.uint64,
    first: NDArray[np.int64],
    sizes: NDArray[np.uint64],
    offsets: NDArray[np.int64],
    table: NDArray[np.uint64],
) -> bool:
    """Whether all rows are. There is no early exit: the time does not show which row was wrong.

    `codes` masks the codes of a word that also holds the authenticator; it is zero where none does.
    """
    n_bad = 0
    last_word = sums.shape[1] - 1
    for i in range(len(sums)):
        # Where they share a word, the codes are part of what is compared.
        expected = sums[i, last_word] & codes
        inside = True
        for lane in range(n_lanes):
            rest = expected if codes else sums[i, lane]
            last = first[lane + 1] - 1
            for group in range(first[lane], last):
                above = rest // sizes[group]
                digit = rest - above * sizes[group]
                expected += table[offsets[group] + np.int64(digit)]
                rest = above
            if rest < sizes[last]:
                expected += table[offsets[last] + np.int64(rest)]
            else:
                inside = False
        n_bad += not (inside and expected == sums[i, last_word])
    return n_bad == 0
