"""One party in one run: drives the role between a journal and two servers.

Killed at any point and started again with the same command, it continues with the same bytes.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from fedvalue import documents, errors
from fedvalue.agreement.run_settings import credentials_of, party_limit, terms_of
from fedvalue.deployment.health import clock_difference
from fedvalue.deployment.network.rpc_client import ServerClient
from fedvalue.deployment.parties.party_journal import RESULT_SCHEMA, PartyJournal, PartyResult
from fedvalue.deployment.parties.scratch import ScratchError
from fedvalue.deployment.parties.server_heads import ServerHeads
from fedvalue.deployment.parties.server_links import ServerLinks
from fedvalue.errors import FedValueError, RemoteProtocolError, TransportError
from fedvalue.identity.audit_log import Receipt
from fedvalue.protocol import codec
from fedvalue.protocol.error_codes import DECEIT, missing_of
from fedvalue.protocol.party_roles import DataParty, PartyRole, TaskParty
from fedvalue.protocol.transitions import State
from fedvalue.untrusted_text import printable

if TYPE_CHECKING:
    from fedvalue.agreement.manifest import Manifest, SignedManifest
    from fedvalue.deployment.network.wire import Standing
    from fedvalue.deployment.parties.party_input import PartyInput
    from fedvalue.deployment.parties.party_store import PartyRunRow, PartyStore
    from fedvalue.identity.cards import Identity
    from fedvalue.protocol.messages import Envelope
    from fedvalue.protocol.outcome import Outcome
    from fedvalue.protocol.samples import Samples

Report = Callable[[str, str], None]
"""Called with (stage, words) as a run proceeds."""

NOT_FINAL = ("E_STORAGE", "E_IDENTITY", "E_MANIFEST", "E_VERSION", "E_UNREACHABLE", "E_BUSY", "E_CLOSED")
"""Failures here, or refused calls, that do not end the run: a full disk, a card that an operator has not
pinned yet. A server's notice that the run is over ends it whatever its code, so that no server can make
us keep the seed."""
_FROM_UPLOAD = (State.UPLOADING, State.AGREEING, State.DONE)
_NOTICE_SECONDS = 15.0
"""How long a failing party tries to tell the servers. Without its notice the others wait for a deadline."""

_KEEP_EVIDENCE = (
    "do not repeat the run before it is known who; keep the audit log and the receipts in the state folder, "
    "check the servers' logs against them with fedvalue audit verify, and ask an auditor"
)


class PartyRun:
    """One party in one run.

    Args:
        identity: Who we are.
        signed: The agreement; verified by the caller.
        given: Our table.
        store: Our database.
        finish: Makes the result from the outcome of a good run.
        report: Called as the run proceeds.
        addresses: host:port of a server, where it differs from the manifest's.
        psk: 32 bytes that all parties share, mixed into every pairwise key.
        before_upload: Called right before anything of our table leaves, and again after a restart. An
            exception ends the run.
        patience: Until when, in seconds since 1970, we agree to wait for late participants; 0: no longer than
            the manifest's deadline.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        identity: Identity,
        signed: SignedManifest,
        given: PartyInput,
        store: PartyStore,
        *,
        finish: Callable[[Outcome], PartyResult],
        report: Report = lambda stage, words: None,
        addresses: dict[str, str] | None = None,
        psk: bytes | None = None,
        before_upload: Callable[[], None] = lambda: None,
        patience: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._identity = identity
        self._signed = signed
        self._manifest = signed.manifest
        self._given = given
        self._finish = finish
        self._report = report
        self._addresses = addresses or {}
        self._psk = psk
        self._before_upload = before_upload
        self._patience = patience
        self._clock = clock
        self._journal = PartyJournal(store, identity, signed.manifest)
        self._heads = ServerHeads(self._manifest, map(Receipt.from_line, self._journal.receipts()))
        self._slots: set[tuple[object, ...]] = set()
        self._uploading = False
        self._final = False
        self._awaited = ""
        self._clocks: set[str] = set()
        self._trouble: list[str] = []

    def run(self) -> PartyResult:
        """Take part until the end and return the result; the stored one if the run is over.

        Raises:
            FedValueError: The run has failed, now or at an earlier start.
        """
        row = self._journal.begin(self._given.digest)
        if row.state == "done":
            assert row.result is not None
            return documents.decode(PartyResult, row.result, schema=RESULT_SCHEMA)
        if row.state == "failed":
            raise stored_failure(row)
        role = party_role(self._identity, self._manifest, self._given.samples, row.seed, self._psk)
        try:
            return self._drive(role)
        except FedValueError as failure:
            error = failure
            if error.code == "E_DEADLINE" and self._trouble:
                # The server that gave up cannot know why the others' messages did not come.
                words = "; ".join([str(error), *self._trouble])
                error = TransportError(words, code=error.code, missing=missing_of(error))
            self._keep_receipts()
            if self._final or error.code not in NOT_FINAL:
                self._journal.failed(error)
                if error.code in DECEIT:
                    self._report("next", f"a server or a party may have cheated: {_KEEP_EVIDENCE}")
                elif self._manifest.expires.timestamp() > time.time():
                    self._report(
                        "next",
                        "the agreement stands until "
                        f"{self._manifest.expires:%Y-%m-%d %H:%M} UTC: when everybody is ready, each party "
                        "repeats the run with the same command and --again",
                    )
            else:
                self._journal.flush()  # it stands, and the same command continues
            raise error from None

    def _drive(self, role: PartyRole) -> PartyResult:
        end = self._clock() + party_limit(self._manifest) + max(0.0, self._patience - time.time())
        links = self._links(role, end)
        counts = dict.fromkeys(role.terms.servers, 0)
        try:
            self._journal.send(role.start(), links.outgoing)
            for server, number, body in self._journal.received():
                counts[server] = number + 1
                self._journal.send(self._feed(role, server, body), links.outgoing)
            self._report(_stage(role), "resumed" if any(counts.values()) else "started")
            links.start(counts)
            while role.state is not State.DONE:
                received = links.next(0.5)
                if received is not None:
                    self._journal.receive(*received)
                    self._step(role, links, received)
                self._check_time(role, links, end)
            assert role.outcome is not None
            result = self._finish(role.outcome)
            self._keep_receipts()
            self._journal.done(result)
            return result
        finally:
            self._trouble = links.trouble
            links.close()

    def _step(self, role: PartyRole, links: ServerLinks, received: tuple[str, int, bytes]) -> None:
        server, _, body = received
        before = role.state
        try:
            replies = self._feed(role, server, body)
        except FedValueError as error:
            if self._final or error.code not in NOT_FINAL:
                self._give_notice(role, links, error)
            raise
        self._keep_receipts()
        self._journal.send(replies, links.outgoing)
        if role.state is not before:
            self._report(_stage(role), "")
            self._awaited = ""

    def _feed(self, role: PartyRole, server: str, body: bytes) -> list[Envelope]:
        """The role's answer to a message. An error of the role ends the run."""
        try:
            envelope = codec.decode(body)
            if envelope.sender != server:
                raise RemoteProtocolError(
                    f"{server!r} sent a message as {envelope.sender!r}", code="E_SENDER"
                )
            self._check_new(server, envelope)
            replies = role.receive(envelope)
        except ScratchError:
            raise  # our own disk, and nothing has left: the same command continues
        except FedValueError:
            self._final = True
            raise
        if not self._uploading and role.state in _FROM_UPLOAD:
            self._before_upload()
            self._uploading = True
        return replies

    def _check_time(self, role: PartyRole, links: ServerLinks, end: float) -> None:
        """End a run that takes too long, also while messages come: a server could send some for ever."""
        if role.state is State.DONE or self._clock() <= end:
            return
        late = TransportError("the servers did not finish in time", code="E_DEADLINE")
        self._give_notice(role, links, late)
        raise late

    def _check_new(self, server: str, envelope: Envelope) -> None:
        """A role ignores a resend. Here it is none: messages are fetched by number, each once.

        What is received is kept until something leaves: a server that repeats itself would fill our memory.
        """
        slot = (server, *envelope.message.slot)
        if slot in self._slots:
            raise RemoteProtocolError(
                f"{server!r} sent a second {type(envelope.message).__name__} in the place of the first",
                code="E_CONFLICT",
            )
        self._slots.add(slot)

    def _give_notice(self, role: PartyRole, links: ServerLinks, error: FedValueError) -> None:
        """Tell the servers that we failed, if they can be reached soon."""
        notices = role.fail(error)
        if notices:
            self._journal.send(notices, links.outgoing)
            links.flush(_NOTICE_SECONDS)

    def _links(self, role: PartyRole, end: float) -> ServerLinks:
        return ServerLinks(
            self._signed.run_id,
            self._signed.to_json().encode(),
            {server: self._client(server) for server in role.terms.servers},
            until=end,
            on_wait=lambda words: self._report("waiting", words),
            on_poll=self._report_awaited,
            patience=self._patience,
            clock=self._clock,
        )

    def _client(self, server: str) -> ServerClient:
        return ServerClient(
            self._identity,
            self._manifest.participant(server),
            self._manifest,
            patience=2.0,
            address=self._addresses.get(server),
            on_standing=self._take_standing,
        )

    def _take_standing(self, server: str, standing: Standing) -> None:
        """Take the receipt, and report a clock that is wrong."""
        self._heads.take(server, standing)
        words = clock_difference(standing.time, f"server {server!r}")
        if words and server not in self._clocks:
            self._clocks.add(server)
            self._report("warning", words)

    def _report_awaited(self, server: str, standing: Standing) -> None:
        """Report whom the computation server waits for, and until when, if that changes."""
        if server != self._manifest.compute.name or standing.state not in ("open", "running"):
            return
        words = printable(standing.reason)
        if words and standing.deadline:
            moment = dt.datetime.fromtimestamp(standing.deadline, dt.UTC)
            start = " to start fedvalue join or run" if standing.state == "open" else ""
            words += f"{start}, until {moment:%Y-%m-%d %H:%M} UTC"
        if words and words != self._awaited:
            self._awaited = words
            self._report("waiting", words)

    def _keep_receipts(self) -> None:
        self._journal.keep_receipts(self._heads.fresh())


def party_role(
    identity: Identity, manifest: Manifest, samples: Samples, seed: bytes, psk: bytes | None = None
) -> PartyRole:
    """The role of a party in the manifest's run."""
    terms, credentials = terms_of(manifest), credentials_of(manifest, identity, seed, psk)
    if identity.card.role == "task":
        return TaskParty(terms, samples=samples, credentials=credentials)
    return DataParty(terms, identity.card.name, samples=samples, credentials=credentials)


def _stage(role: PartyRole) -> str:
    """The role's state; until all parties have come it waits for them."""
    return "waiting" if role.state is State.KEYING else role.state.value


def stored_failure(row: PartyRunRow) -> FedValueError:
    """The failure of an earlier start, again."""
    kind = getattr(errors, row.kind, TransportError)
    advice = _KEEP_EVIDENCE if row.code in DECEIT else "--again repeats it under the same agreement"
    error = kind(f"{row.reason} (this run is over; {advice})", code=row.code)
    assert isinstance(error, FedValueError)
    return error
