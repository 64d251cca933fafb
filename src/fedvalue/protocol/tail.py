"""Large bytes at the end of a MessagePack message, put there without being encoded.

An encoder would copy them, and so would every frame around the message. A message is encoded with
nothing in its last field instead, and the bytes themselves follow when it leaves.
"""

from __future__ import annotations

import struct

_EMPTY = b"\xc4\x00"
"""MessagePack's bin 8 of length 0."""


def open_tail(encoded: bytes, size: int) -> bytes:
    """What stands before the `size` bytes of the last field, of a message whose last field is empty bytes."""
    assert encoded.endswith(_EMPTY)
    if size < 1 << 8:
        header = struct.pack(">BB", 0xC4, size)
    elif size < 1 << 16:
        header = struct.pack(">BH", 0xC5, size)
    else:
        header = struct.pack(">BI", 0xC6, size)
    return encoded[: -len(_EMPTY)] + header
