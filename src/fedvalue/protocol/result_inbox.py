"""Collects the servers' results at a party: chunks, then the signature on all of them."""

from __future__ import annotations

import hmac
from collections.abc import Mapping

from fedvalue.crypto import keys
from fedvalue.errors import RemoteProtocolError, VerificationError
from fedvalue.protocol import messages as m
from fedvalue.protocol.outcome import SignedResult
from fedvalue.protocol.settings import Settings


class ResultInbox:
    """Results of all servers of a run, each checked against its server's pinned key."""

    def __init__(self, settings: Settings, limit: int, pins: Mapping[str, bytes]) -> None:
        self._settings = settings
        self._limit = limit
        self._pins = pins
        self._chunks: dict[str, list[bytes]] = {server: [] for server in settings.servers}
        self._chunk_digests: dict[str, list[bytes]] = {server: [] for server in settings.servers}
        self._total: dict[str, int] = {}
        self._sealed: dict[str, m.ResultSeal] = {}

    def add(self, server: str, chunk: m.ResultChunk) -> None:
        """The next chunk of a server's result.

        Raises:
            RemoteProtocolError: Out of order, after the seal, or beyond the limit.
        """
        chunks = self._chunks[server]
        total = self._total.setdefault(server, chunk.total)
        if (
            server in self._sealed
            or chunk.total != total
            or chunk.index != len(chunks)
            or chunk.index >= total
        ):
            raise RemoteProtocolError(f"{server!r} sent a result chunk out of order", code="E_DECLARED")
        too_large = sum(map(len, chunks)) + len(chunk.data) > self._limit
        if too_large or not chunk.data:
            raise RemoteProtocolError(f"the result of {server!r} is too large, or empty", code="E_SIZE")
        chunks.append(chunk.data)
        self._chunk_digests[server].append(chunk.digest)

    def seal(self, server: str, seal: m.ResultSeal, *, with_bytes: bool, digest: bytes | None = None) -> None:
        """The signature on a server's whole result.

        Args:
            server: Who sent it.
            seal: What it sent.
            with_bytes: Whether this party has the chunks and can compute the digest itself.
            digest: The digest that the seal must carry, when it does not come from chunks.

        Raises:
            VerificationError: Another run's seal (E_REPLAY), a signature that does not fit
                (E_SIGNATURE), or another content than was signed (E_EQUIVOCATION).
        """
        if seal.run_id != self._settings.run_id:
            raise VerificationError(f"{server!r} sent the result of another run", code="E_REPLAY")
        keys.check_signature(self._pins[server], seal.signature, "result", seal.run_id, server, seal.digest)
        if with_bytes:
            if len(self._chunks[server]) != self._total.get(server, -1):
                raise RemoteProtocolError(f"the result of {server!r} is incomplete", code="E_DECLARED")
            digest = keys.digest(*self._chunk_digests[server])
        if digest is not None and not hmac.compare_digest(digest, seal.digest):
            raise VerificationError(f"{server!r} signed something else than it sent", code="E_EQUIVOCATION")
        self._sealed[server] = seal

    @property
    def complete(self) -> bool:
        """Whether every server has sealed its result."""
        return len(self._sealed) == len(self._settings.servers)

    def bytes_of(self, server: str) -> bytes:
        """The result of a server."""
        return b"".join(self._chunks[server])

    def digest_of(self, server: str) -> bytes:
        """The digest that the server signed."""
        return self._sealed[server].digest

    def signed(self, server: str, share_keys: m.ShareKeys | None = None) -> SignedResult:
        """The result of a server, to be shown to others."""
        seal = self._sealed[server]
        return SignedResult(tuple(self._chunks[server]), seal.digest, seal.signature, share_keys)


def make_seal(signing_key: bytes, run_id: bytes, server: str, digest: bytes) -> m.ResultSeal:
    """A server's signature on its result."""
    return m.ResultSeal(run_id, digest, keys.sign(signing_key, "result", run_id, server, digest))
