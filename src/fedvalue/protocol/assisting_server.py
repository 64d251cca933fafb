"""The third server of `gram`."""

from __future__ import annotations

from fedvalue.protocol import messages as m
from fedvalue.protocol.chunk_store import ChunkStore
from fedvalue.protocol.keyring import Credentials
from fedvalue.protocol.outcome import Valuer
from fedvalue.protocol.role import Handler
from fedvalue.protocol.server import Server
from fedvalue.protocol.settings import Align, RunTerms
from fedvalue.protocol.transitions import RoleName, State


class AssistingServer(Server):
    """Adds up its shares, like the other two: no ids, no codes, no sums that others have not masked.

    Args:
        terms: What was agreed.
        credentials: Keys of this server.
        valuer: Not used: under `gram` parties compute the values.
        store: Where chunks wait; memory by default.
    """

    role = RoleName.ASSISTING_SERVER

    def __init__(
        self,
        terms: RunTerms,
        *,
        credentials: Credentials,
        valuer: Valuer | None = None,
        store: ChunkStore | None = None,
    ) -> None:
        super().__init__(
            terms, terms.assist, first=State.ALIGNING if terms.align is Align.INTERSECT else State.READYING,
            credentials=credentials, valuer=valuer, store=store,
        )  # fmt: skip

    def _peers(self) -> tuple[str, ...]:
        return (*self.terms.everybody, *(name for name in self.terms.servers if name != self.name))

    def _handlers(self) -> dict[type[m.Message], tuple[Handler, tuple[str, ...]]]:
        return {
            **self._early_handlers(),
            **self._gram_handlers(),
            m.Chunk: (self._take_gram, self.terms.everybody),
        }
