"""Where a participant keeps its files, and the configuration of participants that were invited.

A participant works from a configuration file or from a home folder; a `Site` describes either.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from fedvalue.agreement.manifest import SignedManifest
from fedvalue.agreement.manifest_files import read_manifest
from fedvalue.agreement.manifest_rules import Terms
from fedvalue.deployment.config import (
    OutputConfig,
    PartyConfig,
    ServerConfig,
    read_party_config,
    read_server_config,
)
from fedvalue.deployment.home import Home
from fedvalue.errors import ConfigError, FedValueError
from fedvalue.identity.identity_files import read_card
from fedvalue.identity.tls_certificates import SERVER_ROLES

if TYPE_CHECKING:
    from fedvalue.deployment.config import TableConfig
    from fedvalue.deployment.home import Agreement


@dataclass(frozen=True, slots=True)
class Site:
    """A participant's files, as a configuration or a home folder names them.

    Args:
        identity: Folder of the keys.
        peers: Folder of the pinned cards.
        state: Folder of its runs.
        manifest: The agreement in a party's configuration.
        home: The home folder, if there is one.
        addresses: host:port of servers whose address differs from the manifest's.
        accept: The weakest terms that the participant accepts.
        table: A party's rows, where they are known.
        listen: Where a server listens.
    """

    identity: Path
    peers: Path
    state: Path
    manifest: Path | None = None
    home: Home | None = None
    addresses: dict[str, str] = field(default_factory=dict)
    accept: Terms = Terms()  # noqa: RUF009  it is frozen
    table: TableConfig | None = None
    listen: str = ""

    @property
    def agreements(self) -> list[SignedManifest]:
        """The signed agreements that are here now and can be read, the newest first."""
        if self.manifest is not None:
            try:
                return [read_manifest(self.manifest)]
            except ConfigError:
                return []
        return [signed for _, signed in self._read() if isinstance(signed, SignedManifest)]

    @property
    def inviting(self) -> list[Agreement]:
        """The accepted invitations that not everybody has signed yet, the newest first."""
        return [agreement for agreement, signed in self._read() if signed is None]

    @property
    def unreadable(self) -> dict[str, FedValueError]:
        """Why an agreement of the home folder cannot be read, by its id: most likely another release's."""
        return {agreement.id: error for agreement, error in self._read() if isinstance(error, FedValueError)}

    def _read(self) -> Iterator[tuple[Agreement, SignedManifest | FedValueError | None]]:
        """The agreements of the home folder: signed, not yet signed by all, or unreadable."""
        for agreement in [] if self.home is None else self.home.agreements():
            try:
                signed = agreement.signed
                if signed is None:
                    _ = agreement.invitation
                yield agreement, signed
            except FedValueError as error:
                yield agreement, error


def site_of(config: Path | None, home: Path) -> Site:
    """The site that a configuration file or a home folder describes.

    Raises:
        ConfigError: The file is wrong, or the folder holds no identity.
    """
    if config is None:
        return _of_home(home)
    try:
        is_party = re.search(r"^\[table\]", config.read_text("utf-8"), re.MULTILINE) is not None
    except (OSError, UnicodeDecodeError):
        is_party = False  # read_server_config says what is wrong
    if not is_party:
        return site_of_server(read_server_config(config))
    party = read_party_config(config)
    return Site(
        party.identity, party.peers, party.state, party.manifest, addresses=party.addresses,
        accept=party.accept, table=party.table,
    )  # fmt: skip


def site_of_server(config: ServerConfig) -> Site:
    """The site of a server."""
    home = None if config.home is None else Home(config.home)
    return Site(
        config.identity, config.peers, config.state, home=home, accept=config.accept, listen=config.listen
    )


def _of_home(folder: Path) -> Site:
    home = Home(folder.resolve())
    if not (home.identity / "card.json").exists():
        raise ConfigError(
            f"{folder} holds no identity: run `fedvalue accept INVITATION` first, or name another folder "
            "with --home or a configuration file with --config"
        )
    if read_card(home.identity / "card.json").role in SERVER_ROLES and home.agreements():
        return site_of_server(server_config(folder))
    return Site(home.identity, home.peers, home.state, home=home, accept=home.policy())


def server_config(folder: Path, listen: str | None = None) -> ServerConfig:
    """The configuration of a server whose operator has accepted an invitation.

    Args:
        folder: The home.
        listen: host:port; None takes the port of the invitation's address.

    Raises:
        ConfigError: E_INVITATION: no invitation was accepted, or not as a server.
    """
    home = Home(folder.resolve())
    agreement = home.agreement()
    seat = agreement.invitation.seat(agreement.progress.seat)
    if seat.role not in SERVER_ROLES:
        raise ConfigError(
            f"{seat.name!r} has role {seat.role!r} in {folder} and runs no server; name another folder with "
            "--home",
            code="E_INVITATION",
        )
    return ServerConfig(
        identity=home.identity,
        peers=home.peers,
        state=home.state,
        listen=listen or _local(seat.endpoint),
        accept=home.policy(),
        home=home.folder,
    )


def party_config(
    folder: Path, agreement: Agreement, table: TableConfig, output: Path | None = None
) -> PartyConfig:
    """The configuration of a party in an agreement that everybody has signed.

    Args:
        folder: The home.
        agreement: One of its agreements.
        table: The party's rows.
        output: Folder of the results; None takes the agreement's.
    """
    home, results = Home(folder.resolve()), (output or agreement.folder).resolve()
    return PartyConfig(
        identity=home.identity,
        peers=home.peers,
        state=home.state,
        manifest=agreement.manifest,
        table=table,
        output=OutputConfig(
            result=results / "result.json",
            report=results / "report.html",
            certificate=results / "certificate.json",
        ),
        accept=home.policy(),
        # Invited parties wait until the agreement expires, if the others do too.
        wait_hours=1e5,
    )


def _local(endpoint: str) -> str:
    """Where to listen for calls to an address: on all interfaces, unless it is loopback."""
    host, _, port = endpoint.rpartition(":")
    try:
        loopback = ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        loopback = host == "localhost"
    return endpoint if loopback else f"0.0.0.0:{port}"
