"""The validation server's side of a run: the same count again, or the check of Step 3."""

from __future__ import annotations

from fedvalue.errors import RemoteProtocolError
from fedvalue.protocol import messages as m
from fedvalue.protocol.noisy_release import AnsweringRelease
from fedvalue.protocol.role import Handler
from fedvalue.protocol.server import Server
from fedvalue.protocol.settings import ProtocolName, Settings
from fedvalue.protocol.tokens.validating import TokenChecking
from fedvalue.protocol.transitions import RoleName, State


class ValidationServer(Server):
    """Checks the computation server: groups of tokens (`paper`), or the same count again (`mirror`)."""

    role = RoleName.VALIDATION_SERVER

    _tokens: TokenChecking | None = None
    _noise: AnsweringRelease | None

    def _prepare(self, readies: dict[str, m.Ready]) -> None:
        super()._prepare(readies)
        if self.terms.epsilon is not None and self.terms.protocol is ProtocolName.MIRROR:
            self._noise = AnsweringRelease(self.terms, self.name, self._credentials.seed)
        if self.terms.protocol is ProtocolName.PAPER:
            self._tokens = self._make_tokens(self.settings)

    def _make_tokens(self, settings: Settings) -> TokenChecking:
        return TokenChecking(settings, self._credentials.signing_key)

    def _handlers(self) -> dict[type[m.Message], tuple[Handler, tuple[str, ...]]]:
        task, compute = (self.terms.task,), (self.terms.compute,)
        return super()._handlers() | {
            m.QueryKey: (self._take_tokens, task),
            m.IntersectionChunk: (self._take_tokens, compute),
            m.NoiseCommit: (self._take_noise, compute),
            m.NoiseOpening: (self._take_noise, compute),
        }

    def _take_noise(self, sender: str, message: m.NoiseCommit | m.NoiseOpening) -> list[m.Envelope]:
        if self._noise is None:
            raise RemoteProtocolError("this run has no noise", code="E_STATE")
        if isinstance(message, m.NoiseCommit):
            self._noise.committed(message)
            return self._continue_noise()
        self._noise.take(message)
        return self._release_noisy()

    def _continue_noise(self) -> list[m.Envelope]:
        """Our contribution to the noise, once C has committed to its own and all rows are counted."""
        assert self._noise is not None
        return [self._to(self.terms.compute, message) for message in self._noise.answer()]

    def _release_noisy(self) -> list[m.Envelope]:
        """The noisy values, once the tables and the other server's opening are here."""
        assert self._noise is not None
        assert self._mirror is not None
        if not self._noise.ready:
            return []
        out = self._mirror.release(self._mirror.valued(self._noise.noisy()))
        self._become(State.DONE)
        return out

    def _take_tokens(self, sender: str, message: m.AnyMessage) -> list[m.Envelope]:
        if self._tokens is None:
            raise RemoteProtocolError("this run has no tokens", code="E_STATE")
        out = self._tokens.take(message)
        if self._tokens.complete:
            self._become(State.DONE)
        return out

    def _forget(self) -> None:
        super()._forget()
        self._tokens = None
