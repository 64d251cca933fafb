"""The parties' side of a run: key agreement, the protocol's work, agreement on the results.

What differs between `mirror` and the paper's protocols is a `Work` object; what differs between the
task party and a data party is who draws the run's key. Everything else is here, once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedvalue.crypto import keys
from fedvalue.crypto.hashing import multiset_hash
from fedvalue.errors import InputError, VerificationError
from fedvalue.protocol import messages as m
from fedvalue.protocol.key_agreement import KeyAgreement, one_per_party
from fedvalue.protocol.keyring import Credentials
from fedvalue.protocol.mirror.naming import label_name
from fedvalue.protocol.mirror.upload import MirrorWork
from fedvalue.protocol.outcome import Addressed, Outcome, Work
from fedvalue.protocol.role import Handler, Role
from fedvalue.protocol.samples import CodedColumn, HashedSamples, MemoryHashed, MemorySamples, Samples
from fedvalue.protocol.settings import ProtocolName, Settings
from fedvalue.protocol.tokens import queries
from fedvalue.protocol.tokens.asking import TokenWork
from fedvalue.protocol.transitions import RoleName, State

if TYPE_CHECKING:
    from fedvalue.protocol.keyring import Keyring


class PartyRole(Role):
    """What the task party and the data parties share.

    Refuses a wrong number of rows and other code ranges than agreed in the constructor (InputError),
    before any byte is sent. Duplicate ids show when the rows are first sorted (InputError).
    """

    def __init__(
        self,
        settings: Settings,
        name: str,
        *,
        samples: Samples,
        columns: dict[str, int],
        credentials: Credentials,
    ) -> None:
        super().__init__(settings, name, first=State.KEYING)
        if name not in settings.everybody:
            raise InputError(f"{name!r} is not a party of this run")
        n, sizes = settings.n_samples, tuple(columns.values())
        if samples.n_samples != n:
            raise InputError(f"party {name!r}: expected {n} sample ids, got {samples.n_samples}")
        if samples.sizes != sizes:
            raise InputError(f"party {name!r}: expected code ranges {sizes}, got {samples.sizes}")
        if settings.protocol is not ProtocolName.MIRROR:
            queries.check_budget(settings)
            if not isinstance(samples, MemorySamples):
                raise InputError(f"{settings.protocol.value!r} needs all samples in memory")
        self._samples = samples
        self._columns = columns
        self._credentials = credentials
        self._agreement = KeyAgreement(settings, name, credentials, samples.digest)
        self._ring: Keyring | None = None
        self._hashes: HashedSamples | None = None
        self._population = b""
        self._work: Work | None = None
        self._outcome: Outcome | None = None

    @property
    def outcome(self) -> Outcome | None:
        """What this party has learned; None until the state is DONE."""
        return self._outcome if self._state is State.DONE else None

    def _peers(self) -> tuple[str, ...]:
        return self.settings.servers

    def _begin(self) -> list[m.Envelope]:
        return [self._to(self.settings.compute, self._agreement.hello())]

    def _handlers(self) -> dict[type[m.Message], tuple[Handler, tuple[str, ...]]]:
        relay = (self.settings.compute,)
        return {
            m.KeyRoster: (self._take_keys, relay),
            m.WrappedKey: (self._take_run_key, relay),
            m.ConfirmRoster: (self._take_confirms, relay),
            m.QueryCount: (self._take_result, self.settings.servers),
            m.ResultChunk: (self._take_result, self.settings.servers),
            m.ResultSeal: (self._take_result, self.settings.servers),
            m.AgreeRoster: (self._take_agrees, relay),
        }

    def _take_keys(self, sender: str, message: m.AnyMessage) -> list[m.Envelope]:
        raise NotImplementedError

    def _take_run_key(self, sender: str, message: m.AnyMessage) -> list[m.Envelope]:
        raise NotImplementedError

    def _confirm(self, run_key: bytes) -> m.Envelope:
        """Hash our ids under the run's key, and confirm key and population to the others."""
        ring = self._agreement.keyring(run_key)
        self._hashes = self._samples.hashed(ring.ids())
        total = multiset_hash(ring.population_blocks(), self._hashes.blocks())
        self._population = ring.population(self._samples.n_samples, total)
        self._ring = ring
        self._become(State.CONFIRMING)
        return self._to(self.settings.compute, self._agreement.confirm(ring, self._population))

    def _take_confirms(self, sender: str, message: m.AnyMessage) -> list[m.Envelope]:
        assert isinstance(message, m.ConfirmRoster)
        assert self._ring is not None
        assert self._hashes is not None
        self._agreement.check_confirms(self._ring, self._population, message)
        self._work = self._make_work(self._ring, self._hashes)
        self._hashes = None
        self._become(State.UPLOADING)
        return self._addressed(self._work.begin())

    def _make_work(self, ring: Keyring, hashes: HashedSamples) -> Work:
        if self.settings.protocol is ProtocolName.MIRROR:
            return MirrorWork(
                self.settings,
                self.name,
                ring,
                samples=hashes,
                marginals=dict(zip(self._columns, self._samples.marginals, strict=True)),
                credentials=self._credentials,
            )
        assert isinstance(hashes, MemoryHashed)
        assert hashes.whole is not None
        columns = [
            CodedColumn(name, codes, size)
            for (name, size), codes in zip(self._columns.items(), hashes.whole.codes, strict=True)
        ]
        return TokenWork(
            self.settings,
            self.name,
            ring,
            hashes=hashes.whole.hashes,
            columns=columns,
            credentials=self._credentials,
        )

    def _take_result(self, sender: str, message: m.AnyMessage) -> list[m.Envelope]:
        assert self._work is not None
        assert self._ring is not None
        out = self._addressed(self._work.take(sender, message))
        if self._work.complete:
            self._become(State.AGREEING)
            digests = self._work.digests()
            mac = _agree_mac(self._ring, self.name, digests)
            out.append(self._to(self.settings.compute, m.Agree(self.name, digests, mac)))
        return out

    def _take_agrees(self, sender: str, message: m.AnyMessage) -> list[m.Envelope]:
        """Release only after every party has seen and accepted the same."""
        assert isinstance(message, m.AgreeRoster)
        assert self._work is not None
        assert self._ring is not None
        agrees = {agree.party: agree for agree in message.agrees}
        one_per_party(self.settings, agrees, len(message.agrees))
        own = self._work.digests()
        for name, agree in agrees.items():
            keys.check_mac(_agree_mac(self._ring, name, agree.digests), agree.mac, who=name)
            if name != self.name and agree.digests.get(self.name) != own[name]:
                raise VerificationError(
                    f"a server told {name!r} and {self.name!r} different things", code="E_EQUIVOCATION"
                )
        self._outcome = self._work.outcome()
        self._become(State.DONE)
        self._forget()
        return []

    def _addressed(self, messages: list[Addressed]) -> list[m.Envelope]:
        return [self._to(recipient, message) for recipient, message in messages]

    def _forget(self) -> None:
        self._agreement.forget()
        self._ring = None
        self._hashes = None
        self._work = None


