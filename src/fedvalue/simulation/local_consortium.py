"""A whole consortium on one machine: a folder per participant, and a manifest signed by all.

For the demonstration, the tests and the benchmark. It uses the functions and files of `fedvalue init` and
`fedvalue manifest`, and writes the configurations that people write with an editor.
"""

from __future__ import annotations

import errno
import secrets
import socket
import sys
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedvalue.agreement.manifest import SignedManifest
from fedvalue.agreement.manifest_files import draft, write_manifest
from fedvalue.identity.cards import Identity, create_identity
from fedvalue.identity.identity_files import save_identity, write_card
from fedvalue.identity.tls_certificates import SERVER_ROLES

CONSORTIUM = "demo"


@dataclass(frozen=True, slots=True)
class Member:
    """A participant: its folder and the command of its process."""

    name: str
    role: str
    folder: Path
    identity: Identity = field(repr=False)

    @property
    def command(self) -> list[str]:
        """Arguments of `fedvalue` for this member's process."""
        if self.role in SERVER_ROLES:
            return ["serve", self.role, "--config", str(self.folder / "server.toml")]
        verb = "run" if self.role == "task" else "join"
        return [verb, "--config", str(self.folder / "party.toml")]


@dataclass(frozen=True, slots=True)
class Source:
    """A party's table: its place, its id column and, for the task party, its label."""

    source: str
    id: str
    label: str | None = None
    features: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, weakref_slot=True)
class LocalConsortium:
    """All members, and the manifest that all have signed.

    The servers' ports are reserved while the object exists.
    """

    root: Path
    members: Mapping[str, Member]
    signed: SignedManifest

    @property
    def run_id(self) -> str:
        """The run's id, hex."""
        return self.signed.run_id.hex()


def build(
    root: Path, task: str, sources: Mapping[str, Source], *, accept: str = "", **terms: Any
) -> LocalConsortium:
    """Make folders below `root`, identities, pinned cards, a signed manifest and configurations.

    Args:
        root: Parent of the folders.
        task: Name of the task party.
        sources: Tables by party, including the task party's.
        accept: Lines of the section [accept] of every configuration.
        **terms: Terms of the manifest, at least n_samples and purpose.
    """
    servers = SERVER_ROLES if terms.get("protocol") == "gram" else SERVER_ROLES[:2]
    roles = {role: role for role in servers}
    roles |= {name: "task" if name == task else "data" for name in sources}
    members: dict[str, Member] = {}
    for name, role in roles.items():
        identity = create_identity(CONSORTIUM, role, name, valid_days=30)
        folder = root / name
        save_identity(identity, folder / "identity")
        members[name] = Member(name, role, folder, identity)
    for member in members.values():
        write_card(member.identity.card, root / "cards" / f"{member.name}.json")
        for other in members.values():
            if other is not member:
                write_card(other.identity.card, member.folder / "peers" / f"{other.name}.json")
    ports = {role: reserve_port() for role in servers}
    endpoints = {role: f"127.0.0.1:{port}" for role, (port, _) in ports.items()}
    signed = agree(members, endpoints, **terms)
    for member in members.values():
        if member.role in servers:
            _server_toml(member, endpoints[member.role], accept)
        else:
            _party_toml(member, sources[member.name], accept)
    consortium = LocalConsortium(root, members, signed)
    for _, reservation in ports.values():
        weakref.finalize(consortium, reservation.close)
    return consortium


def agree(members: Mapping[str, Member], endpoints: Mapping[str, str], **terms: Any) -> SignedManifest:
    """Draft a manifest, sign it for every member, and give each a copy."""
    signed = draft([member.identity.card for member in members.values()], endpoints, days=1, **terms)
    for member in members.values():
        signed = signed.signed_by(member.identity)
    for member in members.values():
        write_manifest(member.folder / "manifest.json", signed)
    return signed


def reserve_port() -> tuple[int, socket.socket]:
    """A loopback port, and a socket that keeps others from it until it is closed.

    A port that is only looked up can be taken before its server listens, by another consortium or by an
    outgoing connection. On Linux a server that sets SO_REUSEADDR, as every restartable server does, may
    listen on the port of a bound socket with the same option; others are refused. Other systems would refuse
    that server too: there the returned socket is closed, and the port is probably, not certainly, free.
    """
    while True:
        reservation = socket.socket()
        # Below the range from which systems take the ports of outgoing connections.
        port = 20_000 + secrets.randbelow(12_000)
        try:
            reservation.bind(("127.0.0.1", port))
        except OSError as error:
            reservation.close()
            if error.errno != errno.EADDRINUSE:
                raise
            continue
        reservation.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if sys.platform != "linux":
            reservation.close()
        return port, reservation


def _server_toml(member: Member, listen: str, accept: str) -> None:
    text = f"""\
identity = "identity"
peers = "peers"
state = "state"
listen = "{listen}"

[accept]
{accept}
"""
    (member.folder / "server.toml").write_text(text, encoding="utf-8")


def _party_toml(member: Member, source: Source, accept: str) -> None:
    label = f'label = "{source.label}"\n' if source.label else ""
    features = f"features = {list(source.features)!r}\n" if source.features else ""
    text = f"""\
identity = "identity"
peers = "peers"
state = "state"
manifest = "manifest.json"

[table]
source = "{source.source}"
id = "{source.id}"
{label}{features}
[output]
result = "result.json"
report = "report.html"
certificate = "certificate.json"

[accept]
{accept}
"""
    (member.folder / "party.toml").write_text(text, encoding="utf-8")
