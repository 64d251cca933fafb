"""Reduction to the common ids, before anything is counted (`align = "intersect"`).

Every party sends each server its ids as tokens under a key of this run and that server, in rising
order. A server intersects all sets and tells each party, one bit per token, which of its own are
common, and how many ids everybody brought. A party learns nothing about ids that it does not have. The
two servers' answers must name the same rows (E_MIRROR). Servers learn how large the sets and their
overlaps are.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import numpy as np
from numpy.typing import NDArray

from fedvalue.crypto import aes, keys
from fedvalue.crypto.permute import row_order
from fedvalue.crypto.sorting import intersect, members, rising
from fedvalue.errors import RemoteProtocolError, VerificationError
from fedvalue.protocol import messages as m
from fedvalue.protocol.keyring import Keyring
from fedvalue.protocol.settings import Settings
from fedvalue.protocol.work import Addressed

TOKEN_BYTES = 16


class PartyAlignment:
    """A party's side: its tokens out, its common rows in."""

    def __init__(
        self, settings: Settings, name: str, ring: Keyring, hashes: aes.Blocks, pins: Mapping[str, bytes]
    ) -> None:
        self._settings = settings
        self._name = name
        self._ring = ring
        self._hashes = hashes
        self._pins = pins
        self._order: dict[str, NDArray[np.int64]] = {}
        self._kept: dict[str, NDArray[np.bool_]] = {}
        self._rows: dict[str, dict[str, int]] = {}

    def begin(self) -> list[Addressed]:
        """Our ids as tokens, for every server."""
        return [item for server in self._settings.servers for item in self._tokens(server)]

    def _tokens(self, server: str) -> list[Addressed]:
        key = self._ring.alignment(server)
        order, ranked = row_order(key, self._hashes)
        self._order[server] = order
        tokens = aes.encrypt(key, ranked)
        size = self._settings.chunk_bytes // TOKEN_BYTES
        total = max(1, -(-len(tokens) // size))
        out: list[Addressed] = []
        for index in range(total):
            data = tokens[index * size : (index + 1) * size].tobytes()
            out.append((server, m.AlignChunk(index, total, m.bulk_digest(index, total, data), data)))
        return out

    def take(self, server: str, answer: m.Aligned) -> bool:
        """A server's answer.

        Returns:
            Whether all servers have answered.

        Raises:
            RemoteProtocolError: Sizes that do not fit (E_DECLARED).
            VerificationError: A wrong signature (E_SIGNATURE).
        """
        content = aligned_digest(answer)
        pin, run_id = self._pins[server], self._settings.run_id
        keys.check_signature(pin, answer.signature, "aligned", run_id, server, self._name, content)
        n = len(self._hashes)
        bits = np.unpackbits(np.frombuffer(answer.common, dtype=np.uint8), bitorder="little")
        fits = len(answer.common) == -(-n // 8) and not bits[n:].any() and bits.sum() == answer.n_common
        if not fits or set(answer.rows) != set(self._settings.everybody) or answer.rows[self._name] != n:
            raise RemoteProtocolError(f"{server!r} answers for other ids than ours", code="E_DECLARED")
        kept = np.zeros(n, dtype=np.bool_)
        kept[self._order[server]] = bits[:n].astype(np.bool_)
        self._kept[server] = kept
        self._rows[server] = answer.rows
        return len(self._kept) == len(self._settings.servers)

    def common(self) -> tuple[NDArray[np.bool_], dict[str, int]]:
        """Which of our rows are common, and how many every party brought.

        Raises:
            VerificationError: The servers disagree (E_MIRROR), or nothing is common (E_POPULATION).
        """
        first, *rest = self._settings.servers
        for server in rest:
            same_rows = np.array_equal(self._kept[first], self._kept[server])
            if not same_rows or self._rows[first] != self._rows[server]:
                raise VerificationError("the two servers found different common ids", code="E_MIRROR")
        if not self._kept[first].any():
            raise VerificationError("the parties have no sample id in common", code="E_POPULATION")
        return self._kept[first], self._rows[first]


class ServerAlignment:
    """A server's side: intersect all parties' tokens."""

    def __init__(self, settings: Settings, server: str, signing_key: bytes) -> None:
        self._settings = settings
        self._server = server
        self._signing_key = signing_key
        self._total: dict[str, int] = {}
        self._tokens: dict[str, list[aes.Blocks]] = {name: [] for name in settings.everybody}
        self.n_common = 0

    def add(self, party: str, chunk: m.AlignChunk) -> bool:
        """Part of a party's tokens.

        Returns:
            Whether all parties' tokens are here.

        Raises:
            RemoteProtocolError: Out of order (E_DECLARED), not whole tokens, or too many (E_SIZE).
        """
        parts = self._tokens[party]
        total = self._total.setdefault(party, chunk.total)
        if chunk.total != total or not chunk.index == len(parts) < total:
            raise RemoteProtocolError(f"{party!r} sent ids out of order", code="E_DECLARED")
        n, rest = divmod(len(chunk.tokens), TOKEN_BYTES)
        if rest or n == 0 or sum(map(len, parts)) + n > self._settings.n_samples:
            raise RemoteProtocolError(f"{party!r} sent no ids, or more than agreed", code="E_SIZE")
        tokens = np.frombuffer(chunk.tokens, dtype="<u8").reshape(n, 2)
        if not rising(tokens if not parts else np.concatenate([parts[-1][-1:], tokens])):
            raise RemoteProtocolError(f"{party!r} sent ids out of order", code="E_DECLARED")
        parts.append(tokens)
        return all(len(self._tokens[name]) == self._total.get(name) for name in self._settings.everybody)

    def results(self) -> list[Addressed]:
        """For every party, which of its tokens are common.

        Raises:
            RemoteProtocolError: None is (E_POPULATION).
        """
        sets = {name: np.concatenate(parts) for name, parts in self._tokens.items()}
        self._tokens = {}
        common, *others = sorted(sets.values(), key=len)
        nothing = np.empty(0, dtype=np.uint64)
        for other in others:
            common, _ = intersect(common, nothing, other, nothing)
        self.n_common = len(common)
        if self.n_common == 0:
            raise RemoteProtocolError("the parties have no sample id in common", code="E_POPULATION")
        rows = {name: len(tokens) for name, tokens in sets.items()}
        return [(name, self._answer(name, rows, members(sets[name], common))) for name in sets]

    def _answer(self, party: str, rows: dict[str, int], found: NDArray[np.bool_]) -> m.Aligned:
        common = np.packbits(found, bitorder="little").tobytes()
        unsigned = m.Aligned(self.n_common, rows, common, bytes(64))
        content = aligned_digest(unsigned)
        run_id = self._settings.run_id
        signature = keys.sign(self._signing_key, "aligned", run_id, self._server, party, content)
        return msgspec.structs.replace(unsigned, signature=signature)


def aligned_digest(answer: m.Aligned) -> bytes:
    """Digest of everything in the answer but its signature."""
    rows = [part for name in sorted(answer.rows) for part in (name.encode(), _number(answer.rows[name]))]
    return keys.digest(_number(answer.n_common), answer.common, *rows)


def _number(n: int) -> bytes:
    return n.to_bytes(8, "big")
