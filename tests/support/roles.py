"""All participants of a deployed run as roles in one thread: without disk, clock and network."""

from __future__ import annotations

from collections import deque
from typing import Any

import msgspec
import numpy as np

from fedvalue.agreement.manifest import SignedManifest
from fedvalue.agreement.run_settings import credentials_of, terms_of
from fedvalue.crypto import keys
from fedvalue.crypto.ids import canonical_ids
from fedvalue.deployment.parties.party_input import PartyInput
from fedvalue.deployment.parties.party_run import party_role
from fedvalue.deployment.servers.server_role import server_role
from fedvalue.identity.cards import Identity
from fedvalue.protocol import codec
from fedvalue.protocol import messages as m
from fedvalue.protocol.chunk_store import MemoryChunkStore
from fedvalue.protocol.party_roles import PartyRole
from fedvalue.protocol.samples import CodedColumn, MemorySamples
from tests.support.consortium import identity, member


def party_input(codes: np.ndarray, label: np.ndarray | None = None) -> PartyInput:
    """A table whose ids are p0, p1, ..."""
    ids = canonical_ids([f"p{k}" for k in range(len(codes))])
    columns = [codes] if label is None else [codes, label]
    coded = [
        CodedColumn(f"column {k}", column, int(column.max()) + 1, None) for k, column in enumerate(columns)
    ]
    return PartyInput(MemorySamples(ids, coded), (), ())


def run_roles(
    agreed: SignedManifest, inputs: dict[str, PartyInput], tamper: Any = lambda sender, to, body: body
) -> dict[str, PartyRole]:
    """Carry every message to its end; errors come out as they are. The parties' roles."""
    roles = run_everybody(agreed, inputs, tamper)
    return {name: roles[name] for name in inputs}


def run_everybody(
    agreed: SignedManifest, inputs: dict[str, PartyInput], tamper: Any = lambda sender, to, body: body
) -> dict[str, Any]:
    """`run_roles`, with the servers' roles; a message that `tamper` makes None is lost."""
    manifest = agreed.manifest
    parties = {
        name: party_role(identity(name), manifest, given.samples, bytes([k]) * 32)
        for k, (name, given) in enumerate(inputs.items())
    }
    servers = {
        one.name: server_role(
            one.role,
            manifest,
            terms_of(manifest),
            credentials_of(manifest, member(one.name), one.name.encode().ljust(32)),
            MemoryChunkStore(),
        )
        for one in manifest.servers
    }
    roles: dict[str, Any] = {**servers, **parties}
    mail = deque(envelope for role in roles.values() for envelope in role.start())
    while mail:
        envelope = mail.popleft()
        body = tamper(envelope.sender, envelope.recipient, codec.encode(envelope))
        if body is not None:
            mail.extend(roles[envelope.recipient].receive(codec.decode(body)))
    return roles


def ready_body(name: str, agreed: SignedManifest, server: str) -> bytes:
    """A signed Ready of a party under `mirror`, on its way to a server, which cannot open it."""
    n = agreed.manifest.n_samples
    draft = m.Ready(name, n, n, bytes(1040), bytes(32), bytes(32), bytes(64))
    signing_key = identity(name).signing.private_bytes_raw()
    signature = keys.sign(signing_key, "ready", agreed.run_id, draft.signed())
    message = msgspec.structs.replace(draft, signature=signature)
    return codec.encode(m.Envelope(agreed.run_id, name, server, message))


def hello_body(one: Identity, run_id: bytes, seed: bytes = bytes(32), server: str = "compute") -> bytes:
    """A party's first message: its signed X25519 key."""
    name, public = one.card.name, keys.agreement_public(seed)
    signature = keys.sign(one.signing.private_bytes_raw(), "ephemeral", run_id, name, public)
    return codec.encode(m.Envelope(run_id, name, server, m.EphemeralKey(name, public, signature)))
