"""The parties' side of a run: keys, alignment, readiness, the protocol's work, agreement on the results.

Each protocol has its own `Work`; the task party draws the run's key, and data parties receive it. Everything
else is the same for all parties.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

import msgspec

from fedvalue.crypto import keys
from fedvalue.crypto.hashing import multiset_hash
from fedvalue.errors import InputError, VerificationError
from fedvalue.protocol import messages as m
from fedvalue.protocol.alignment import PartyAlignment
from fedvalue.protocol.endorsement import (
    Endorsement,
    check_endorsements,
    open_endorsement,
    sealed_endorsement,
)
from fedvalue.protocol.gram.gram_upload import GramWork
from fedvalue.protocol.key_agreement import KeyAgreement, one_per_party
from fedvalue.protocol.keyring import Credentials
from fedvalue.protocol.mirror.naming import label_name
from fedvalue.protocol.mirror.upload import MirrorWork
from fedvalue.protocol.outcome import Evidence, Outcome
from fedvalue.protocol.readiness import check_own_gates, check_roster, make_ready, opened_ready, settings_of
from fedvalue.protocol.role import Handler, Role
from fedvalue.protocol.samples import CodedColumn, HashedSamples, MemoryHashed, MemorySamples, Samples
from fedvalue.protocol.settings import Align, ProtocolName, RunTerms
from fedvalue.protocol.signed_results import Work
from fedvalue.protocol.tokens import queries
from fedvalue.protocol.tokens.asking import TokenWork
from fedvalue.protocol.transitions import RoleName, State

if TYPE_CHECKING:
    from fedvalue.protocol.keyring import Keyring


class PartyRole(Role):
    """Base of the task party and the data parties.

    The constructor refuses a wrong number of rows (InputError), before any byte is sent. Duplicate ids show
    when the rows are first sorted (InputError).
    """

    mirror_work: ClassVar[type[MirrorWork]] = MirrorWork
    """A party's work under `mirror`; the drill replaces it with work that cheats."""
    token_work: ClassVar[type[TokenWork]] = TokenWork
    """A party's work under `single` and `paper`."""

    def __init__(
        self,
        terms: RunTerms,
        name: str,
        *,
        samples: Samples,
        columns: tuple[str, ...],
        credentials: Credentials,
    ) -> None:
        super().__init__(terms, name, first=State.KEYING)
        if len(samples.sizes) != len(columns):
            raise InputError(f"party {name!r}: expected {len(columns)} columns, got {len(samples.sizes)}")
        streamed = terms.protocol in (ProtocolName.MIRROR, ProtocolName.GRAM)
        if not streamed and not isinstance(samples, MemorySamples):
            raise InputError(f"{terms.protocol.value!r} needs all samples in memory")
        n = samples.n_samples
        if n > terms.max_samples or (terms.align is Align.EQUAL and n != terms.max_samples):
            raise InputError(
                f"party {name!r}: expected {terms.max_samples} samples, got {n}", code="E_POPULATION"
            )
        self._samples = samples
        self._brought = n
        self._columns = columns
        self._credentials = credentials
        self._agreement = KeyAgreement(terms, name, credentials, samples.digest)
        self._alignment: PartyAlignment | None = None
        self._rosters: dict[str, m.ReadyRoster] = {}
        self._readies: dict[str, m.Ready] = {}
        self._ring: Keyring | None = None
        self._hashes: HashedSamples | None = None
        self._population = b""
        self._work: Work | None = None
        self._outcome: Outcome | None = None

    @property
    def outcome(self) -> Outcome | None:
        """The party's result; None until the state is DONE."""
        return self._outcome if self._state is State.DONE else None

    def _peers(self) -> tuple[str, ...]:
        return self.terms.servers

    def _begin(self) -> list[m.Envelope]:
        return [self._to(self.terms.compute, self._agreement.hello())]

    def _handlers(self) -> dict[type[m.Message], tuple[Handler, tuple[str, ...]]]:
        relay, servers = (self.terms.compute,), self.terms.servers
        return {
            m.KeyRoster: (self._take_keys, relay),
            m.AlignMask: (self._take_mask, servers),
            m.ReadyRoster: (self._take_readies, servers),
            m.ConfirmRoster: (self._take_confirms, relay),
            m.SealedCodebook: (self._take_result, relay),
            **dict.fromkeys(
                (m.QueryCount, m.ResultChunk, m.ResultSeal, m.GramCommitment), (self._take_result, servers)
            ),
            m.AgreeRoster: (self._take_agrees, relay),
        }

    # Keys, alignment, readiness.

    def _take_keys(self, sender: str, message: m.KeyRoster) -> list[m.Envelope]:
        raise NotImplementedError

    def _keyed(self) -> list[m.Envelope]:
        """K_run is known: align ids if that was agreed, otherwise report ready."""
        if self.terms.align is Align.EQUAL:
            return self._ready()
        ids = self._samples.ids_in_batches()
        self._alignment = PartyAlignment(self.terms, self.name, ids, self._agreement.alignment())
        self._become(State.ALIGNING)
        return self._alignment.begin()

    def _take_mask(self, sender: str, message: m.AlignMask) -> list[m.Envelope]:
        assert self._alignment is not None
        self._alignment.take(sender, message)
        rows = self._alignment.rows
        if rows is None:
            return []
        self._alignment = None
        self._samples = self._samples.select(rows)
        return self._ready()

    def _ready(self) -> list[m.Envelope]:
        check_own_gates(self.terms, self.name, self._samples)
        ready = make_ready(
            self.terms,
            self.name,
            self._samples,
            brought=self._brought,
            credentials=self._credentials,
            run_key=self._agreement.run_key,
        )
        self._become(State.READYING)
        return [self._to(server, ready) for server in self.terms.servers]

    def _take_readies(self, sender: str, message: m.ReadyRoster) -> list[m.Envelope]:
        """When every server has relayed the same Readies: the settings, all keys, and our confirmation."""
        self._rosters[sender] = message
        if len(self._rosters) < len(self.terms.servers):
            return []
        roster, *others = self._rosters.values()
        if any(other != roster for other in others):
            raise VerificationError("the servers relay different rosters", code="E_EQUIVOCATION")
        readies = one_per_party(
            self.terms, [opened_ready(self.terms, ready, self._agreement.run_key) for ready in roster.readies]
        )
        check_roster(self.terms, readies, self._credentials.pins)
        settings = self._settings = settings_of(self.terms, readies)
        if settings.protocol in (ProtocolName.SINGLE, ProtocolName.PAPER):
            queries.check_budget(settings)
        self._readies = readies
        ring = self._ring = self._agreement.keyring(settings, readies)
        self._hashes = self._samples.hashed(ring.ids())
        total = multiset_hash(ring.population_blocks(), self._hashes.blocks())
        self._population = ring.population(self._samples.n_samples, total)
        self._become(State.CONFIRMING)
        return [self._to(self.terms.compute, self._agreement.confirm(ring, self._population))]

    def _take_confirms(self, sender: str, message: m.ConfirmRoster) -> list[m.Envelope]:
        assert self._ring is not None
        assert self._hashes is not None
        self._agreement.check_confirms(self._ring, self._population, message)
        self._work = self._make_work(self._ring, self._hashes)
        self._hashes = None
        self._become(State.UPLOADING)
        return self._work.begin()

    # Work and agreement.

    def _make_work(self, ring: Keyring, hashes: HashedSamples) -> Work:
        if self.settings.protocol is ProtocolName.MIRROR:
            return self.mirror_work(
                self.settings,
                self.name,
                ring,
                samples=self._samples,
                hashed=hashes,
                credentials=self._credentials,
            )
        if self.settings.protocol is ProtocolName.GRAM:
            return GramWork(
                self.settings,
                self.name,
                ring,
                samples=hashes,
                columns=list(zip(self._samples.codebooks, self._samples.sizes, strict=True)),
                credentials=self._credentials,
            )
        assert isinstance(hashes, MemoryHashed)
        assert hashes.whole is not None
        columns = zip(
            self._columns, hashes.whole.codes, self._samples.sizes, self._samples.codebooks, strict=True
        )
        return self.token_work(
            self.settings,
            self.name,
            ring,
            hashes=hashes.whole.hashes,
            columns=[CodedColumn(*column) for column in columns],
            credentials=self._credentials,
        )

    def _take_result(self, sender: str, message: m.AnyMessage) -> list[m.Envelope]:
        assert self._work is not None
        out = self._work.take(sender, message)
        if self._work.complete:
            self._become(State.AGREEING)
            out.append(self._to(self.terms.compute, self._agree(self._work)))
        return out

    def _agree(self, work: Work) -> m.Agree:
        assert self._ring is not None
        draft = m.Agree(self.name, work.digests(), self._endorsement(work), b"")
        return msgspec.structs.replace(draft, mac=_agree_mac(self._ring, draft))

    def _endorsement(self, work: Work) -> bytes:
        """A data party's signed statement about its column; empty where columns have names."""
        return b""

    def _take_agrees(self, sender: str, message: m.AgreeRoster) -> list[m.Envelope]:
        """Release only after every party has seen and accepted the same."""
        assert self._work is not None
        assert self._ring is not None
        agrees = one_per_party(self.terms, message.agrees)
        digests = self._work.digests()
        for name, agree in agrees.items():
            keys.check_mac(_agree_mac(self._ring, agree), agree.mac, who=name)
            if name != self.name and agree.digests.get(self.name) != digests[name]:
                raise VerificationError(
                    f"a server showed {name!r} and {self.name!r} different things", code="E_EQUIVOCATION"
                )
        evidence = Evidence(
            roster=tuple(self._readies[name] for name in self.terms.everybody),
            results=self._work.results(),
            endorsements=self._endorsements(self._work, agrees),
        )
        self._outcome = replace(self._work.outcome(), evidence=evidence)
        self._become(State.DONE)
        self._forget()
        return []

    def _endorsements(self, work: Work, agrees: Mapping[str, m.Agree]) -> tuple[Endorsement, ...]:
        """The data parties' signed statements about their columns, for the task party."""
        return ()

    def _forget(self) -> None:
        self._agreement.forget()
        self._alignment = None
        self._ring = None
        self._hashes = None
        self._work = None


