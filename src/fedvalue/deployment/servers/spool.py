"""The chunks of a role, on disk: they lie in the journal's spool already, so nothing is stored twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedvalue.errors import EngineError, RemoteProtocolError
from fedvalue.protocol import messages as m

if TYPE_CHECKING:
    from fedvalue.deployment.servers.server_store import ServerStore


def _damaged() -> EngineError:
    return EngineError("an upload has changed on this server's disk", code="E_DIGEST")


class SpooledChunks:
    """A `ChunkStore` over accepted messages.

    The host says which message is being handled before the role puts its chunk; `get` finds that
    message, in memory while it is recent. Chunks stay until the run is purged: a restart needs them.
    """

    def __init__(self, store: ServerStore, run_id: bytes) -> None:
        self._store = store
        self._run_id = run_id
        self._current: tuple[str, int] = ("", 0)
        self._number: dict[tuple[str, int], int] = {}

    def arriving(self, sender: str, number: int) -> None:
        """Message `number` of `sender` is handled next."""
        self._current = (sender, number)

    def put(self, party: str, index: int, data: memoryview) -> None:
        """Remember where chunk `index` lies; its bytes are there."""
        sender, number = self._current
        assert sender == party
        self._number[party, index] = number

    def get(self, party: str, index: int) -> memoryview:
        """The chunk, from memory or disk.

        Raises:
            EngineError: E_STORAGE: it cannot be read; E_DIGEST: it is not what was stored.
        """
        try:
            stored = self._store.message_of(self._run_id, party, self._number[party, index])
        except RemoteProtocolError:
            raise _damaged() from None
        message = stored.envelope.message
        if not isinstance(message, m.Chunk) or not (stored.fresh or message.intact):
            raise _damaged()
        return message.data

    def discard(self, party: str, index: int) -> None:
        """Counted: forget the place. The file goes when the run is purged."""
        number = self._number.pop((party, index), None)
        if number is not None:
            self._store.forget_recent(self._run_id, party, number)
