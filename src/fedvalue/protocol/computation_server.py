"""The computation server's side of a run: relay of the parties' messages, and counting."""

from __future__ import annotations

from collections.abc import Collection

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


class ComputationServer(Server):
    """Relays keys it cannot read, and counts tokens or masked sums: no ids, no codes, no labels.

    Args:
        terms: What was agreed.
        credentials: Keys of this server.
        valuer: Makes the answer from the counts (`mirror` with policy `valuation` only).
        store: Where chunks wait for the other parties' (`mirror`); memory by default.
    """

    role = RoleName.COMPUTATION_SERVER

    def __init__(
        self,
        terms: RunTerms,
        *,
        credentials: Credentials,
        valuer: Valuer | None = None,
        store: ChunkStore | None = None,
    ) -> None:
        super().__init__(
            terms, terms.compute, first=State.KEYING,
            credentials=credentials, valuer=valuer, store=store,
        )  # fmt: skip
        self._keys: dict[str, m.EphemeralKey] = {}
        self._confirms: dict[str, m.Confirm] = {}
        self._agrees: dict[str, m.Agree] = {}
        self._tokens: TokenCounting | None = None
        self._noise: CommittingRelease | None = None
        self._codebooks: CodebookRelay | None = None

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
        came: dict[State, Collection[str]] = {
            State.KEYING: self._keys,
            State.CONFIRMING: self._confirms,
            State.AGREEING: self._agrees,
        }
        if self._state in came:
            return tuple(name for name in self.terms.everybody if name not in came[self._state])
        return super().awaited()

    def _peers(self) -> tuple[str, ...]:
        return (*self.terms.everybody, *self.terms.servers[1:])

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
        _own_name(sender, message.party)
        self._keys[sender] = message
        if len(self._keys) < len(self.terms.everybody):
            return []
        self._become(State.WRAPPING)
        roster = m.KeyRoster(tuple(self._keys[name] for name in self.terms.everybody))
        return self._broadcast(roster)

    def _relay_run_key(self, sender: str, message: m.AnyMessage) -> list[m.Envelope]:
        assert isinstance(message, m.WrappedKeys)
        if set(message.wrapped) != set(self.terms.parties):
            raise RemoteProtocolError("expected one wrapped key per data party", code="E_DECLARED")
        self._become(State.READYING if self._alignment is None else State.ALIGNING)
        return [self._to(name, m.WrappedKey(message.wrapped[name])) for name in self.terms.parties]

    def _relay_confirm(self, sender: str, message: m.AnyMessage) -> list[m.Envelope]:
        assert isinstance(message, m.Confirm)
        _own_name(sender, message.party)
        self._confirms[sender] = message
        if len(self._confirms) < len(self.terms.everybody):
            return []
        self._become(State.UPLOADING)
        roster = m.ConfirmRoster(tuple(self._confirms[name] for name in self.terms.everybody))
        noise = [] if self._noise is None else [self._to(self.terms.validate, self._noise.commit())]
        return self._broadcast(roster) + noise

    def _relay_codebook(self, sender: str, message: m.AnyMessage) -> list[m.Envelope]:
        assert isinstance(message, m.SealedCodebook)
        if self._codebooks is None:
            raise RemoteProtocolError("the parties of this run share no codebooks", code="E_STATE")
        return self._codebooks.take(sender, message)

    def _relay_agree(self, sender: str, message: m.AnyMessage) -> list[m.Envelope]:
        assert isinstance(message, m.Agree)
        _own_name(sender, message.party)
        self._agrees[sender] = message
        if len(self._agrees) < len(self.terms.everybody):
            return []
        self._become(State.DONE)
        roster = m.AgreeRoster(tuple(self._agrees[name] for name in self.terms.everybody))
        return self._broadcast(roster)

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


def _own_name(sender: str, party: str) -> None:
    if sender != party:
        raise RemoteProtocolError(f"{sender!r} speaks for {party!r}", code="E_SENDER")
