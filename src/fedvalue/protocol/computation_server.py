"""The computation server's side of a run (interface; the body follows)."""

from __future__ import annotations

from fedvalue.protocol.chunk_store import ChunkStore
from fedvalue.protocol.credentials import Credentials
from fedvalue.protocol.outcome import Valuer
from fedvalue.protocol.role import Role
from fedvalue.protocol.settings import Settings
from fedvalue.protocol.transitions import RoleName, State


class ComputationServer(Role):
    """Relays keys it cannot read, and counts tokens or masked sums: no ids, no codes, no labels.

    Args:
        settings: What was agreed.
        credentials: Keys of this server.
        valuer: Makes the answer from the counts (`mirror` with policy `valuation` only).
        store: Where chunks wait for the other parties' (`mirror`); memory by default.
    """

    role = RoleName.COMPUTATION_SERVER

    def __init__(
        self,
        settings: Settings,
        *,
        credentials: Credentials,
        valuer: Valuer | None = None,
        store: ChunkStore | None = None,
    ) -> None:
        super().__init__(settings, settings.compute, first=State.KEYING)
        self._credentials = credentials
        self._valuer = valuer
        self._store = store

    def missing(self, party: str) -> list[int]:
        """Numbers of the chunks that `party` has declared and not sent yet (`mirror`)."""
        raise NotImplementedError
