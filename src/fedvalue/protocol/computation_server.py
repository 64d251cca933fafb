"""The computation server's side of a run: relays the parties' messages, and counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fedvalue.errors import RemoteProtocolError
from fedvalue.protocol import messages as m
from fedvalue.protocol.noisy_release import CommittingRelease
from fedvalue.protocol.role import Handler
from fedvalue.protocol.server import Server
from fedvalue.protocol.settings import ProtocolName, RunTerms, Settings
from fedvalue.protocol.shared_codebooks import CodebookRelay, shares_codebooks
from fedvalue.protocol.tokens.intersecting import TokenCounting
from fedvalue.protocol.transitions import RoleName, State

_ROSTERS: dict[type[m.Message], tuple[Callable[[tuple[Any, ...]], m.AnyMessage], State]] = {
    m.EphemeralKey: (m.KeyRoster, State.WRAPPING),
    m.Confirm: (m.ConfirmRoster, State.UPLOADING),
    m.Agree: (m.AgreeRoster, State.DONE),
}
"""Relayed message -> the roster that all parties get, and the state after it."""


class ComputationServer(Server):
    """Relays keys it cannot read, and counts tokens or masked sums: no ids, no codes, no labels."""

    role = RoleName.COMPUTATION_SERVER

    _tokens: TokenCounting | None = None
    _noise: CommittingRelease | None
    _codebooks: CodebookRelay | None = None

    _after_ready = State.CONFIRMING
    _after_release = State.AGREEING

    def _prepare(self, readies: dict[str, m.Ready]) -> None:
        super()._prepare(readies)
        if self.terms.epsilon is not None and self.terms.protocol is ProtocolName.MIRROR:
            self._noise = CommittingRelease(self.terms, self.name, self._credentials.seed)
        if shares_codebooks(self.terms):
            self._codebooks = CodebookRelay(self.terms)
        if self.terms.protocol in (ProtocolName.SINGLE, ProtocolName.PAPER):
            self._tokens = self._make_tokens(self.settings)

    def _make_tokens(self, settings: Settings) -> TokenCounting:
        return TokenCounting(settings, self._credentials)

    def _first_state(self, terms: RunTerms) -> State:
        return State.KEYING

    def _handlers(self) -> dict[type[m.Message], tuple[Handler, tuple[str, ...]]]:
        parties = self.terms.everybody
        return super()._handlers() | {
            **dict.fromkeys((m.EphemeralKey, m.Confirm, m.Agree), (self._relay, parties)),
            m.WrappedKeys: (self._relay_run_key, (self.terms.task,)),
            m.SealedCodebook: (self._relay_codebook, parties),
            m.TokenChunk: (self._take_tokens, parties),
            m.NoiseSeed: (self._take_noise, (self.terms.validate,)),
        }

    def _relay(self, sender: str, message: m.EphemeralKey | m.Confirm | m.Agree) -> list[m.Envelope]:
        """Collect one message from every party, then send all of them to everybody."""
        if sender != message.party:
            raise RemoteProtocolError(
                f"{sender!r} sent a message in the name of {message.party!r}", code="E_SENDER"
            )
        collected = self._collect(sender, message)
        if not collected:
            return []
        roster, after = _ROSTERS[type(message)]
        self._become(after)
        out = self._broadcast(roster(collected))
        if after is State.UPLOADING and self._noise is not None:
            out.append(self._to(self.terms.validate, self._noise.commit()))
        return out

    def _relay_run_key(self, sender: str, message: m.WrappedKeys) -> list[m.Envelope]:
        if set(message.wrapped) != set(self.terms.parties):
            raise RemoteProtocolError("expected one wrapped key per data party", code="E_DECLARED")
        self._become(State.READYING if self._alignment is None else State.ALIGNING)
        return [self._to(name, m.WrappedKey(message.wrapped[name])) for name in self.terms.parties]

    def _relay_codebook(self, sender: str, message: m.SealedCodebook) -> list[m.Envelope]:
        if self._codebooks is None:
            raise RemoteProtocolError("the parties of this run share no codebooks", code="E_STATE")
        return self._codebooks.take(sender, message)

    # Release.

    def _take_noise(self, sender: str, message: m.NoiseSeed) -> list[m.Envelope]:
        if self._noise is None:
            raise RemoteProtocolError("this run has no noise", code="E_STATE")
        self._noise.take(message)
        return self._continue_noise()

    def _continue_noise(self) -> list[m.Envelope]:
        """The noisy values, once the tables and the other server's contribution are here."""
        assert self._noise is not None
        assert self._mirror is not None
        if not self._noise.ready:
            return []
        opening, noisy = self._noise.open()
        self._become(State.AGREEING)
        return [self._to(self.terms.validate, opening), *self._mirror.release(self._mirror.valued(noisy))]

    def _take_tokens(self, sender: str, message: m.TokenChunk) -> list[m.Envelope]:
        if self._tokens is None:
            raise RemoteProtocolError("this run has no tokens", code="E_STATE")
        out = self._tokens.add(sender, message)
        if self._tokens.complete:
            self._become(State.AGREEING)
        return out

    def _forget(self) -> None:
        super()._forget()
        self._tokens = None
