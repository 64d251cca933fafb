"""Large bytes at the end of a MessagePack message, put there without being encoded.

An encoder would copy them, and so would every frame around the message. A message is encoded with
nothing in its last fields instead, and the bytes themselves follow when it leaves.
"""

from __future__ import annotations

import struct

_EMPTY = b"\xc4\x00"
"""MessagePack's bin 8 of length 0."""


def without_tail(encoded: bytes, n_fields: int) -> bytes:
    """A message without its last `n_fields` fields, which are empty bytes."""
    tail = n_fields * _EMPTY
    assert encoded.endswith(tail)
    return encoded[: len(encoded) - len(tail)]


def header(size: int) -> bytes:
    """What stands before `size` bytes."""
    if size < 1 << 8:
        return struct.pack(">BB", 0xC4, size)
    if size < 1 << 16:
        return struct.pack(">BH", 0xC5, size)
    return struct.pack(">BI", 0xC6, size)
