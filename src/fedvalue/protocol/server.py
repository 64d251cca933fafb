"""What both servers share: under `mirror` they count the same masked rows."""

from __future__ import annotations

from fedvalue.errors import RemoteProtocolError
from fedvalue.protocol import messages as m
from fedvalue.protocol.keyring import Credentials
from fedvalue.protocol.mirror.counting import ChunkStore, MemoryChunkStore, MirrorCounting
from fedvalue.protocol.outcome import Addressed, Valuer
from fedvalue.protocol.role import Role
from fedvalue.protocol.settings import ProtocolName, Settings
from fedvalue.protocol.transitions import State


class Server(Role):
    """A server of either kind.

    Args:
        settings: What was agreed.
        name: Of this server.
        first: The state in which it begins.
        credentials: Keys of this server.
        valuer: Makes the answer from the counts (`mirror` with policy `valuation` only).
        store: Where chunks wait for the other parties' (`mirror`); memory by default.
    """

    def __init__(
        self,
        settings: Settings,
        name: str,
        *,
        first: State,
        credentials: Credentials,
        valuer: Valuer | None,
        store: ChunkStore | None,
    ) -> None:
        super().__init__(settings, name, first=first)
        self._mirror: MirrorCounting | None = None
        if settings.protocol is ProtocolName.MIRROR:
            self._mirror = MirrorCounting(settings, name, credentials, valuer, store or MemoryChunkStore())

    def missing(self, party: str) -> list[int]:
        """Numbers of the chunks that `party` has declared and not sent yet (`mirror`)."""
        return self._mirror.missing(party) if self._mirror is not None else []

    def _take_mirror(self, sender: str, message: m.AnyMessage) -> list[m.Envelope]:
        if self._mirror is None:
            raise RemoteProtocolError("this run is not of protocol mirror", code="E_STATE")
        if isinstance(message, m.Declaration):
            self._mirror.declare(sender, message)
        elif isinstance(message, m.ShareKeys):
            self._mirror.take_share_keys(message)
        else:
            assert isinstance(message, m.Chunk)
            if self._mirror.add(sender, message):
                return self._counted(self._mirror)
        return []

    def _counted(self, mirror: MirrorCounting) -> list[m.Envelope]:
        """All rows are counted: what to send."""
        raise NotImplementedError

    def _addressed(self, messages: list[Addressed]) -> list[m.Envelope]:
        return [self._to(recipient, message) for recipient, message in messages]

    def _forget(self) -> None:
        self._mirror = None
