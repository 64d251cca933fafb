"""Tokens of the paper's protocol: q encryption ids per sample, fresh for every query.

g_i = AES_{K_in}(h_i)[0:10] and token_{i,k} = AES_{K_out}(g_i ‖ k ‖ 0⁵). The parties hold both keys of
a query, the validation server K_out only: it sees which tokens belong together within this query,
and can neither go back to h_i nor link two queries. The computation server holds neither.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedvalue.compiled import njit
from fedvalue.crypto import aes
from fedvalue.crypto.sorting import sort_blocks

_TAIL = np.uint64(0xFFFF)  # bytes 8 and 9 of a block: the end of g

INCOMPLETE = -1
FORGED = -2


class TokenKeys(NamedTuple):
    """The parties' keys of one query, 16 bytes each."""

    inner: bytes
    outer: bytes

    def __repr__(self) -> str:
        return "TokenKeys(...)"


def token_blocks(keys: TokenKeys, hashes: aes.Blocks, q: int) -> aes.Blocks:
    """g_i ‖ k ‖ 0⁵ for every sample i and copy k, shape (n·q, 2): the input of the last encryption."""
    blocks: aes.Blocks = _copies(aes.encrypt(keys.inner, hashes), q)
    return blocks


@njit(cache=True, nogil=True)
def _copies(inner: NDArray[np.uint64], q: int) -> NDArray[np.uint64]:
    """The first ten bytes of each block and the number of the copy, q times."""
    blocks = np.empty((len(inner) * q, 2), dtype=np.uint64)
    for i in range(len(inner)):
        for k in range(q):
            blocks[i * q + k, 0] = inner[i, 0]
            blocks[i * q + k, 1] = (inner[i, 1] & _TAIL) | np.uint64(k << 16)
    return blocks


def tokens(keys: TokenKeys, blocks: aes.Blocks) -> aes.Blocks:
    """The encryption ids of these blocks."""
    return aes.encrypt(keys.outer, blocks)


def check_tokens(
    outer: bytes, received: aes.Blocks, q: int, sums: NDArray[np.uint64] | None, authenticator: bytes
) -> int:
    """The validation server's answer to an intersection.

    Args:
        outer: K_out of the query.
        received: Tokens from the computation server.
        q: Encryption ids per sample.
        sums: Sums of the authenticators (H2), or None.
        authenticator: K_V of the query, for H2.

    Returns:
        The number of tokens; -1 unless they are complete groups of q, each copy once;
        -2 if a sum is not AES_{K_V}(block), that is, not every party had sent that token.
    """
    blocks = aes.decrypt(outer, received)
    if not _complete_groups(_by_group(blocks), q):
        return INCOMPLETE
    if sums is not None:
        expected = aes.encrypt(authenticator, blocks)[:, 0]
        if len(sums) != len(expected) or not np.array_equal(sums, expected):
            return FORGED
    return len(received)


def _by_group(blocks: aes.Blocks) -> aes.Blocks:
    """Blocks sorted by g, then k: the two bytes of g in the second word move to its front."""
    keys = blocks.copy()
    keys[:, 1] = (blocks[:, 1] << np.uint64(48)) | (blocks[:, 1] >> np.uint64(16))
    return sort_blocks(keys)[0]


@njit(cache=True, nogil=True)
def _complete_groups(keys: NDArray[np.uint64], q: int) -> bool:
    """Sorted keys must be (g, 0), …, (g, q-1) for each g in turn, and nothing else."""
    n = len(keys)
    if n % q != 0:
        return False
    rest = np.uint64((1 << 48) - 1)  # k and the five zero bytes
    for i in range(n):
        copy = i % q
        if keys[i, 1] & rest != np.uint64(copy):
            return False
        same = (
            i > 0
            and keys[i, 0] == keys[i - 1, 0]
            and keys[i, 1] >> np.uint64(48) == keys[i - 1, 1] >> np.uint64(48)
        )
        if same != (copy > 0):
            return False
    return True
