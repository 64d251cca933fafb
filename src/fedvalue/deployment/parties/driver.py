"""A party's side of one run, without I/O: says that it is ready, then drives the protocol's role.

Deterministic like the role: input, seed and received messages in their order give the same
messages again, so that a restart continues where the journal ends.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b, sha256
from typing import TYPE_CHECKING

from fedvalue import errors
from fedvalue.agreement.run_settings import check_gates, check_roster, credentials_of, settings_of
from fedvalue.deployment.evidence import Evidence
from fedvalue.deployment.shell import messages as shell
from fedvalue.deployment.shell.alignment import PartyAlignment
from fedvalue.deployment.shell.base import ShellMessage
from fedvalue.deployment.shell.endorsement import (
    EndorsedTask,
    EndorsingParty,
    SealedEndorsement,
    check_endorsement,
    make_endorsement,
    needed,
)
from fedvalue.errors import FedValueError, RemoteProtocolError, TransportError, VerificationError
from fedvalue.protocol import codec
from fedvalue.protocol import messages as m
from fedvalue.protocol.error_codes import known_names, missing_of, safe_code
from fedvalue.protocol.party_roles import PartyRole
from fedvalue.protocol.transitions import State
from fedvalue.untrusted_text import printable

if TYPE_CHECKING:
    from fedvalue.agreement.manifest import Manifest
    from fedvalue.deployment.parties.party_input import PartyInput
    from fedvalue.identity.cards import Identity
    from fedvalue.protocol.outcome import Outcome
    from fedvalue.protocol.settings import Settings


_MAX_EARLY = 16
"""Messages of one server that may come before the other's roster: its first, and an abort of each party."""


@dataclass(frozen=True, slots=True)
class Parcel:
    """A message on its way to a server, encoded when it leaves."""

    server: str
    content: bytes | m.Envelope = field(repr=False)

    def body(self) -> bytes:
        """The bytes that travel."""
        return b"".join(self.parts())

    def parts(self) -> tuple[bytes | memoryview, ...]:
        """The same in parts that follow each other."""
        return (self.content,) if isinstance(self.content, bytes) else codec.encode_parts(self.content)

    @property
    def fingerprint(self) -> bytes:
        """What the server will file it under."""
        if isinstance(self.content, m.Envelope) and isinstance(self.content.message, m.BulkMessage):
            return self.content.message.fingerprint
        return blake2b(self.body(), digest_size=32).digest()


