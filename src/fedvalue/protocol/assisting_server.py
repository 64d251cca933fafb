"""The third server of `gram`."""

from __future__ import annotations

from fedvalue.protocol import messages as m
from fedvalue.protocol.role import Handler
from fedvalue.protocol.server import Server
from fedvalue.protocol.transitions import RoleName


class AssistingServer(Server):
    """Adds up its shares, like the other two: no ids, no codes, no sums that others have not masked.

    Its valuer is not used: under `gram` parties compute the values.
    """

    role = RoleName.ASSISTING_SERVER

    def _handlers(self) -> dict[type[m.Message], tuple[Handler, tuple[str, ...]]]:
        return {
            **self._early_handlers(),
            **self._gram_handlers(),
            m.Chunk: (self._take_gram, self.terms.everybody),
        }
