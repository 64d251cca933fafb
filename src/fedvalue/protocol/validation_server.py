"""The validation server's side of a run (interface; the body follows)."""

from __future__ import annotations

from fedvalue.protocol.chunk_store import ChunkStore
from fedvalue.protocol.credentials import Credentials
from fedvalue.protocol.outcome import Valuer
from fedvalue.protocol.role import Role
from fedvalue.protocol.settings import Settings
from fedvalue.protocol.transitions import RoleName, State


class ValidationServer(Role):
    """Checks the computation server: groups of tokens (`paper`), or the same count again (`mirror`).

    Args:
        settings: What was agreed.
        credentials: Keys of this server.
        valuer: Makes the answer from the counts (`mirror` with policy `valuation` only).
        store: Where chunks wait for the other parties' (`mirror`); memory by default.
    """

    role = RoleName.VALIDATION_SERVER

    def __init__(
        self,
        settings: Settings,
        *,
        credentials: Credentials,
        valuer: Valuer | None = None,
        store: ChunkStore | None = None,
    ) -> None:
        super().__init__(settings, settings.validate, first=State.UPLOADING)
        self._credentials = credentials
        self._valuer = valuer
        self._store = store

    def missing(self, party: str) -> list[int]:
        """Numbers of the chunks that `party` has declared and not sent yet (`mirror`)."""
        raise NotImplementedError
