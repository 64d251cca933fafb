"""The validation server's work under `paper`: Step 3, complete groups of encryption ids (and H2)."""

from __future__ import annotations

from dataclasses import dataclass

from fedvalue.crypto.tokens import check_tokens
from fedvalue.errors import RemoteProtocolError
from fedvalue.protocol import messages as m
from fedvalue.protocol.settings import Settings
from fedvalue.protocol.tokens import queries
from fedvalue.protocol.tokens.intersecting import AnswerLog, TokenSet, pending_limit

CHUNK_OVERHEAD = 64
"""Bytes that a chunk counts, besides its content, while its query waits for its key."""


@dataclass(slots=True)
class CheckedQuery:
    """The key from the task party and the intersection from the computation server, in either order."""

    key: m.QueryKey | None = None
    intersection: TokenSet | None = None

    @property
    def ready(self) -> bool:
        """Whether both are complete."""
        return self.key is not None and self.intersection is not None and self.intersection.complete


class TokenChecking:
    """Verdicts on all queries of a run."""

    def __init__(self, settings: Settings, signing_key: bytes) -> None:
        cost = queries.check_budget(settings)
        self._settings = settings
        self._coalitions = set(queries.coalitions(settings))
        self._n_left = cost.n_queries
        self._open: dict[bytes, CheckedQuery] = {}
        self._h2 = queries.has_authenticators(settings)
        self._pending = 0
        self._log = AnswerLog(settings, settings.validate, signing_key)

    @property
    def complete(self) -> bool:
        """Whether every query has its verdict."""
        return self._n_left == 0

    def take(self, message: m.AnyMessage) -> list[m.Envelope]:
        """A key or part of an intersection. When both are complete: the verdict.

        Raises:
            RemoteProtocolError: A query answered before, or more queries than the run has (E_QUERY), a
                coalition that does not exist or chunks out of order (E_DECLARED), or more tokens than the
                run can have (E_SIZE).
        """
        assert isinstance(message, m.QueryKey | m.IntersectionChunk)
        query = self._query(message.query)
        if isinstance(message, m.QueryKey):
            if message.coalition not in self._coalitions:
                raise RemoteProtocolError("a query of a coalition that does not exist", code="E_DECLARED")
            query.key = message
        else:
            self._add(query, message)
        return self._verdict(message.query, query) if query.ready else []

    def _query(self, query_id: bytes) -> CheckedQuery:
        if self._log.knows(query_id):
            raise RemoteProtocolError("a query that already has its verdict", code="E_QUERY")
        query = self._open.get(query_id)
        if query is None:
            if len(self._open) >= self._n_left:
                raise RemoteProtocolError("more queries than the run has", code="E_QUERY")
            query = self._open[query_id] = CheckedQuery()
        return query

    def _add(self, query: CheckedQuery, chunk: m.IntersectionChunk) -> None:
        if query.intersection is None:
            query.intersection = TokenSet(chunk.total)
        query.intersection.add(self._settings.compute, chunk, h2=self._h2)
        self._pending += len(chunk.tokens) + len(chunk.authenticators) + CHUNK_OVERHEAD
        if self._pending > pending_limit(self._settings):
            raise RemoteProtocolError("too many tokens under way", code="E_SIZE")
        most = queries.copies(self._settings) * (self._settings.n_samples + self._settings.n_r.amount)
        if query.intersection.n_tokens > most:
            raise RemoteProtocolError("an intersection larger than any set", code="E_SIZE")

    def _verdict(self, query_id: bytes, query: CheckedQuery) -> list[m.Envelope]:
        assert query.key is not None
        assert query.intersection is not None
        del self._open[query_id]
        self._pending -= query.intersection.n_bytes + CHUNK_OVERHEAD * query.intersection.total
        self._n_left -= 1
        out = self._log.answer(query_id, query.key.coalition, self._check(query.intersection, query.key))
        return out + (self._log.seals() if self.complete else [])

    def _check(self, intersection: TokenSet, key: m.QueryKey) -> int:
        """Step 3: n_v, or -1 (groups), or -2 (authenticators)."""
        tokens, sums = intersection.joined()
        return check_tokens(
            key.outer, tokens, self._settings.q, sums if self._h2 else None, key.authenticator
        )
