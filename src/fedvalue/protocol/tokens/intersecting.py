"""The computation server's work under `single` and `paper`: Step 2, the intersection of token sets."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fedvalue.crypto import keys
from fedvalue.crypto.aes import Blocks
from fedvalue.crypto.sorting import intersect, rising
from fedvalue.errors import RemoteProtocolError
from fedvalue.protocol import messages as m
from fedvalue.protocol.keyring import Credentials
from fedvalue.protocol.settings import ProtocolName, Settings
from fedvalue.protocol.signed_results import make_seal
from fedvalue.protocol.tokens import queries

PENDING_BYTES = 256 * 1024 * 1024
"""Limit of one sender's data in queries that still wait for others."""


@dataclass(slots=True)
class TokenSet:
    """The tokens of one query from one sender, and their authenticators, as received so far."""

    total: int
    tokens: list[Blocks] = field(default_factory=list)
    sums: list[NDArray[np.uint64]] = field(default_factory=list)

    @property
    def complete(self) -> bool:
        """Whether the last chunk is here."""
        return len(self.tokens) == self.total

    @property
    def n_tokens(self) -> int:
        """Number of tokens so far."""
        return sum(map(len, self.tokens))

    @property
    def n_bytes(self) -> int:
        """Memory of tokens and authenticators so far."""
        return sum(array.nbytes for array in (*self.tokens, *self.sums))

    def add(self, sender: str, chunk: m.TokenChunk | m.IntersectionChunk, *, h2: bool) -> None:
        """The next chunk.

        Raises:
            RemoteProtocolError: Out of order (E_DECLARED), or sizes that do not match (E_SIZE).
        """
        if chunk.total != self.total or not chunk.index == len(self.tokens) < self.total:
            raise RemoteProtocolError(f"{sender!r} sent a token chunk out of order", code="E_DECLARED")
        n, rest = divmod(len(chunk.tokens), queries.TOKEN_BYTES)
        expected = n * queries.AUTHENTICATOR_BYTES if h2 else 0
        if rest or len(chunk.authenticators) != expected or (chunk.total > 1 and not n):
            raise RemoteProtocolError(
                f"{sender!r}: the sizes of tokens and authenticators do not match", code="E_SIZE"
            )
        # Compiled code wants aligned words, and the message is not kept: copy.
        self.tokens.append(np.array(np.frombuffer(chunk.tokens, dtype="<u8")).reshape(n, 2))
        self.sums.append(np.array(np.frombuffer(chunk.authenticators, dtype="<u8")))

    def joined(self) -> tuple[Blocks, NDArray[np.uint64]]:
        """All tokens and authenticators."""
        if len(self.tokens) == 1:
            return self.tokens[0], self.sums[0]
        return np.concatenate(self.tokens), np.concatenate(self.sums)


@dataclass(slots=True)
class Query:
    """The sets of one query, as received so far."""

    coalition: tuple[str, ...]
    sets: dict[str, TokenSet] = field(default_factory=dict)

    @property
    def ready(self) -> bool:
        """Whether every member's set is complete."""
        return len(self.sets) == len(self.coalition) and all(part.complete for part in self.sets.values())


