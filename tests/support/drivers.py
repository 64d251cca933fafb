"""All participants of a run as drivers in one thread: the deployment without disk, clock and network."""

from __future__ import annotations

from collections import Counter, deque
from typing import Any

import numpy as np

from fedvalue.agreement.manifest import SignedManifest
from fedvalue.agreement.run_settings import credentials_of
from fedvalue.crypto.ids import canonical_ids
from fedvalue.deployment.parties.driver import PartyDriver
from fedvalue.deployment.parties.party_input import PartyInput, _made
from fedvalue.deployment.servers.role_driver import RoleDriver
from fedvalue.deployment.servers.server_role import server_role
from fedvalue.protocol.mirror.counting import MemoryChunkStore
from tests.support.consortium import identity


class Chunks(MemoryChunkStore):
    def arriving(self, sender: str, number: int) -> None:
        """Chunks are in memory."""


def party_input(codes: np.ndarray, label: np.ndarray | None = None) -> PartyInput:
    """A table whose ids are p0, p1, ..."""
    ids = canonical_ids([f"p{k}" for k in range(len(codes))])
    columns = [codes] if label is None else [codes, label]
    sizes = tuple(int(column.max()) + 1 for column in columns)
    return _made(ids, codes, label, sizes, (), lambda rows: party_input(codes[rows], label))


def run_drivers(
    agreed: SignedManifest, inputs: dict[str, PartyInput], tamper: Any = lambda sender, to, body: body
) -> dict[str, PartyDriver]:
    """Carry every message to its end; errors come out as they are."""
    manifest = agreed.manifest
    parties = {
        name: PartyDriver(identity(name), manifest, given, bytes([k]) * 32)
        for k, (name, given) in enumerate(inputs.items())
    }
    servers = {}
    for role in ("compute", "validate"):
        chunks, credentials = Chunks(), credentials_of(manifest, identity(role), role.encode().ljust(32))

        def make(
            settings: Any, role: str = role, credentials: Any = credentials, chunks: Any = chunks
        ) -> Any:
            return server_role(role, manifest, settings, credentials, chunks)

        servers[role] = RoleDriver(manifest, role, chunks, make)  # type: ignore[arg-type]
    mail = deque((name, p.server, p.body()) for name, party in parties.items() for p in party.begin())
    numbers: Counter[tuple[str, str]] = Counter()
    while mail:
        sender, to, body = mail.popleft()
        body = tamper(sender, to, body)
        if body is None:
            continue
        if to in servers:
            number = numbers[sender, to]
            numbers[sender, to] += 1
            mail.extend((to, who, one) for who, one in servers[to].feed(sender, number, body))
        else:
            mail.extend((to, p.server, p.body()) for p in parties[to].feed(sender, body))
    return parties