class DataParty(PartyRole):
    """A data party: its codes stay here, and everything that leaves is masked or encrypted.

    `samples` are its ids and its joint code per sample.
    """

    role = RoleName.DATA_PARTY

    def __init__(self, terms: RunTerms, name: str, *, samples: Samples, credentials: Credentials) -> None:
        if name not in terms.parties:
            raise InputError(f"{name!r} is not a data party of this run")
        super().__init__(terms, name, samples=samples, columns=(name,), credentials=credentials)

    def _handlers(self) -> dict[type[m.Message], tuple[Handler, tuple[str, ...]]]:
        return super()._handlers() | {m.WrappedKey: (self._take_run_key, (self.terms.compute,))}

    def _take_keys(self, sender: str, message: m.KeyRoster) -> list[m.Envelope]:
        self._agreement.take_roster(message)
        self._become(State.WRAPPING)
        return []

    def _take_run_key(self, sender: str, message: m.WrappedKey) -> list[m.Envelope]:
        self._agreement.open_run_key(message.wrapped)
        return self._keyed()

    def _endorsement(self, work: Work) -> bytes:
        if self.name not in work.order:
            return b""
        assert self._ring is not None
        place, digests = work.order.index(self.name), work.signed_digests
        return sealed_endorsement(self.terms, self.name, place, digests, self._credentials, self._ring)