class TokenCounting:
    """Intersections of all queries of a run."""

    def __init__(self, settings: Settings, credentials: Credentials) -> None:
        cost = queries.check_budget(settings)
        self._settings = settings
        self._salts = keys.subkey(credentials.seed, settings.run_id, "intersection-salts", settings.digest())
        self._h2 = queries.has_authenticators(settings)
        self._h3 = queries.states_sizes(settings)
        self._left = {table.coalition: table.n_cells for table in queries.tables(settings)}
        self._n_left = cost.n_queries
        self._open: dict[bytes, Query] = {}
        self._pending: dict[str, int] = dict.fromkeys(settings.everybody, 0)
        self._log = AnswerLog(settings, settings.compute, credentials.signing_key)

    @property
    def complete(self) -> bool:
        """Whether every query has been answered."""
        return self._n_left == 0

    def add(self, party: str, chunk: m.TokenChunk) -> list[m.Envelope]:
        """Part of a party's set. When the last set of a query is complete: Steps 2.1 and 2.2.

        Raises:
            RemoteProtocolError: A different coalition than the others named (E_DECLARED), more queries
                than the run has (E_QUERY), sizes that do not match or too many tokens under way (E_SIZE),
                tokens out of order (E_DECLARED).
        """
        query = self._query(party, chunk)
        token_set = query.sets.setdefault(party, TokenSet(chunk.total))
        token_set.add(party, chunk, h2=self._h2)
        *before, tokens = token_set.tokens
        if not rising(tokens) or (before and not rising(np.concatenate([before[-1][-1:], tokens[:1]]))):
            raise RemoteProtocolError(f"{party!r} sent tokens out of order", code="E_DECLARED")
        self._pending[party] += len(chunk.tokens) + len(chunk.authenticators)
        if self._pending[party] > pending_limit(self._settings):
            raise RemoteProtocolError(f"{party!r} has too many tokens under way", code="E_SIZE")
        return self._answer(chunk.query, query) if query.ready else []

    def _query(self, party: str, chunk: m.TokenChunk) -> Query:
        query = self._open.get(chunk.query)
        if query is None:
            if self._log.knows(chunk.query) or self._left.get(chunk.coalition, 0) == 0:
                raise RemoteProtocolError(
                    f"{party!r} sent a query that this run does not have", code="E_QUERY"
                )
            self._left[chunk.coalition] -= 1
            query = self._open[chunk.query] = Query(chunk.coalition)
        if query.coalition != chunk.coalition or party not in query.coalition:
            raise RemoteProtocolError(
                f"{party!r} names a different coalition than the others", code="E_DECLARED"
            )
        return query

    def _answer(self, query_id: bytes, query: Query) -> list[m.Envelope]:
        tokens, sums = self._intersection(query)
        sizes = tuple(query.sets[member].n_tokens for member in query.coalition) if self._h3 else ()
        for party, token_set in query.sets.items():
            self._pending[party] -= token_set.n_bytes
        del self._open[query_id]
        self._n_left -= 1
        out = self._to_validation(query_id, tokens, sums)
        out += self._log.answer(query_id, query.coalition, len(tokens), sizes)
        return out + (self._log.seals() if self.complete else [])

    def _intersection(self, query: Query) -> tuple[Blocks, NDArray[np.uint64]]:
        """Tokens sent by every member, and the sums of their authenticators."""
        smallest, *others = sorted(query.sets.values(), key=lambda token_set: token_set.n_tokens)
        tokens, sums = smallest.joined()
        for other in others:
            tokens, sums = intersect(tokens, sums, *other.joined())
        return tokens, sums

    def _to_validation(self, query_id: bytes, tokens: Blocks, sums: NDArray[np.uint64]) -> list[m.Envelope]:
        """Step 2.1: the intersection for the validation server.

        Every party could compute the tokens of a cell that it guesses, so the digests cover secret salts.
        """
        settings, out = self._settings, []
        if settings.protocol is not ProtocolName.PAPER:
            return []
        to = m.Sender(settings.run_id, settings.compute).to
        for index, total, data, payload in queries.cut(settings, tokens, sums):
            place = index.to_bytes(4, "big")
            salt = keys.subkey(self._salts, settings.run_id, "intersection-salt", query_id, place, length=16)
            chunk = m.IntersectionChunk(index, total, b"", salt, query_id, data, payload)
            out.append(to(settings.validate, chunk.with_digest()))
        return out


def pending_limit(settings: Settings) -> int:
    """Bytes that one sender may have under way: two of the largest sets always fit."""
    set_bytes = 24 * queries.copies(settings) * (settings.n_samples + settings.n_r.amount)
    return max(PENDING_BYTES, 2 * set_bytes)


class AnswerLog:
    """A server's answers so far; at the end it signs for each party the answers that party got."""

    def __init__(self, settings: Settings, server: str, signing_key: bytes) -> None:
        self._settings = settings
        self._server = server
        self._to = m.Sender(settings.run_id, server).to
        self._signing_key = signing_key
        self._answers: dict[bytes, tuple[tuple[str, ...], int, tuple[int, ...]]] = {}

    def knows(self, query_id: bytes) -> bool:
        """Whether the query has been answered."""
        return query_id in self._answers

    def answer(
        self, query_id: bytes, coalition: tuple[str, ...], count: int, sizes: tuple[int, ...] = ()
    ) -> list[m.Envelope]:
        """Keep an answer, and return it for the members of the coalition."""
        self._answers[query_id] = (coalition, count, sizes)
        return [
            self._to(member, m.QueryCount(query_id, self._count_for(member, query_id), sizes))
            for member in coalition
        ]

    def _count_for(self, party: str, query_id: bytes) -> int:
        return self._answers[query_id][1]

    def seals(self) -> list[m.Envelope]:
        """The signature on all answers, per party."""
        out = []
        for party in self._settings.everybody:
            seen = {
                query: (self._count_for(party, query), sizes)
                for query, (members, _, sizes) in self._answers.items()
                if party in members
            }
            digest = keys.digest(*queries.result_digest_parts(seen))
            seal = make_seal(self._signing_key, self._settings.run_id, self._server, digest)
            out.append(self._to(party, seal))
        return out
