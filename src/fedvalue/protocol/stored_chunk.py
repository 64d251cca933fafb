"""A chunk of an upload whose bytes lie elsewhere, on disk, until it is encoded."""

from __future__ import annotations

from collections.abc import Callable

from fedvalue.protocol.messages import Chunk


class StoredChunk(Chunk, frozen=True):
    """Index, total, digest and salt of a chunk, and how to get its bytes; `data` is empty.

    The encoder makes a `Chunk` of it. It has no form of its own on the wire: a function cannot be
    encoded, and no decoder knows its name.
    """

    read: Callable[[], memoryview]

    def whole(self) -> Chunk:
        """The chunk with its bytes."""
        return Chunk(self.index, self.total, self.digest, self.salt, self.read())