class DataParty(PartyRole):
    """A data party: its codes stay here; what leaves is masked or encrypted.

    Args:
        settings: What was agreed.
        name: The party.
        samples: Its ids and its joint code per sample.
        credentials: Its keys.
    """

    role = RoleName.DATA_PARTY

    def __init__(self, settings: Settings, name: str, *, samples: Samples, credentials: Credentials) -> None:
        if name not in settings.parties:
            raise InputError(f"{name!r} is not a data party of this run")
        size = settings.n_codes[settings.parties.index(name)]
        super().__init__(settings, name, samples=samples, columns={name: size}, credentials=credentials)

    def _take_keys(self, sender: str, message: m.AnyMessage) -> list[m.Envelope]:
        assert isinstance(message, m.KeyRoster)
        self._agreement.take_roster(message)
        self._become(State.WRAPPING)
        return []

    def _take_run_key(self, sender: str, message: m.AnyMessage) -> list[m.Envelope]:
        assert isinstance(message, m.WrappedKey)
        return [self._confirm(self._agreement.open_run_key(message.wrapped))]


class TaskParty(PartyRole):
    """The task party: holds X_t and Y, draws the run's key, sees all values.

    Args:
        settings: What was agreed.
        samples: Its ids, and two columns: the code of X_t (all zero when it has no features) and of Y.
        credentials: Its keys.
    """

    role = RoleName.TASK_PARTY

    def __init__(self, settings: Settings, *, samples: Samples, credentials: Credentials) -> None:
        columns = {settings.task: settings.n_task_codes, label_name(settings): settings.n_label_codes}
        super().__init__(settings, settings.task, samples=samples, columns=columns, credentials=credentials)

    def _take_keys(self, sender: str, message: m.AnyMessage) -> list[m.Envelope]:
        assert isinstance(message, m.KeyRoster)
        self._agreement.take_roster(message)
        run_key, wrapped = self._agreement.draw_run_key()
        return [self._to(self.settings.compute, wrapped), self._confirm(run_key)]


def _agree_mac(ring: Keyring, party: str, digests: dict[str, bytes]) -> bytes:
    parts = [part for peer in sorted(digests) for part in (peer.encode(), digests[peer])]
    return keys.mac(ring.agree(), "agree", party, *parts)
