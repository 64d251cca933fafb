"""Storage of uploaded chunks until a server has counted them."""

from __future__ import annotations

from typing import Protocol


class ChunkStore(Protocol):
    """Bytes by (party, chunk index). A durable implementation survives the process."""

    def put(self, party: str, index: int, data: memoryview) -> None:
        """Store a chunk."""

    def get(self, party: str, index: int) -> memoryview:
        """A stored chunk."""

    def discard(self, party: str, index: int) -> None:
        """The chunk has been counted; it may be deleted, now or later."""


class MemoryChunkStore:
    """Chunks in memory. Discards at once, so memory grows with the parties' lead over each other."""

    def __init__(self) -> None:
        self._chunks: dict[tuple[str, int], memoryview] = {}

    def put(self, party: str, index: int, data: memoryview) -> None:
        """Store a chunk."""
        self._chunks[party, index] = data

    def get(self, party: str, index: int) -> memoryview:
        """A stored chunk."""
        return self._chunks[party, index]

    def discard(self, party: str, index: int) -> None:
        """Delete the chunk."""
        self._chunks.pop((party, index), None)
