"""Reducing the parties' tables to their common ids, before a run.

1. The parties agree on a secret that the servers do not have (signed X25519 keys, relayed).
2. Each party sends each server its ids encrypted under a key of that server alone, sorted.
3. Each server tells each party which of its own tokens all parties sent.
4. A party takes the answer only if both servers gave the same rows.

A server learns how many ids each party has and how the encrypted sets overlap. A party learns which
of its own rows are common, and nothing about the others'. One server that lies is found out in
step 4: its tokens have nothing in common with the other server's, so it cannot fit its lie to it.
Both sides are deterministic given a seed and the messages, as the roles are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from fedvalue.crypto import keys
from fedvalue.deployment.shell import align_messages as a
from fedvalue.deployment.shell.base import ShellMessage
from fedvalue.errors import RemoteProtocolError, VerificationError
from fedvalue.identity.cards import verify
from fedvalue.protocol.messages import bulk_digest

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fedvalue.agreement.manifest import Manifest
    from fedvalue.crypto.ids import PackedIds
    from fedvalue.identity.cards import Identity

    Tokens: TypeAlias = NDArray[np.bytes_]
    """Tokens of 16 bytes, dtype S16: fixed length, so that equality means equal bytes."""

Addressed: TypeAlias = tuple[str, ShellMessage]
_WRAP = keys.info("align-secret")


class PartyAlignment:
    """A party's side."""

    def __init__(self, identity: Identity, manifest: Manifest, ids: PackedIds, seed: bytes) -> None:
        self._identity = identity
        self._manifest = manifest
        self._ids = ids
        self._private = keys.subkey(seed, manifest.run_id, "align-private")
        self._salts = keys.subkey(seed, manifest.run_id, "align-salts")
        # Drawn by the task party; the data parties get it sealed.
        self._secret = keys.subkey(seed, manifest.run_id, "align-secret")
        self._peers: dict[str, bytes] = {}
        self._orders: dict[str, NDArray[np.int64]] = {}
        self._bits: dict[str, list[bytes]] = {}
        self._common: dict[str, NDArray[np.int64]] = {}

    @property
    def rows(self) -> NDArray[np.int64] | None:
        """The numbers of our common rows, rising; None until both servers have answered."""
        if len(self._common) < len(self._servers):
            return None
        first, *others = (self._common[server] for server in self._servers)
        if any(not np.array_equal(first, other) for other in others):
            raise VerificationError("the servers name different common rows", code="E_MIRROR")
        return first

    def begin(self) -> list[Addressed]:
        """Our key, for the other parties."""
        public = keys.agreement_public(self._private)
        signature = self._identity.sign("align", self._manifest.run_id + public)
        return [(self._manifest.compute.name, a.AlignKey(self._identity.card.name, public, signature))]

    def take(self, server: str, message: ShellMessage) -> list[Addressed]:
        """A server's message; returns what to send.

        Raises:
            VerificationError: A signature, a seal or the comparison fails.
            RemoteProtocolError: A message that does not fit.
        """
        if isinstance(message, a.AlignRoster) and not self._peers:
            return self._roster(message)
        waiting = bool(self._peers) and not self._orders and self._identity.card.role == "data"
        if isinstance(message, a.AlignSecret) and waiting:
            key = self._pair_key(self._manifest.task.name)
            self._secret = keys.unseal(key, message.wrapped, _WRAP)
            return self._uploads()
        if isinstance(message, a.AlignMask) and server in self._orders and server not in self._common:
            self._mask(server, message)
            return []
        raise RemoteProtocolError(f"{server!r} sent a message that is not legal now", code="E_STATE")

    def _roster(self, roster: a.AlignRoster) -> list[Addressed]:
        manifest = self._manifest
        expected = {manifest.task.name, *(party.name for party in manifest.data)}
        found = {key.party: key for key in roster.keys}
        if set(found) != expected or len(roster.keys) != len(expected):
            raise VerificationError("the roster does not hold every party exactly once", code="E_SENDER")
        for name, key in found.items():
            content = manifest.run_id + key.public_key
            verify(manifest.participant(name).sign_key, "align", content, key.signature, who=name)
            self._peers[name] = key.public_key
        if self._identity.card.role != "task":
            return []
        wrapped = {
            party.name: keys.seal(self._pair_key(party.name), self._secret, _WRAP) for party in manifest.data
        }
        return [(manifest.compute.name, a.AlignSecrets(wrapped)), *self._uploads()]

    def _uploads(self) -> list[Addressed]:
        from fedvalue.crypto.hashing import hash_ids

        found: list[Addressed] = []
        for server in self._servers:
            key = keys.subkey(self._secret, self._manifest.run_id, "align-tokens", server, length=16)
            tokens = np.ascontiguousarray(hash_ids(key, self._ids)).view("S16").ravel()
            order = np.argsort(tokens, kind="stable")
            self._orders[server] = order
            data = tokens[order].tobytes()
            total = max(1, -(-len(data) // a.CHUNK_BYTES))
            for index in range(total):
                part = data[index * a.CHUNK_BYTES : (index + 1) * a.CHUNK_BYTES]
                salt = self._salt(server, index)
                digest = bulk_digest(index, total, salt, part)
                found.append((server, a.AlignTokens(index, total, digest, salt, part)))
        return found

    def _salt(self, server: str, index: int) -> bytes:
        place = index.to_bytes(4, "big")
        return keys.subkey(self._salts, self._manifest.run_id, "align-salt", server, place, length=16)

    def _mask(self, server: str, message: a.AlignMask) -> None:
        parts = self._bits.setdefault(server, [])
        if message.index != len(parts) or message.index >= message.total:
            raise RemoteProtocolError(f"{server!r} sent a mask out of order", code="E_DECLARED")
        order = self._orders[server]
        too_long = sum(map(len, parts)) + len(message.bits) > -(-len(order) // 8)
        if too_long or not message.bits:
            raise RemoteProtocolError(f"the mask of {server!r} has a wrong size", code="E_DECLARED")
        parts.append(message.bits)
        if len(parts) < message.total:
            return
        data = b"".join(parts)
        if len(data) != -(-len(order) // 8):
            raise RemoteProtocolError(f"the mask of {server!r} has a wrong size", code="E_DECLARED")
        kept = np.unpackbits(np.frombuffer(data, np.uint8), count=len(order)).astype(bool)
        self._common[server] = np.sort(order[kept])

    def _pair_key(self, peer: str) -> bytes:
        shared = keys.agreement_secret(self._private, self._peers[peer])
        pair = sorted((peer, self._identity.card.name))
        return keys.hkdf(shared, salt=self._manifest.run_id, info=keys.info("align-pair", *pair))

    @property
    def _servers(self) -> tuple[str, ...]:
        names = (self._manifest.compute.name, self._manifest.validate.name)
        return names[:1] if self._manifest.protocol == "single" else names


class ServerAlignment:
    """A server's side: relays keys (the computation server) and intersects tokens."""

    def __init__(self, manifest: Manifest, role: str) -> None:
        self._manifest = manifest
        self._role = role
        self._parties = (manifest.task.name, *(party.name for party in manifest.data))
        self._keys: dict[str, a.AlignKey] = {}
        self._parts: dict[str, list[bytes]] = {name: [] for name in self._parties}
        self._tokens: dict[str, Tokens] = {}
        self.done = False

    def missing(self) -> tuple[str, ...]:
        """The parties whose message is awaited."""
        if self._role == "compute" and len(self._keys) < len(self._parties):
            return tuple(name for name in self._parties if name not in self._keys)
        return tuple(name for name in self._parties if name not in self._tokens)

    def take(self, sender: str, message: ShellMessage) -> list[Addressed]:
        """A party's message; returns what to send.

        Raises:
            RemoteProtocolError: A message that does not fit.
        """
        if isinstance(message, a.AlignKey) and self._role == "compute" and sender not in self._keys:
            self._keys[sender] = message
            if len(self._keys) < len(self._parties):
                return []
            roster = a.AlignRoster(tuple(self._keys[name] for name in self._parties))
            return [(name, roster) for name in self._parties]
        if (
            isinstance(message, a.AlignSecrets)
            and sender == self._manifest.task.name
            and self._role == "compute"
        ):
            names = {party.name for party in self._manifest.data}
            if set(message.wrapped) != names:
                raise RemoteProtocolError("a secret for every data party is needed", code="E_DECLARED")
            return [(name, a.AlignSecret(wrapped)) for name, wrapped in message.wrapped.items()]
        if isinstance(message, a.AlignTokens) and sender not in self._tokens:
            return self._add(sender, message)
        raise RemoteProtocolError(f"{sender!r} sent a message that is not legal now", code="E_STATE")

    def _add(self, sender: str, message: a.AlignTokens) -> list[Addressed]:
        parts = self._parts[sender]
        if message.index != len(parts) or message.index >= message.total:
            raise RemoteProtocolError(f"{sender!r} sent tokens out of order", code="E_DECLARED")
        limit = a.TOKEN_BYTES * self._manifest.n_samples
        if sum(map(len, parts)) + len(message.data) > limit or len(message.data) % a.TOKEN_BYTES:
            raise RemoteProtocolError(f"{sender!r} sent more tokens than agreed", code="E_SIZE")
        parts.append(message.data)
        if len(parts) < message.total:
            return []
        tokens = np.frombuffer(b"".join(parts), dtype="S16")
        if (tokens[1:] <= tokens[:-1]).any():
            raise RemoteProtocolError(f"{sender!r} sent tokens that are not rising", code="E_DECLARED")
        self._parts[sender] = []
        self._tokens[sender] = tokens
        return self._masks() if len(self._tokens) == len(self._parties) else []

    def _masks(self) -> list[Addressed]:
        first, *others = (self._tokens[name] for name in self._parties)
        common = first
        for other in others:
            common = np.intersect1d(common, other, assume_unique=True)
        self._check_gate(len(common))
        found: list[Addressed] = []
        for name in self._parties:
            bits = np.packbits(_contains(common, self._tokens[name])).tobytes()
            total = max(1, -(-len(bits) // a.CHUNK_BYTES))
            for index in range(total):
                part = bits[index * a.CHUNK_BYTES : (index + 1) * a.CHUNK_BYTES]
                found.append((name, a.AlignMask(index, total, part)))
        self.done = True
        self._tokens = dict.fromkeys(self._parties, np.empty(0, "S16"))
        return found

    def _check_gate(self, n_common: int) -> None:
        """No answer below the gate: who brings one id would learn whether that person is everybody's.

        Raises:
            VerificationError: E_GATE, before any party has learned anything.
        """
        least = self._manifest.min_samples
        if self._manifest.research:
            return
        if min(map(len, self._tokens.values())) < least or n_common < least:
            # Not by how much, and not who: that would be an answer too.
            raise VerificationError(
                f"a party brings fewer than {least} samples, or fewer are common to all", code="E_GATE"
            )


def _contains(common: Tokens, tokens: Tokens) -> NDArray[np.bool_]:
    """Which of the sorted `tokens` are in the sorted `common`."""
    if not len(common):
        return np.zeros(len(tokens), dtype=bool)
    place = np.minimum(np.searchsorted(common, tokens), len(common) - 1)
    found: NDArray[np.bool_] = common[place] == tokens
    return found