class TaskParty(PartyRole):
    """The task party: holds X_t and Y, draws the run's key, sees all values.

    `samples` are its ids and two columns: the code of X_t (all zero when it has no features) and of Y.
    """

    role = RoleName.TASK_PARTY

    def __init__(self, terms: RunTerms, *, samples: Samples, credentials: Credentials) -> None:
        columns = (terms.task, label_name(terms))
        super().__init__(terms, terms.task, samples=samples, columns=columns, credentials=credentials)

    def _take_keys(self, sender: str, message: m.KeyRoster) -> list[m.Envelope]:
        self._agreement.take_roster(message)
        wrapped = self._to(self.terms.compute, self._agreement.draw_run_key())
        return [wrapped, *self._keyed()]

    def _endorsements(self, work: Work, agrees: Mapping[str, m.Agree]) -> tuple[Endorsement, ...]:
        if not work.order:
            return ()
        assert self._ring is not None
        digests = work.signed_digests
        signed = tuple(
            open_endorsement(name, agrees[name].endorsement, digests, self._ring)
            for name in self.terms.parties
        )
        # Results that cannot be proved later are not released.
        check_endorsements(self.terms, signed, work.order, digests, self._credentials.pins)
        return signed


def _agree_mac(ring: Keyring, agree: m.Agree) -> bytes:
    parts = [part for peer in sorted(agree.digests) for part in (peer.encode(), agree.digests[peer])]
    return keys.mac(ring.agree(), "agree", agree.party, *parts, agree.endorsement)
