"""The validation server's work under `paper`: Step 3, complete groups of encryption ids (and H2)."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from fedvalue.crypto.tokens import check_tokens
from fedvalue.errors import RemoteProtocolError
from fedvalue.protocol import messages as m
from fedvalue.protocol.settings import Settings
from fedvalue.protocol.tokens import queries
from fedvalue.protocol.tokens.intersecting import AnswerLog, pending_limit


@dataclass(slots=True)
class CheckedQuery:
    """The key from the task party and the intersection from the computation server, in either order."""

    key: m.QueryKey | None = None
    total: int = -1
    tokens: list[memoryview] = field(default_factory=list)
    sums: list[memoryview] = field(default_factory=list)

    @property
    def ready(self) -> bool:
        """Whether both are complete."""
        return self.key is not None and len(self.tokens) == self.total


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
            RemoteProtocolError: A query answered before, or more of them than the run has
                (E_QUERY), a coalition that does not exist or chunks out of order (E_DECLARED), or
                more tokens than the run can have (E_SIZE).
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
        if query.total < 0:
            query.total = chunk.total
        if chunk.total != query.total or chunk.index != len(query.tokens) or chunk.total < 1:
            raise RemoteProtocolError("an intersection chunk out of order", code="E_DECLARED")
        n, rest = divmod(len(chunk.tokens), queries.TOKEN_BYTES)
        expected = n * queries.AUTHENTICATOR_BYTES if self._h2 else 0
        if rest or len(chunk.authenticators) != expected or (chunk.total > 1 and not n):
            raise RemoteProtocolError("the sizes of tokens and authenticators do not match", code="E_SIZE")
        self._pending += _weight(chunk.tokens, chunk.authenticators)
        if self._pending > pending_limit(self._settings):
            raise RemoteProtocolError("too many tokens under way", code="E_SIZE")
        query.tokens.append(chunk.tokens)
        query.sums.append(chunk.authenticators)
        most = queries.TOKEN_BYTES * queries.copies(self._settings)
        most *= self._settings.n_samples + self._settings.n_r.amount
        if sum(map(len, query.tokens)) > most:
            raise RemoteProtocolError("an intersection larger than any set", code="E_SIZE")

    def _verdict(self, query_id: bytes, query: CheckedQuery) -> list[m.Envelope]:
        assert query.key is not None
        del self._open[query_id]
        self._pending -= sum(map(_weight, query.tokens, query.sums))
        self._n_left -= 1
        out = self._log.answer(query_id, query.key.coalition, self._check(query, query.key))
        return out + (self._log.seals() if self.complete else [])

    def _check(self, query: CheckedQuery, key: m.QueryKey) -> int:
        """Step 3: n_v, or -1 (groups), or -2 (authenticators)."""
        found = np.frombuffer(b"".join(query.tokens), dtype="<u8").reshape(-1, 2)
        sums = None
        if self._h2:
            sums = np.frombuffer(b"".join(query.sums), dtype="<u8")
        return check_tokens(key.outer, found, self._settings.q, sums, key.authenticator)


def _weight(tokens: memoryview, authenticators: memoryview) -> int:
    """Memory of a chunk while its query waits for its key; an empty one counts too."""
    return len(tokens) + len(authenticators) + 64