class PartyDriver:
    """One party in one run.

    Args:
        identity: Who we are.
        manifest: What was agreed; verified by the caller.
        given: Our table.
        seed: 32 secret bytes of this run.
        psk: 32 bytes that all parties share, instead of the key agreement (tests, air-gapped use).
    """

    def __init__(
        self,
        identity: Identity,
        manifest: Manifest,
        given: PartyInput,
        seed: bytes,
        psk: bytes | None = None,
    ) -> None:
        self._psk = psk
        self._identity = identity
        self._manifest = manifest
        self._given = given
        self._seed = seed
        self._rosters: dict[str, dict[str, shell.Ready]] = {}
        self._role: PartyRole | None = None
        self._early: list[tuple[str, bytes]] = []
        self._alignment = (
            PartyAlignment(identity, manifest, given.ids, seed) if manifest.align == "intersect" else None
        )
        self._brought = given.rows
        self.settings: Settings | None = None
        self.evidence = Evidence(manifest)

    @property
    def servers(self) -> tuple[str, ...]:
        """The servers that this run uses."""
        single = self._manifest.protocol == "single"
        return (self._manifest.compute.name,) if single else (
            self._manifest.compute.name, self._manifest.validate.name,
        )  # fmt: skip

    @property
    def stage(self) -> str:
        """Where we are: aligning, waiting, or the role's own state."""
        if self._role is not None:
            return self._role.state.value
        return "waiting" if self._alignment is None else "aligning"

    @property
    def outcome(self) -> Outcome | None:
        """What we have learned; None until the end."""
        return None if self._role is None else self._role.outcome

    @property
    def order(self) -> tuple[str, ...]:
        """The data parties in the servers' order of columns, once the run's key is confirmed."""
        return self._role.order if isinstance(self._role, EndorsedTask | EndorsingParty) else ()

    @property
    def done(self) -> bool:
        """Whether the run has ended well."""
        return self._role is not None and self._role.state is State.DONE

    def begin(self) -> list[Parcel]:
        """Align with the others where that was agreed, else say that we are ready."""
        return self._ready() if self._alignment is None else self._shells(self._alignment.begin())

    def _ready(self) -> list[Parcel]:
        # Salted by the seed, so that nobody can guess a small table from the commitment.
        commitment = sha256(b"fedvalue/1/commitment" + self._seed + self._given.digest).digest()
        ready = shell.make_ready(
            self._identity,
            self._manifest.run_id,
            rows=self._given.rows,
            sizes=self._given.sizes,
            commitment=commitment,
            brought=self._brought,
        )
        return [Parcel(server, shell.encode(ready)) for server in self.servers]

    def feed(self, server: str, body: bytes) -> list[Parcel]:
        """Take one message of a server and return what to send.

        Raises:
            FedValueError: The run is over; `fail` gives the notices.
        """
        if shell.is_shell(body):
            return self._shell(server, shell.decode(body))
        if self._role is None:
            # One server may begin before the other's roster has reached us.
            if len(self._early) >= _MAX_EARLY:
                raise RemoteProtocolError(f"{server!r} sent too much before the beginning", code="E_STATE")
            self._early.append((server, body))
            return []
        envelope = codec.decode(body)
        if envelope.sender != server:
            raise RemoteProtocolError(f"{server!r} sent a message as {envelope.sender!r}", code="E_SENDER")
        self.evidence.received(server, envelope.message)
        return self._endorsed(self._parcels(self._role.receive(envelope)))

    def fail(self, error: FedValueError) -> list[Parcel]:
        """What to send when the run has failed here."""
        if self._role is not None:
            return self._parcels(self._role.fail(error))
        own, run_id = self._identity.card.name, self._manifest.run_id
        abort = m.Abort(safe_code(error), missing_of(error))
        return [Parcel(server, m.Envelope(run_id, own, server, abort)) for server in self.servers]

    def _shell(self, server: str, message: ShellMessage) -> list[Parcel]:
        if isinstance(message, shell.Notice):
            known = {one.name for one in self._manifest.participants}
            raise _notice_error(server, message, known)
        if isinstance(message, SealedEndorsement):
            return self._take_endorsement(server, message)
        if self._alignment is not None:
            return self._align(self._alignment, server, message)
        if not isinstance(message, shell.ReadyRoster) or server in self._rosters:
            raise RemoteProtocolError(f"{server!r} sent a message that is not legal now", code="E_STATE")
        self._rosters[server] = {ready.party: ready for ready in message.readies}
        if len(self._rosters) < len(self.servers):
            return []
        readies, *others = self._rosters.values()
        if any(other != readies for other in others):
            raise VerificationError("the servers relay different rosters", code="E_EQUIVOCATION")
        check_roster(self._manifest, readies)
        self.evidence.roster = tuple(readies.values())
        self.settings = settings_of(self._manifest, readies)
        self._role = self._make_role(self.settings)
        parcels = self._parcels(self._role.start())
        for early_server, body in self._early:
            parcels += self.feed(early_server, body)
        self._early = []
        return parcels

    def _align(self, alignment: PartyAlignment, server: str, message: ShellMessage) -> list[Parcel]:
        parcels = self._shells(alignment.take(server, message))
        rows = alignment.rows
        if rows is None:
            return parcels
        if not len(rows):
            raise VerificationError("the parties have no id in common", code="E_POPULATION")
        self._alignment = None
        self._given = self._given.select(rows)
        check_gates(self._manifest, self._identity.card.name, self._given.rows, self._given.sizes)
        return parcels + self._ready()

    def _shells(self, messages: Sequence[tuple[str, ShellMessage]]) -> list[Parcel]:
        return [Parcel(server, shell.encode(message)) for server, message in messages]

    def _make_role(self, settings: Settings) -> PartyRole:
        samples = self._given.samples
        credentials = credentials_of(self._manifest, self._identity, self._seed, self._psk)
        if self._identity.card.role == "task":
            return EndorsedTask(settings, samples=samples, credentials=credentials)
        return EndorsingParty(settings, self._identity.card.name, samples=samples, credentials=credentials)

    def _endorsed(self, parcels: list[Parcel]) -> list[Parcel]:
        """A data party signs which column is its own, right before it agrees to the release."""
        role, compute = self._role, self._manifest.compute.name
        if not isinstance(role, EndorsingParty) or not needed(self._manifest):
            return parcels
        for k, parcel in enumerate(parcels):
            if isinstance(parcel.content, m.Envelope) and isinstance(parcel.content.message, m.Agree):
                place = role.order.index(self._identity.card.name)
                signed = make_endorsement(
                    self._identity, self._manifest.run_id, place=place, digests=self.evidence.digests
                )
                return [*parcels[:k], Parcel(compute, shell.encode(role.sealed(signed))), *parcels[k:]]
        return parcels

    def _take_endorsement(self, server: str, message: SealedEndorsement) -> list[Parcel]:
        role, legal = self._role, server == self._manifest.compute.name
        if not legal or not isinstance(role, EndorsedTask) or message.party in self.evidence.endorsements:
            raise RemoteProtocolError(f"{server!r} sent a message that is not legal now", code="E_STATE")
        endorsement = role.opened(message)
        check_endorsement(self._manifest, endorsement)
        self.evidence.endorsements[message.party] = endorsement
        return []

    def _parcels(self, envelopes: Sequence[m.Envelope]) -> list[Parcel]:
        for envelope in envelopes:
            self.evidence.sent(envelope.recipient, envelope.message)
        return [Parcel(envelope.recipient, envelope) for envelope in envelopes]


def _notice_error(server: str, notice: shell.Notice, known: Collection[str]) -> FedValueError:
    """A server's reason, as the error that it was there."""
    kind = getattr(errors, notice.kind, RemoteProtocolError)
    if not (isinstance(kind, type) and issubclass(kind, FedValueError)):
        kind = RemoteProtocolError
    words = f"server {server!r}: {printable(notice.reason)}"
    if kind is TransportError:
        return TransportError(words, code=notice.code, missing=known_names(notice.missing, known))
    return kind(words, code=notice.code)
