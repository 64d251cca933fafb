"""The role of a server in a run, by the manifest's protocol. Honest, and the only one in production."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fedvalue.agreement.manifest import Manifest
    from fedvalue.protocol.keyring import Credentials
    from fedvalue.protocol.mirror.counting import ChunkStore
    from fedvalue.protocol.role import Role
    from fedvalue.protocol.settings import Settings


def server_role(
    role: str, manifest: Manifest, settings: Settings, credentials: Credentials, chunks: ChunkStore
) -> Role:
    """The role `compute` or `validate` of a run."""
    from fedvalue.deployment.answers import valuer_of
    from fedvalue.protocol.computation_server import ComputationServer
    from fedvalue.protocol.validation_server import ValidationServer

    kind = ComputationServer if role == "compute" else ValidationServer
    return kind(settings, credentials=credentials, valuer=valuer_of(manifest, settings), store=chunks)
