"""Configurations of participants who were invited: made from the home folder, not from a file."""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import TYPE_CHECKING

from fedvalue.deployment.config import OutputConfig, PartyConfig, ServerConfig
from fedvalue.deployment.home import Home

if TYPE_CHECKING:
    from fedvalue.deployment.config import TableConfig
    from fedvalue.deployment.home import Agreement


def server_config(folder: Path, listen: str | None = None) -> ServerConfig:
    """The configuration of a server whose operator has accepted an invitation.

    Args:
        folder: The home.
        listen: host:port; the port of the invitation's address if None.

    Raises:
        ConfigError: E_INVITATION: no invitation was accepted.
    """
    home = Home(folder.resolve())
    agreement = home.agreement()
    endpoint = agreement.invitation.seat(agreement.progress.seat).endpoint
    return ServerConfig(
        identity=home.identity,
        peers=home.peers,
        state=home.state,
        listen=listen or _local(endpoint),
        accept=home.policy(),
        home=home.folder,
    )


def party_config(
    folder: Path, agreement: Agreement, table: TableConfig, output: Path | None = None
) -> PartyConfig:
    """The configuration of a party in an agreement that everybody has signed.

    Args:
        folder: The home.
        agreement: Which of its agreements.
        table: The party's rows.
        output: Folder of the results; that of the agreement if None.
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
        # Whoever was invited waits as long as the agreement lasts, if the others do too.
        wait_hours=1e5,
    )


def _local(endpoint: str) -> str:
    """Where to listen for calls to an address: on all interfaces, except for loopback."""
    host, _, port = endpoint.rpartition(":")
    try:
        loopback = ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        loopback = host == "localhost"
    return endpoint if loopback else f"0.0.0.0:{port}"
