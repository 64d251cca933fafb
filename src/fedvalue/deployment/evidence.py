"""What the task party keeps from a run in order to prove its values to a third person later."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from fedvalue.protocol import messages as m

if TYPE_CHECKING:
    from fedvalue.agreement.manifest import Manifest
    from fedvalue.deployment.shell.endorsement import Endorsement
    from fedvalue.deployment.shell.messages import Ready


class Evidence:
    """The signed parts of the messages of one run, by server."""

    def __init__(self, manifest: Manifest) -> None:
        self.manifest = manifest
        self.roster: tuple[Ready, ...] = ()
        self.chunks: defaultdict[str, list[m.ResultChunk]] = defaultdict(list)
        self.seals: dict[str, m.ResultSeal] = {}
        self.share_keys: dict[str, m.ShareKeys] = {}
        self.endorsements: dict[str, Endorsement] = {}

    def received(self, server: str, message: m.AnyMessage) -> None:
        """Keep a result and the signature on it."""
        if isinstance(message, m.ResultChunk):
            self.chunks[server].append(message)
        elif isinstance(message, m.ResultSeal):
            self.seals[server] = message

    @property
    def digests(self) -> dict[str, bytes]:
        """What each server signed, as far as it has come."""
        return {server: seal.digest for server, seal in self.seals.items()}

    def sent(self, server: str, message: m.AnyMessage) -> None:
        """Keep the keys under which the servers sealed the values."""
        if isinstance(message, m.ShareKeys):
            self.share_keys[server] = message
