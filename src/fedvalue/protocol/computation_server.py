"""The computation server's side of a run: relay of the parties' messages, and counting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from fedvalue.errors import RemoteProtocolError
from fedvalue.protocol import messages as m
from fedvalue.protocol.chunk_store import ChunkStore
from fedvalue.protocol.keyring import Credentials
from fedvalue.protocol.noisy_release import CommittingRelease
from fedvalue.protocol.outcome import Answer, Valuer
from fedvalue.protocol.role import Handler
from fedvalue.protocol.server import Server
from fedvalue.protocol.settings import ProtocolName, RunTerms, Settings
from fedvalue.protocol.shared_codebooks import CodebookRelay, shares_codebooks
from fedvalue.protocol.tokens.intersecting import TokenCounting
from fedvalue.protocol.transitions import RoleName, State

Relayed = TypeVar("Relayed", m.EphemeralKey, m.Confirm, m.Agree)


class ComputationServer(Server):
    """Relays keys it cannot read, and counts tokens or masked sums: no ids, no codes, no labels."""

    role = RoleName.COMPUTATION_SERVER

    _tokens: TokenCounting | None = None
    _noise: CommittingRelease | None = None
    _codebooks: CodebookRelay | None = None

    def __init__(
        self,
        terms: RunTerms,
        *,
        credentials: Credentials,
        valuer: Valuer | None = None,
        store: ChunkStore | None = None,
        checkpoint: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(terms, credentials=credentials, valuer=valuer, store=store, checkpoint=checkpoint)
        self._relayed: dict[type[m.Message], dict[str, Any]] = {}

    _after_ready = State.CONFIRMING
    _after_sums = State.AGREEING

    def _prepare(self) -> None:
        super()._prepare()
        if self.terms.epsilon is not None and self.terms.protocol is ProtocolName.MIRROR:
            self._noise = CommittingRelease(self.terms, self.name, self._credentials.seed)
        if shares_codebooks(self.terms):
            self._codebooks = CodebookRelay(self.terms)
        if self.terms.protocol in (ProtocolName.SINGLE, ProtocolName.PAPER):
            self._tokens = self._make_tokens(self.settings)

    def _make_tokens(self, settings: Settings) -> TokenCounting:
        return TokenCounting(settings, self._credentials)

    def awaited(self) -> tuple[str, ...]:
        """The participants whose messages this server waits for now."""
        if self._state is State.WRAPPING:
            return (self.terms.task,)
        waits_for: dict[State, type[m.Message]] = {
            State.KEYING: m.EphemeralKey,
            State.CONFIRMING: m.Confirm,
            State.AGREEING: m.Agree,
        }
        if self._state in waits_for:
            arrived = self._relayed.get(waits_for[self._state], {})
            return tuple(name for name in self.terms.everybody if name not in arrived)
        return super().awaited()

    def _first_state(self, terms: RunTerms) -> State:
        return State.KEYING

    def _handlers(self) -> dict[type[m.Message], tuple[Handler, tuple[str, ...]]]:
        parties, task = self.terms.everybody, (self.terms.task,)
        return {
            **self._early_handlers(),
            **self._gram_handlers(),
            m.EphemeralKey: (self._relay_key, parties),
            m.WrappedKeys: (self._relay_run_key, task),
            m.Confirm: (self._relay_confirm, parties),
            m.Declaration: (self._take_mirror, parties),
            m.ShareKeys: (self._take_mirror, task),
            m.CodebookChunk: (self._take_mirror, parties),
            m.SealedCodebook: (self._relay_codebook, parties),
            m.Chunk: (self._take_mirror, parties),
            m.TokenChunk: (self._take_tokens, parties),
            m.NoiseSeed: (self._take_noise, (self.terms.validate,)),
            m.Agree: (self._relay_agree, parties),
        }

    # Relay: collect one message of every party, then send all of them to everybody.

    def _relay_key(self, sender: str, message: m.AnyMessage) -> list[m.Envelope]:
        assert isinstance(message, m.EphemeralKey)
        keys = self._collect(sender, message)
        if keys is None:
            return []
        self._become(State.WRAPPING)
        return self._broadcast(m.KeyRoster(keys))

    def _relay_run_key(self, sender: str, message: m.AnyMessage) -> list[m.Envelope]:
        assert isinstance(message, m.WrappedKeys)
        if set(message.wrapped) != set(self.terms.parties):
            raise RemoteProtocolError("expected one wrapped key per data party", code="E_DECLARED")
        self._become(State.READYING if self._alignment is None else State.ALIGNING)
        return [self._to(name, m.WrappedKey(message.wrapped[name])) for name in self.terms.parties]

    def _relay_confirm(self, sender: str, message: m.AnyMessage) -> list[m.Envelope]:
        assert isinstance(message, m.Confirm)
        confirms = self._collect(sender, message)
        if confirms is None:
            return []
        self._become(State.UPLOADING)
        noise = [] if self._noise is None else [self._to(self.terms.validate, self._noise.commit())]
        return self._broadcast(m.ConfirmRoster(confirms)) + noise

    def _relay_codebook(self, sender: str, message: m.AnyMessage) -> list[m.Envelope]:
        assert isinstance(message, m.SealedCodebook)
        if self._codebooks is None:
            raise RemoteProtocolError("the parties of this run share no codebooks", code="E_STATE")
        return self._codebooks.take(sender, message)

    def _relay_agree(self, sender: str, message: m.AnyMessage) -> list[m.Envelope]:
        assert isinstance(message, m.Agree)
        agrees = self._collect(sender, message)
        if agrees is None:
            return []
        self._become(State.DONE)
        return self._broadcast(m.AgreeRoster(agrees))

    def _collect(self, sender: str, message: Relayed) -> tuple[Relayed, ...] | None:
        """All parties' messages of a kind, in the parties' order, once the last one is here; else None."""
        if sender != message.party:
            raise RemoteProtocolError(f"{sender!r} speaks for {message.party!r}", code="E_SENDER")
        arrived: dict[str, Relayed] = self._relayed.setdefault(type(message), {})
        arrived[sender] = message
        if len(arrived) < len(self.terms.everybody):
            return None
        return tuple(arrived[name] for name in self.terms.everybody)

    # Release.

    def _settled(self, answer: Answer) -> list[m.Envelope]:
        assert self._mirror is not None
        if self._noise is not None:
            self._noise.counted(self._mirror.tables(), self._mirror.privacy())
            return self._release_noisy()
        self._become(State.AGREEING)
        return self._mirror.release(answer)

    def _take_noise(self, sender: str, message: m.AnyMessage) -> list[m.Envelope]:
        assert isinstance(message, m.NoiseSeed)
        if self._noise is None:
            raise RemoteProtocolError("this run has no noise", code="E_STATE")
        self._noise.take(message)
        return self._release_noisy()

    def _release_noisy(self) -> list[m.Envelope]:
        """The values with noise, once they and the other server's contribution are here."""
        assert self._noise is not None
        assert self._mirror is not None
        if not self._noise.ready:
            return []
        opening, noisy = self._noise.open()
        self._become(State.AGREEING)
        return [self._to(self.terms.validate, opening), *self._mirror.release(self._mirror.valued(noisy))]

    def _take_tokens(self, sender: str, message: m.AnyMessage) -> list[m.Envelope]:
        assert isinstance(message, m.TokenChunk)
        if self._tokens is None:
            raise RemoteProtocolError("this run has no tokens", code="E_STATE")
        out = self._tokens.add(sender, message)
        if self._tokens.complete:
            self._become(State.AGREEING)
        return out

    def _forget(self) -> None:
        super()._forget()
        self._tokens = None
        self._noise = None
