"""A party gives up a run, or cannot begin it: it notifies the servers, so that nobody waits for it."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

from fedvalue.agreement.manifest_files import read_manifest
from fedvalue.agreement.manifest_rules import LIMITS
from fedvalue.deployment.network.rpc_client import ServerClient
from fedvalue.deployment.parties.party_store import PartyStore
from fedvalue.deployment.parties.run_numbers import latest_run, own_states
from fedvalue.errors import ConfigError, EngineError, FedValueError, TransportError
from fedvalue.identity.identity_files import read_identity
from fedvalue.protocol import codec
from fedvalue.protocol import messages as m
from fedvalue.storage.durable_files import exclusive_lock

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from fedvalue.agreement.manifest import SignedManifest
    from fedvalue.identity.cards import Identity

_PATIENCE = 5.0
"""Seconds for which an unreachable server is tried."""


def abandon(
    identity: Path, manifest: Path, state: Path, addresses: Mapping[str, str] | None = None
) -> dict[str, str]:
    """End a run for everybody.

    Args:
        identity: Folder of the party's identity.
        manifest: The agreement that everybody signed.
        state: Folder of the party's journal.
        addresses: host:port of a server, where it differs from the manifest's.

    Returns:
        What each server answered: "notified", "over" (the run had ended already), or why it could not be
        notified. One notified server is enough: it notifies the others.

    Raises:
        ConfigError: The manifest or the identity is wrong, or the run is over and its result is here.
        EngineError: E_LOCKED: the run is under way in another process.
    """
    own = read_identity(identity)
    signed = latest_run(read_manifest(manifest), own_states(state))
    signed.verify(now=dt.datetime.now(dt.UTC))
    signed.manifest.participant(own.card.name)
    try:
        with exclusive_lock(state / f"party-{signed.run_id.hex()[:12]}.lock"):
            _close(state, signed)
    except EngineError as error:
        if error.code != "E_LOCKED":
            raise
        raise EngineError(
            "this run is under way in another process: stop `fedvalue join` or `fedvalue run` first (Ctrl-C)",
            code="E_LOCKED",
        ) from None
    servers = [server.name for server in signed.manifest.servers]
    return {server: _notify(own, signed, server, (addresses or {}).get(server)) for server in servers}


def decline(
    identity: Identity, signed: SignedManifest, code: str, state: Path, addresses: Mapping[str, str]
) -> bool:
    """Tell the servers why we cannot begin a run in which others wait for us.

    Nothing leaves if nobody waits yet: our table may be corrected before the others come. A run that we have
    begun at an earlier start is left alone, its journal numbers our messages. The others may wait in a later
    run than ours, if that has failed without us.

    Returns:
        Whether a server was told.
    """
    begun = own_states(state)
    while signed.run_id not in begun:
        answers = [
            _notify(identity, signed, server.name, addresses.get(server.name), code, patience=0.0, known=True)
            for server in signed.manifest.servers
        ]
        if "over" not in answers or signed.manifest.run >= LIMITS["run"][1]:
            return "notified" in answers
        signed = signed.repeated(signed.manifest.run + 1)
    return False


def _close(state: Path, signed: SignedManifest) -> None:
    """End the run here first: from now on no start of this party continues it."""
    store = PartyStore(state)
    try:
        # A run that was never begun gets its end too. No seed, no input: there is nothing to continue.
        row = store.begin_unless_known(signed.run_id, expires=signed.manifest.expires.timestamp())
        if row.state == "done":
            raise ConfigError("the run has ended with a result and cannot be given up", code="E_STATE")
        if row.state == "running":
            store.finish(
                signed.run_id, state="failed", code="E_ABORTED", reason="this party gave the run up",
                kind="TransportError",
            )  # fmt: skip
    finally:
        store.close()


def _notify(
    identity: Identity,
    signed: SignedManifest,
    server: str,
    address: str | None,
    code: str = "E_ABORTED",
    *,
    patience: float = _PATIENCE,
    known: bool = False,
) -> str:
    """End a run at a server; with `known` only if somebody has brought the run there."""
    manifest, name = signed.manifest, identity.card.name
    client = ServerClient(
        identity, manifest.participant(server), manifest, patience=patience, address=address
    )
    try:
        if known:
            client.status(signed.run_id)
        standing = client.submit(signed.to_json().encode())
        if standing.state in ("done", "failed"):
            return "over"
        abort = m.Envelope(signed.run_id, name, server, m.Abort(code))
        client.post(signed.run_id, standing.next, codec.encode(abort))
    except TransportError as error:
        return f"not reached: {error}"
    except FedValueError as error:
        if error.code == "E_SUPERSEDED":
            return "over"
        return f"refused: {error} [{error.code}]"
    finally:
        client.close()
    return "notified"
