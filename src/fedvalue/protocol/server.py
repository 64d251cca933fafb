"""The base of all servers: alignment, readiness, sums of shares (`gram`), counts of masked rows (`mirror`).

Under `mirror` nothing leaves a server before both servers have agreed on it (`settlement`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

from fedvalue.errors import FedValueError, RemoteProtocolError
from fedvalue.protocol import messages as m
from fedvalue.protocol.alignment import ServerAlignment
from fedvalue.protocol.chunk_store import ChunkStore, MemoryChunkStore
from fedvalue.protocol.error_codes import missing_of, safe_code
from fedvalue.protocol.gram.gram_sums import GramSums
from fedvalue.protocol.keyring import Credentials
from fedvalue.protocol.mirror.counting import MirrorCounting
from fedvalue.protocol.noisy_release import NoisyRelease
from fedvalue.protocol.outcome import Answer, Valuer
from fedvalue.protocol.readiness import check_equal_rows, check_ready, seals_ranges, settings_of
from fedvalue.protocol.role import Handler, Role
from fedvalue.protocol.settings import Align, ProtocolName, RunTerms, Settings
from fedvalue.protocol.settlement import Settlement
from fedvalue.protocol.transitions import RoleName, State

_COLLECTED: dict[State, type[m.Message]] = {
    State.KEYING: m.EphemeralKey,
    State.READYING: m.Ready,
    State.CONFIRMING: m.Confirm,
    State.AGREEING: m.Agree,
}
"""State -> the message that every party sends once in it."""


class Server(Role):
    """A server of any kind.

    Args:
        terms: The agreed terms.
        credentials: Keys of this server.
        valuer: Computes the answer from the counts (`mirror` with policy `valuation` only).
        store: Keeps chunks until the other parties' arrive (`mirror`, `gram`); memory by default.
        checkpoint: Called between pieces of long work (`gram`); raises to end the run.
    """

    def __init__(
        self,
        terms: RunTerms,
        *,
        credentials: Credentials,
        valuer: Valuer | None = None,
        store: ChunkStore | None = None,
        checkpoint: Callable[[], None] = lambda: None,
    ) -> None:
        name = {
            RoleName.COMPUTATION_SERVER: terms.compute,
            RoleName.VALIDATION_SERVER: terms.validate,
            RoleName.ASSISTING_SERVER: terms.assist,
        }[self.role]
        super().__init__(terms, name, first=self._first_state(terms))
        self._credentials = credentials
        self._valuer = valuer
        self._store = store or MemoryChunkStore()
        self._checkpoint = checkpoint
        self._alignment = ServerAlignment(terms, name) if terms.align is Align.INTERSECT else None
        self._arrived: dict[type[m.Message], dict[str, Any]] = defaultdict(dict)
        self._mirror: MirrorCounting | None = None
        self._gram: GramSums | None = None
        self._settlement: Settlement | None = None
        self._noise: NoisyRelease | None = None

    def _first_state(self, terms: RunTerms) -> State:
        return State.ALIGNING if terms.align is Align.INTERSECT else State.READYING

    def _peers(self) -> tuple[str, ...]:
        return (*self.terms.everybody, *(name for name in self.terms.servers if name != self.name))

    @property
    def other(self) -> str:
        """The other server."""
        return next(name for name in (self.terms.compute, self.terms.validate) if name != self.name)

    def missing(self, party: str) -> list[int]:
        """Indices of the chunks that `party` has declared and not sent yet (`mirror`, `gram`)."""
        uploads = self._gram or self._mirror
        return [] if uploads is None else uploads.missing(party)

    def awaited(self) -> tuple[str, ...]:
        """The participants whose messages this server waits for now.

        Before the uploads, a shell may ask while another thread feeds the role.
        """
        alignment = self._alignment
        if self._state is State.ALIGNING:
            return () if alignment is None else alignment.missing()
        if self._state is State.WRAPPING:
            return (self.terms.task,)
        if self._state in _COLLECTED:
            arrived = self._arrived[_COLLECTED[self._state]]
            return tuple(name for name in self.terms.everybody if name not in arrived)
        if self._state is State.COMPARING:
            return (self.other,)
        return self._late() if self._state is State.UPLOADING else ()

    def _late(self) -> tuple[str, ...]:
        """The parties whose uploads are behind."""
        uploads = self._gram or self._mirror
        if uploads is not None:
            return uploads.late()
        # Token uploads have no declared length: the parties that have sent least are behind.
        sent = dict.fromkeys(self.terms.everybody, 0)
        for sender, *_ in self._seen:
            if sender in sent:
                sent[str(sender)] += 1
        return tuple(name for name in sent if sent[name] < max(sent.values()) or not sent[name])

    def _abort(self, error: FedValueError) -> m.Abort:
        """Servers give their reason: they know sizes and names, and nothing about a row."""
        return m.Abort(safe_code(error), missing_of(error), str(error)[: m.MAX_REASON], type(error).__name__)

    def _handlers(self) -> dict[type[m.Message], tuple[Handler, tuple[str, ...]]]:
        parties = self.terms.everybody
        servers = tuple(name for name in self.terms.servers if name != self.name)
        return {
            m.AlignTokens: (self._align, parties),
            m.Ready: (self._take_ready, parties),
            m.Chunk: (self._take_mirror if self._gram is None else self._take_gram, parties),
            m.Declaration: (self._take_mirror, parties),
            m.ShareKeys: (self._take_mirror, (self.terms.task,)),
            m.CodebookChunk: (self._take_mirror, parties),
            m.ResultCommit: (self._take_settlement, (self.other,)),
            m.ResultOpening: (self._take_settlement, (self.other,)),
            m.GramDeclaration: (self._take_gram, parties),
            m.GramReveal: (self._take_gram, parties),
            **dict.fromkeys(
                (m.GramPledge, m.GramCoin, m.GramSigns, m.GramCheck, m.GramTest), (self._take_gram, servers)
            ),
        }

    def _align(self, sender: str, message: m.AlignTokens) -> list[m.Envelope]:
        assert self._alignment is not None
        masks = self._alignment.take(sender, message)
        if self._alignment.done:
            self._alignment = None
            self._become(State.READYING)
        return masks

    def _take_ready(self, sender: str, message: m.Ready) -> list[m.Envelope]:
        if seals_ranges(self.terms) == isinstance(message.ranges, m.CodeRanges):
            raise RemoteProtocolError(f"{sender!r} did not seal its sizes as agreed", code="E_DECLARED")
        check_ready(self.terms, message, sender, self._credentials.pins[sender])
        readies = self._collect(sender, message)
        if not readies:
            return []
        check_equal_rows(self.terms, self._arrived[m.Ready])
        self._prepare(self._arrived[m.Ready])
        self._become(self._after_ready)
        return self._broadcast(m.ReadyRoster(readies))

    _after_ready = State.UPLOADING
    _after_release = State.DONE

    def _collect(self, sender: str, message: Any) -> tuple[Any, ...]:
        """All parties' messages of this kind, in the parties' order; empty until the last one is here."""
        arrived = self._arrived[type(message)]
        arrived[sender] = message
        if len(arrived) < len(self.terms.everybody):
            return ()
        return tuple(arrived[name] for name in self.terms.everybody)

    def _prepare(self, readies: dict[str, m.Ready]) -> None:
        """All parties are ready: make the part that counts."""
        if self.terms.protocol is ProtocolName.MIRROR:
            n_samples = readies[self.terms.task].rows
            self._mirror = self._make_mirror(n_samples)
            self._settlement = Settlement(self.terms, self.name, self._credentials, n_samples)
            return
        settings = self._settings = settings_of(self.terms, readies)
        if settings.protocol is ProtocolName.GRAM:
            self._gram = self._make_gram(settings)

    def _make_gram(self, settings: Settings) -> GramSums:
        return GramSums(settings, self.name, self._credentials, self._store, self._checkpoint)

    def _take_gram(self, sender: str, message: m.AnyMessage) -> list[m.Envelope]:
        if self._gram is None:
            raise RemoteProtocolError("this run does not use protocol gram", code="E_STATE")
        out = self._gram.take(sender, message)
        if self._gram.released:
            self._gram = None
            self._become(self._after_release)
        return out

    def _make_mirror(self, n_samples: int) -> MirrorCounting:
        return MirrorCounting(self.terms, n_samples, self.name, self._credentials, self._valuer, self._store)

    def _take_mirror(self, sender: str, message: m.AnyMessage) -> list[m.Envelope]:
        if self._mirror is None:
            raise RemoteProtocolError("this run does not use protocol mirror", code="E_STATE")
        if isinstance(message, m.Declaration):
            self._mirror.declare(sender, message)
        elif isinstance(message, m.ShareKeys):
            self._mirror.take_share_keys(message)
        elif isinstance(message, m.CodebookChunk):
            self._mirror.add_book(sender, message)
        else:
            assert isinstance(message, m.Chunk)
            if self._mirror.add(sender, message):
                return self._counted(self._mirror)
        return []

    def _counted(self, mirror: MirrorCounting) -> list[m.Envelope]:
        """All rows are counted: commit to the answer."""
        assert self._settlement is not None
        messages = self._settlement.counted(mirror.answer(), mirror.roots())
        self._become(State.COMPARING)
        return [self._to(self.other, message) for message in messages]

    def _take_settlement(self, sender: str, message: m.ResultCommit | m.ResultOpening) -> list[m.Envelope]:
        if self._settlement is None:
            raise RemoteProtocolError("this run does not use protocol mirror", code="E_STATE")
        if isinstance(message, m.ResultCommit):
            return [self._to(self.other, reply) for reply in self._settlement.committed(message)]
        return self._settled(self._settlement.settled(message))

    def _settled(self, answer: Answer) -> list[m.Envelope]:
        """Both servers agree on this answer: release it, or add noise first."""
        assert self._mirror is not None
        if self._noise is not None:
            self._noise.counted(self._mirror.tables(), self._mirror.privacy())
            return self._continue_noise()
        self._become(self._after_release)
        return self._mirror.release(answer)

    def _continue_noise(self) -> list[m.Envelope]:
        """The next step of the noise, if it is due."""
        raise NotImplementedError

    def _broadcast(self, message: m.AnyMessage) -> list[m.Envelope]:
        return [self._to(name, message) for name in self.terms.everybody]

    def _forget(self) -> None:
        self._mirror = None
        self._settlement = None
        self._gram = None
        self._alignment = None
        self._noise = None


class AssistingServer(Server):
    """The third server of `gram`: adds up its shares, and sees no ids, no codes, no unmasked sums.

    It uses no valuer: under `gram` the parties compute the values.
    """

    role = RoleName.ASSISTING_SERVER
