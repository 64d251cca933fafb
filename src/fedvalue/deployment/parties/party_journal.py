"""A party's record of one run: what it received and sent, its audit log and its receipts.

Nothing leaves before its fingerprint and every message received until then are on disk. After a restart the
role is fed the same messages and must send the same bytes. A message that nothing was sent after is not
written on its own: its server still has it, and sends it again (`docs/decisions/0417`).
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
    from fedvalue.deployment.parties.server_links import Outgoing, Received
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
        self._n_stored = 0
        self._received: list[Received] = []
        self._receipts: list[Receipt] = []

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
        self._n_stored = len(messages)
        return messages

    def receive(self, server: str, number: int, body: bytes) -> None:
        """Note a message before the role sees it. It is stored with what is written next."""
        self._received.append((server, number, body))

    def send(self, envelopes: Sequence[Envelope], outgoing: Mapping[str, Outgoing]) -> None:
        """Store the fingerprints of messages, and what was received before them, then release them.

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
            self._write(fresh)
        for server in known:
            outgoing[server].release()

    def receipts(self) -> list[str]:
        """The receipts kept so far."""
        return self._store.receipts(self._run_id)

    def keep_receipts(self, receipts: Sequence[Receipt]) -> None:
        """Note signed heads of the servers' logs. They are stored with what is written next."""
        self._receipts += receipts

    def flush(self) -> None:
        """Store what was noted."""
        if self._received or self._receipts:
            self._write(())

    def done(self, result: PartyResult) -> None:
        """The run ended well. The result stays, the seed and all messages are erased."""
        stored = documents.encode(result)
        with self._trail.entries([*self._arrivals(), ("done", sha256_hex(stored))]) as lines:
            self._store.finish(
                self._run_id, state="done", result=stored, receipts=self._receipts, audit=lines
            )
        self._received, self._receipts = [], []

    def failed(self, error: FedValueError) -> None:
        """The run failed. The reason stays, the seed and all messages are erased."""
        with self._trail.entries([*self._arrivals(), (f"failed {error.code}", "")]) as lines:
            self._store.finish(
                self._run_id, state="failed", code=error.code, reason=str(error), kind=type(error).__name__,
                receipts=self._receipts, audit=lines,
            )  # fmt: skip
        self._received, self._receipts = [], []

    def _write(self, sending: Sequence[tuple[str, int, bytes]]) -> None:
        digest = sha256_hex(b"".join(fingerprint for _, _, fingerprint in sending))
        events = [*self._arrivals(), *([("sending", digest)] if sending else [])]
        with self._trail.entries(events) as lines:
            self._store.add(
                self._run_id, k=self._n_stored, received=self._received, sending=sending,
                receipts=self._receipts, audit=lines,
            )  # fmt: skip
        self._n_stored += len(self._received)
        self._received, self._receipts = [], []

    def _arrivals(self) -> list[tuple[str, str]]:
        return [(f"received {server}", sha256_hex(body)) for server, _, body in self._received]


def sha256_hex(data: bytes) -> str:
    """SHA-256 as audit logs have it."""
    return hashlib.sha256(data).hexdigest()
