"""Reducing the parties' tables to their common ids, once the parties share a key.

1. Each party sends each server its ids, encrypted under a key for that server alone, in sorted order.
2. Each server tells each party which of that party's tokens all parties sent.
3. A party accepts the answer only if both servers named the same rows (E_MIRROR).

A server learns how many ids each party has and how the encrypted sets overlap. A party learns which of its
rows are common, and nothing about the others'. A single lying server is detected in step 3: its tokens have
nothing in common with the other server's, so it cannot fit its lie to them. `single` has one server, whose
lies are not detected.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from fedvalue.crypto.hashing import hash_ids
from fedvalue.errors import RemoteProtocolError, VerificationError
from fedvalue.protocol import messages as m
from fedvalue.protocol.keyring import AlignmentKeys
from fedvalue.protocol.settings import RunTerms

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fedvalue.crypto.ids import PackedIds

    Tokens: TypeAlias = NDArray[np.bytes_]
    """Tokens of 16 bytes, dtype S16: fixed length, so that equality means equal bytes."""

TOKEN_BYTES = 16


class PartyAlignment:
    """A party's side; `ids` may come in any number of batches."""

    def __init__(self, terms: RunTerms, name: str, ids: Iterable[PackedIds], keys: AlignmentKeys) -> None:
        self._terms = terms
        self._to = m.Sender(terms.run_id, name).to
        self._ids = tuple(ids)
        self._keys = keys
        self._orders: dict[str, NDArray[np.int64]] = {}
        most = m.n_parts(m.n_parts(terms.max_samples, 8), _part_bytes(terms))
        self._masks: dict[str, m.OrderedParts[m.AlignMask]] = {
            server: m.OrderedParts(f"the mask of {server!r}", most) for server in terms.servers
        }
        self._common: dict[str, NDArray[np.int64]] = {}

    def begin(self) -> list[m.Envelope]:
        """Step 1."""
        return [envelope for server in self._terms.servers for envelope in self._tokens(server)]

    def _tokens(self, server: str) -> list[m.Envelope]:
        key = self._keys.tokens(server)
        hashes = np.concatenate([hash_ids(key, batch) for batch in self._ids])
        tokens = np.ascontiguousarray(hashes).view("S16").ravel()
        self._orders[server] = order = np.argsort(tokens, kind="stable")
        out = []
        for index, total, part in m.cut(tokens[order].tobytes(), _part_bytes(self._terms)):
            salt = self._keys.salt(server, index)
            message = m.AlignTokens(index, total, b"", salt, memoryview(part))
            out.append(self._to(server, message.with_digest()))
        return out

    def take(self, server: str, mask: m.AlignMask) -> None:
        """Step 2: part of a server's answer.

        Raises:
            RemoteProtocolError: Out of order, or of a wrong size (E_DECLARED).
        """
        parts, n_tokens = self._masks[server], len(self._orders[server])
        parts.add(mask)
        bits = b"".join(part.bits for part in parts.messages)
        expected = -(-n_tokens // 8)
        if not mask.bits or len(bits) > expected or (parts.complete and len(bits) != expected):
            raise RemoteProtocolError(f"the mask of {server!r} has a wrong size", code="E_DECLARED")
        if parts.complete:
            kept = np.unpackbits(np.frombuffer(bits, np.uint8), count=n_tokens).astype(bool)
            self._common[server] = np.sort(self._orders[server][kept])

    @property
    def rows(self) -> NDArray[np.int64] | None:
        """Step 3: the indices of our common rows, rising; None until every server has answered.

        Raises:
            VerificationError: The servers name different rows (E_MIRROR), or none (E_POPULATION).
        """
        if len(self._common) < len(self._terms.servers):
            return None
        first, *others = (self._common[server] for server in self._terms.servers)
        if any(not np.array_equal(first, other) for other in others):
            raise VerificationError("the servers name different common rows", code="E_MIRROR")
        if not len(first):
            raise VerificationError("the parties have no id in common", code="E_POPULATION")
        return first


class ServerAlignment:
    """A server's side: intersects the parties' tokens."""

    def __init__(self, terms: RunTerms, name: str) -> None:
        self._terms = terms
        self._to = m.Sender(terms.run_id, name).to
        most = m.n_parts(TOKEN_BYTES * terms.max_samples, _part_bytes(terms))
        self._parts: dict[str, m.OrderedParts[m.AlignTokens]] = {
            party: m.OrderedParts(f"the tokens of {party!r}", most) for party in terms.everybody
        }
        self._tokens: dict[str, Tokens] = {}
        self.done = False

    def missing(self) -> tuple[str, ...]:
        """The parties whose tokens are not complete."""
        return tuple(name for name in self._terms.everybody if name not in self._tokens)

    def take(self, sender: str, message: m.AlignTokens) -> list[m.Envelope]:
        """Part of a party's tokens; after the last part of the last party, the masks for all.

        Raises:
            RemoteProtocolError: Out of order (E_DECLARED), or more tokens than agreed (E_SIZE).
            VerificationError: Fewer common ids than the gate allows (E_GATE).
        """
        parts = self._parts[sender]
        parts.add(message)
        n_bytes = sum(len(part.data) for part in parts.messages)
        too_many = n_bytes > TOKEN_BYTES * self._terms.max_samples
        if too_many or not message.data or len(message.data) % TOKEN_BYTES:
            raise RemoteProtocolError(f"{sender!r} sent more tokens than agreed", code="E_SIZE")
        if not parts.complete:
            return []
        tokens = np.frombuffer(b"".join(part.data for part in parts.messages), dtype="S16")
        if (tokens[1:] <= tokens[:-1]).any():
            raise RemoteProtocolError(f"{sender!r} sent tokens that do not rise", code="E_DECLARED")
        parts.messages.clear()
        self._tokens[sender] = tokens
        return [] if self.missing() else self._masks()

    def _masks(self) -> list[m.Envelope]:
        common, *others = (self._tokens[name] for name in self._terms.everybody)
        for other in others:
            common = np.intersect1d(common, other, assume_unique=True)
        self._check_gate(len(common))
        out = []
        for name in self._terms.everybody:
            bits = np.packbits(_contains(common, self._tokens[name])).tobytes()
            for index, total, part in m.cut(bits, _part_bytes(self._terms)):
                out.append(self._to(name, m.AlignMask(index, total, b"", part).with_digest()))
        self.done = True
        return out

    def _check_gate(self, n_common: int) -> None:
        """No answer below the gate: a party that brings one id would learn whether everybody has it.

        Raises:
            VerificationError: E_GATE, before any party has learned anything.
        """
        gates = self._terms.gates
        if gates is not None and min(*map(len, self._tokens.values()), n_common) < gates.min_samples:
            # Neither by how much nor because of whom: that would be an answer too.
            raise VerificationError(
                f"a party brings fewer than {gates.min_samples} samples, or fewer are common to all",
                code="E_GATE",
            )


def _part_bytes(terms: RunTerms) -> int:
    return terms.chunk_bytes - terms.chunk_bytes % TOKEN_BYTES


def _contains(common: Tokens, tokens: Tokens) -> NDArray[np.bool_]:
    """Which of the sorted `tokens` are in the sorted `common`."""
    if not len(common):
        return np.zeros(len(tokens), dtype=bool)
    place = np.minimum(np.searchsorted(common, tokens), len(common) - 1)
    contained: NDArray[np.bool_] = common[place] == tokens
    return contained
