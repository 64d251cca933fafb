"""AES-128 over whole buffers of 16-byte blocks: the pseudo-random function of everything in bulk.

Blocks are arrays of shape (n, 2) of uint64 (little-endian machines see the same bytes as in the
specification). ECB is not a mode of encryption here: each block is an independent input of a pseudo-random
permutation, which is exactly one AES call per block. Work is cut into slabs that fit the cache.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes
from numpy.typing import NDArray

assert sys.byteorder == "little", "FedValue needs a little-endian machine"

Blocks = NDArray[np.uint64]
"""Shape (n, 2): 16 bytes per row."""

_BLOCKWISE = modes.ECB()  # noqa: S305  a pseudo-random permutation of single blocks, not a mode

SLAB = 1 << 15
"""Blocks per call: 512 KiB in and out stay in the second-level cache."""


def encryptor(key: bytes) -> CipherContext:
    """AES-128 encryption of single blocks."""
    return Cipher(algorithms.AES128(key), _BLOCKWISE).encryptor()


def decryptor(key: bytes) -> CipherContext:
    """AES-128 decryption of single blocks."""
    return Cipher(algorithms.AES128(key), _BLOCKWISE).decryptor()


def apply(cipher: CipherContext, blocks: Blocks) -> Blocks:
    """Every block through the cipher."""
    blocks = np.ascontiguousarray(blocks)
    n = len(blocks)
    # The library asks for one block less one byte of room beyond the end.
    buffer = np.empty((n + 1, 2), dtype=np.uint64)
    if n:
        cipher.update_into(blocks.data.cast("B"), buffer.data.cast("B"))
    return buffer[:n]


def encrypt(key: bytes, blocks: Blocks) -> Blocks:
    """AES-128 of every block under `key`."""
    return apply(encryptor(key), blocks)


def decrypt(key: bytes, blocks: Blocks) -> Blocks:
    """The inverse of `encrypt`."""
    return apply(decryptor(key), blocks)


def slabs(n: int) -> Iterator[slice]:
    """Cut 0 .. n into slabs."""
    for start in range(0, n, SLAB):
        yield slice(start, min(start + SLAB, n))


def counter_blocks(n: int, prefix: int = 0) -> Blocks:
    """Blocks (0, prefix), (1, prefix), …: inputs for a stream of pseudo-random bytes."""
    blocks = np.empty((n, 2), dtype=np.uint64)
    blocks[:, 0] = np.arange(n, dtype=np.uint64)
    blocks[:, 1] = prefix
    return blocks
