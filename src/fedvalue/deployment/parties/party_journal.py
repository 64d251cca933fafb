"""A party's record of one run: what it received and sent, its audit log and its receipts.

Nothing leaves before its fingerprint is on disk, and nothing reaches the role before it is stored.
After a restart the role is fed the same messages and must send the same bytes.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from fedvalue import documents
from fedvalue.agreement.run_settings import party_limit
from fedvalue.deployment.audit_trail import AuditTrail
from fedvalue.deployment.valuation_certificate import Certificate
from fedvalue.documents import Document
from fedvalue.errors import ConfigError, FedValueError
from fedvalue.valuation.result import Valuation

if TYPE_CHECKING:
    from fedvalue.agreement.manifest import Manifest
    from fedvalue.deployment.parties.party_store import PartyRunRow, PartyStore
    from fedvalue.deployment.parties.server_links import Outgoing
    from fedvalue.identity.audit_log import Receipt
    from fedvalue.identity.cards import Identity
    from fedvalue.protocol.messages import Envelope


RESULT_SCHEMA = "fedvalue.party-result/1"


class PartyResult(Document, frozen=True, kw_only=True, tag_field="schema", tag=RESULT_SCHEMA):
    """What a party keeps of a good run, as its journal stores it.

    Args:
        valuation: What the party learned; None if the agreement gives it no values.
        certificate: The proof of it, for the task party.
    """

    valuation: Valuation | None
    certificate: Certificate | None = None


class PartyJournal:
    """One run of one party. Used by the thread that drives the run alone."""

    def __init__(self, store: PartyStore, identity: Identity, manifest: Manifest) -> None:
        self._store = store
        self._manifest = manifest
        self._run_id = manifest.run_id
        self._trail = AuditTrail(identity, self._run_id, store.audit(self._run_id))
        self._n_received = 0

    def begin(self, digest: bytes) -> PartyRunRow:
        """The run, new or from an earlier start. `digest` is that of our table.

        Raises:
            ConfigError: E_CONFLICT: it was begun with another table.
        """
        expires = self._manifest.expires.timestamp() + party_limit(self._manifest)
        return self._store.begin(self._run_id, seed=secrets.token_bytes(32), digest=digest, expires=expires)

    def received(self) -> list[tuple[str, int, bytes]]:
        """Every message received at an earlier start: server, number, body."""
        messages = self._store.inbox(self._run_id)
        self._n_received = len(messages)
        return messages

    def receive(self, server: str, number: int, body: bytes) -> None:
        """Store a message before the role sees it."""
        with self._trail.entry(f"received {server}", sha256_hex(body)) as line:
            self._store.receive(self._run_id, self._n_received, server, number, body, [line])
        self._n_received += 1

    def send(self, envelopes: Sequence[Envelope], outgoing: Mapping[str, Outgoing]) -> None:
        """Store the fingerprints of messages, then release them.

        Raises:
            ConfigError: E_CONFLICT: an earlier start sent other bytes. Nothing more leaves.
        """
        fresh: list[tuple[str, int, bytes]] = []
        servers = {envelope.recipient for envelope in envelopes}
        known = {server: self._store.sent(self._run_id, server) for server in servers}
        for envelope in envelopes:
            server, fingerprint = envelope.recipient, envelope.message.fingerprint
            queue = outgoing[server]
            number, earlier = len(queue), known[server]
            if number >= len(earlier):
                fresh.append((server, number, fingerprint))
            elif earlier[number] != fingerprint:
                raise ConfigError(
                    f"message {number} to {server!r} differs from the one sent before the "
                    "restart; nothing more is sent",
                    code="E_CONFLICT",
                )
            queue.append(envelope)
        if fresh:
            digest = sha256_hex(b"".join(fingerprint for _, _, fingerprint in fresh))
            with self._trail.entry("sending", digest) as line:
                self._store.send(self._run_id, fresh, [line])
        for server in known:
            outgoing[server].release()

    def receipts(self) -> list[str]:
        """The receipts kept so far."""
        return self._store.receipts(self._run_id)

    def keep_receipts(self, receipts: Sequence[Receipt]) -> None:
        """Keep signed heads of the servers' logs."""
        self._store.keep_receipts(self._run_id, receipts)

    def done(self, result: PartyResult) -> None:
        """The run ended well. The result stays, the seed and all messages are erased."""
        stored = documents.encode(result)
        with self._trail.entry("done", sha256_hex(stored)) as line:
            self._store.finish(self._run_id, state="done", result=stored, audit=[line])

    def failed(self, error: FedValueError) -> None:
        """The run failed. The reason stays, the seed and all messages are erased."""
        with self._trail.entry(f"failed {error.code}") as line:
            self._store.finish(
                self._run_id, state="failed", code=error.code, reason=str(error), kind=type(error).__name__,
                audit=[line],
            )  # fmt: skip


def sha256_hex(data: bytes) -> str:
    """SHA-256 as audit logs have it."""
    return hashlib.sha256(data).hexdigest()
