"""How results reach the parties: chunks, then the server's signature on all of them.

A server cuts and signs (`signed_result`); a party's `Work` collects and checks (`ResultInbox`).
"""

from __future__ import annotations

import hmac
from abc import ABC, abstractmethod
from collections.abc import Mapping

from fedvalue.crypto import keys
from fedvalue.errors import RemoteProtocolError, VerificationError
from fedvalue.information.contingency import Codebook, JointCounts
from fedvalue.protocol import messages as m
from fedvalue.protocol.keyring import Credentials, Keyring
from fedvalue.protocol.outcome import Outcome, SignedResult
from fedvalue.protocol.settings import Settings
from fedvalue.protocol.shared_codebooks import SharedCodebooks, shares_codebooks


class ResultInbox:
    """Results of all servers of a run, each checked against its server's pinned key."""

    def __init__(self, settings: Settings, limit: int, pins: Mapping[str, bytes]) -> None:
        self._settings = settings
        self._limit = limit
        self._pins = pins
        most = m.n_parts(limit, settings.chunk_bytes)
        self._parts: dict[str, m.OrderedParts[m.ResultChunk]] = {
            server: m.OrderedParts(f"the result of {server!r}", most) for server in settings.servers
        }
        self._sizes = dict.fromkeys(settings.servers, 0)
        self._sealed: dict[str, m.ResultSeal] = {}

    def add(self, server: str, chunk: m.ResultChunk) -> None:
        """The next chunk of a server's result.

        Raises:
            RemoteProtocolError: Out of order, after the seal, or beyond the limit.
        """
        self._parts[server].add(chunk)  # a seal comes after the last part, so nothing comes after a seal
        self._sizes[server] += len(chunk.data)
        if not chunk.data or self._sizes[server] > self._limit:
            raise RemoteProtocolError(f"the result of {server!r} is too large, or empty", code="E_SIZE")

    def seal(self, server: str, seal: m.ResultSeal, *, with_bytes: bool, digest: bytes | None = None) -> None:
        """The signature on a server's whole result.

        Args:
            server: The sender.
            seal: The signature.
            with_bytes: Whether this party has the chunks and can compute the digest itself.
            digest: The digest that the seal must carry, when it does not come from chunks.

        Raises:
            VerificationError: The seal of another run (E_REPLAY), a wrong signature (E_SIGNATURE), or
                different content than was signed (E_EQUIVOCATION).
        """
        if seal.run_id != self._settings.run_id:
            raise VerificationError(f"{server!r} sent the result of another run", code="E_REPLAY")
        keys.check_signature(self._pins[server], seal.signature, "result", seal.run_id, server, seal.digest)
        if with_bytes:
            if not self._parts[server].complete:
                raise RemoteProtocolError(f"the result of {server!r} is incomplete", code="E_DECLARED")
            digest = keys.digest(*(part.digest for part in self._parts[server].messages))
        if digest is not None and not hmac.compare_digest(digest, seal.digest):
            raise VerificationError(
                f"{server!r} signed different content than it sent", code="E_EQUIVOCATION"
            )
        self._sealed[server] = seal

    @property
    def complete(self) -> bool:
        """Whether every server has sealed its result."""
        return len(self._sealed) == len(self._settings.servers)

    def bytes_of(self, server: str) -> bytes:
        """The result of a server."""
        return b"".join(part.data for part in self._parts[server].messages)

    def digest_of(self, server: str) -> bytes:
        """The digest that the server signed."""
        return self._sealed[server].digest

    def signed(self, server: str, share_keys: m.ShareKeys | None = None) -> SignedResult:
        """The result of a server, to be shown to others."""
        seal, parts = self._sealed[server], self._parts[server].messages
        return SignedResult(
            result=tuple(part.data for part in parts),
            digest=seal.digest,
            signature=seal.signature,
            task_key=None if share_keys is None else share_keys.task,
            share_keys=() if share_keys is None else share_keys.shares,
        )


class Work(ABC):
    """A party's work between the confirmation of keys and the agreement on results.

    Args:
        settings: The settings of the run.
        name: This party.
        ring: Its keys of the run.
        credentials: Its long-term keys.
        result_bytes: Largest result that it accepts from a server.
        book: The features behind its joint code, where parties share codebooks.
    """

    def __init__(
        self,
        settings: Settings,
        name: str,
        ring: Keyring,
        credentials: Credentials,
        *,
        result_bytes: int,
        book: Codebook | None = None,
    ) -> None:
        self._settings = settings
        self._name = name
        self._to = m.Sender(settings.run_id, name).to
        self._ring = ring
        self._credentials = credentials
        self._inbox = ResultInbox(settings, result_bytes, credentials.pins)
        self._shared: SharedCodebooks | None = None
        if shares_codebooks(settings):
            self._shared = SharedCodebooks(settings, name, ring, book)
        self._outcome: Outcome | None = None

    @abstractmethod
    def begin(self) -> list[m.Envelope]:
        """The first uploads."""

    def _own_codebook(self) -> list[m.Envelope]:
        """Our codebook for the other parties, where they share codebooks."""
        return [] if self._shared is None else self._shared.begin()

    def _with_codebooks(self, counts: JointCounts) -> JointCounts:
        """The counts with everybody's codebooks, where parties share them."""
        return counts if self._shared is None else self._shared.completed(counts)

    @abstractmethod
    def take(self, sender: str, message: m.AnyMessage) -> list[m.Envelope]:
        """A message of a server; returns further uploads."""

    @property
    def order(self) -> tuple[str, ...]:
        """The data parties in the servers' secret order of columns; empty where columns have names."""
        return ()

    @property
    def complete(self) -> bool:
        """Whether all results have arrived and passed every check."""
        return self._outcome is not None

    def outcome(self) -> Outcome:
        """The party's result, without the evidence."""
        assert self._outcome is not None
        return self._outcome

    def results(self) -> dict[str, SignedResult]:
        """The servers' signed results."""
        return {
            server: self._inbox.signed(server, self._share_keys(server)) for server in self._settings.servers
        }

    @property
    def signed_digests(self) -> dict[str, bytes]:
        """The digest that each server signed."""
        return {server: self._inbox.digest_of(server) for server in self._settings.servers}

    def _share_keys(self, server: str) -> m.ShareKeys | None:
        """The keys that open the shares in a server's result."""
        return None

    def digests(self) -> dict[str, bytes]:
        """Per peer, a digest of what both must have seen: by default every server's signed result."""
        seen = keys.digest(*self.signed_digests.values())
        return {peer: seen for peer in self._settings.everybody if peer != self._name}


def signed_result(
    signing_key: bytes, run_id: bytes, server: str, data: bytes, chunk_bytes: int
) -> tuple[list[m.ResultChunk], m.ResultSeal]:
    """A server's result in chunks, and its signature on them."""
    chunks = [m.ResultChunk(k, n, b"", part).with_digest() for k, n, part in m.cut(data, chunk_bytes)]
    digest = keys.digest(*(chunk.digest for chunk in chunks))
    return chunks, make_seal(signing_key, run_id, server, digest)


def make_seal(signing_key: bytes, run_id: bytes, server: str, digest: bytes) -> m.ResultSeal:
    """A server's signature on its result."""
    return m.ResultSeal(run_id, digest, keys.sign(signing_key, "result", run_id, server, digest))
