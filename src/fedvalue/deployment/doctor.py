"""Check everything that a run will need before it starts; each finding has its remedy.

Nothing is changed, and the servers get only a health check. A run makes the same checks when it begins; here
all of them are made, even after one has failed.
"""

from __future__ import annotations

import datetime as dt
import platform
import socket
import time
from collections.abc import Iterator

from fedvalue.agreement.manifest import Manifest, Participant, SignedManifest
from fedvalue.agreement.manifest_rules import Versions, check_pins, check_terms
from fedvalue.deployment.config import TableConfig
from fedvalue.deployment.health import (
    Finding,
    Level,
    check_cards,
    check_clock,
    check_disk,
    check_memory,
    clock_difference,
    guarded,
)
from fedvalue.deployment.network.rpc_client import ASK_SECONDS, ServerClient
from fedvalue.deployment.network.tls_probe import probe
from fedvalue.deployment.run_status import invitation_status
from fedvalue.deployment.sites import Site
from fedvalue.errors import FedValueError
from fedvalue.identity.cards import Identity
from fedvalue.identity.identity_files import read_identity, read_pinned
from fedvalue.identity.tls_certificates import SERVER_ROLES


def examine(site: Site) -> Iterator[Finding]:
    """All findings about one participant.

    1. Software, identity and its permissions, cards, clock, disk.
    2. Per agreement: signatures, validity, version, pinned keys, accepted terms.
    3. Per server of the newest agreement: name, port, TLS, key, our card, version, clock, its health;
       before there is one, whether the servers answer to the newest invitation.
    4. A server's own port; a party's memory and table, read and coded as in the run; before there is an
       agreement, the table's columns.
    """
    versions, python = Versions(), platform.python_version()
    yield Finding("software", Level.OK, f"FedValue {versions.software} with {versions}, Python {python}")
    try:
        identity = read_identity(site.identity)
        agreements = site.agreements
        unpinned = not agreements and not site.peers.exists()  # invited, and not everybody has signed
        cards = {identity.card.name: identity.card} if unpinned else read_pinned(site.peers, identity.card)
    except FedValueError as error:
        yield _failed("identity", error, "make one with `fedvalue init` or `fedvalue accept`")
        return
    yield Finding("identity", Level.OK, f"{identity.card.uri}, private files are readable by you alone")
    if unpinned:
        missing = f"no card is pinned: there is no folder {site.peers}"
        yield Finding("cards", Level.WARN, missing, "cards are pinned when everybody has signed an agreement")
    yield from check_cards(identity.card, cards.values(), time.time())
    yield check_clock(time.time())
    yield guarded("disk", lambda: check_disk(site.state))
    for agreement_id, problem in site.unreadable.items():
        remedy = "let it end with the release that made it, then move its folder away"
        unused = f"{agreement_id} is not used: {problem} [{problem.code}]"
        yield Finding("agreement", Level.WARN, unused, remedy)
    for signed in agreements:
        yield _agreement(signed, site, identity)
    if agreements:
        manifest = agreements[0].manifest
        for server in manifest.servers:
            yield from _server(identity, server, manifest, site.addresses.get(server.name))
        if identity.card.role not in SERVER_ROLES:
            yield from _party(site, manifest, identity)
    elif site.inviting:
        yield from _invitation(site, identity)
        if identity.card.role not in SERVER_ROLES:
            yield _columns(site, identity)
    if site.listen:
        yield _port(site.listen)


def _invitation(site: Site, identity: Identity) -> Iterator[Finding]:
    agreement = site.inviting[0]
    try:
        check_terms(agreement.invitation.proposal, site.accept)
    except FedValueError as error:
        yield _failed("agreement", error, _REMEDIES.get(error.code, "ask the task party for other terms"))
    status = invitation_status(agreement, identity, ask=True)
    unsigned = f"invitation {agreement.id}: not everybody has signed yet"
    yield Finding("agreement", Level.WARN, unsigned, status.next)
    for view in status.servers:
        name = f"server {view.name}"
        if view.problem:
            yield Finding(
                name, Level.WARN, view.problem, "ask its operator; a wrong address needs a new invitation"
            )
        else:
            yield Finding(name, Level.OK, "answers to the invitation")


def _agreement(signed: SignedManifest, site: Site, identity: Identity) -> Finding:
    manifest = signed.manifest
    name, run = "agreement", signed.run_id.hex()[:12]
    try:
        signed.verify(now=dt.datetime.now(dt.UTC))
        check_pins(manifest, read_pinned(site.peers, identity.card))
        check_terms(manifest, site.accept)
    except FedValueError as error:
        return _failed(name, error, _REMEDIES.get(error.code, "ask the task party for a new agreement"))
    until = f"{manifest.expires:%Y-%m-%d %H:%M} UTC"
    return Finding(name, Level.OK, f"{run}: signed by all, keys pinned, terms accepted, until {until}")


_AT_THE_DOOR = "ask its operator; a wrong address in the agreement needs a new invitation (fedvalue invite)"
"""Remedy where no call reaches a server; the problem names the step that fails."""

_REMEDIES = {
    "E_VERSION": "install a release with the agreed versions everywhere",
    "E_IDENTITY": "compare fingerprints and pin the card, or ask for an agreement with the pinned keys",
}


def _server(
    identity: Identity, server: Participant, manifest: Manifest, address: str | None
) -> Iterator[Finding]:
    name = f"server {server.name}"
    target = address or server.endpoint
    problem = probe(identity, server, address)
    if problem is not None:
        yield Finding(name, Level.FAIL, problem, _AT_THE_DOOR)
        return
    client = ServerClient(identity, server, manifest, patience=0.0, address=address, call_seconds=ASK_SECONDS)
    try:
        alive = client.health()
    except FedValueError as error:
        yield _failed(name, error, "ask its operator for the log")
        return
    finally:
        client.close()
    yield Finding(name, Level.OK, f"answers at {target} with the pinned key, accepts our card")
    theirs = Versions(protocol=alive.protocol, values=alive.values, software=alive.software)
    agreed = manifest.versions
    if (theirs.protocol, theirs.values) != (agreed.protocol, agreed.values):
        mismatch = f"it runs FedValue {theirs.software} with {theirs}, the agreement needs {agreed}"
        yield Finding(name, Level.FAIL, mismatch, _REMEDIES["E_VERSION"])
    if difference := clock_difference(alive.time, f"server {server.name!r}"):
        yield Finding(name, Level.FAIL, difference, "run chrony or systemd-timesyncd on both machines")
    for trouble in alive.trouble:
        yield Finding(name, Level.FAIL, f"it reports: {trouble}", "ask its operator")


def _party(site: Site, manifest: Manifest, identity: Identity) -> Iterator[Finding]:
    from fedvalue.deployment.parties.party_input import COLUMN_BYTES, ROW_BYTES

    if site.table is None:
        yield _NO_TABLE
        return
    columns = len(site.table.features or ()) or 10
    needed = manifest.n_samples * (ROW_BYTES + COLUMN_BYTES * columns)
    yield check_memory(min(needed, site.table.memory_mib << 20))
    try:
        yield Finding("table", Level.OK, _check_table(site, site.table, manifest, identity))
    except FedValueError as error:
        yield _failed("table", error, "")


_NO_TABLE = Finding("table", Level.WARN, "not checked", "name it with --table and --id")


def _columns(site: Site, identity: Identity) -> Finding:
    """Check the table's columns, before there is an agreement by which to code them."""
    from fedvalue.deployment.parties.party_input import feature_columns

    if site.table is None:
        return _NO_TABLE
    try:
        features = feature_columns(site.table, identity.card.name, identity.card.role)
    except FedValueError as error:
        return _failed("table", error, "")
    columns = f"has the named columns, features: {', '.join(features) or 'none'}"
    return Finding("table", Level.OK, f"{columns}; rows are checked when everybody has signed")


def _check_table(site: Site, table: TableConfig, manifest: Manifest, identity: Identity) -> str:
    """Read and code the table as the run does, and check the gates that need no other party."""
    from fedvalue.agreement.run_settings import terms_of
    from fedvalue.deployment.parties.party_input import read_input
    from fedvalue.protocol.readiness import check_own_table, check_rows

    card, terms = identity.card, terms_of(manifest)
    coded = read_input(table, manifest, card.name, card.role, site.state)
    check_rows(terms, card.name, coded.rows)
    if manifest.align == "equal":
        check_own_table(terms, card.name, coded.samples)
    sizes = " and ".join(f"{size:,}" for size in coded.sizes)
    notes = "".join(f"; {note}" for note in coded.notes)
    return f"{coded.rows:,} rows, {sizes} codes, passes the agreed limits{notes}"


def _port(listen: str) -> Finding:
    """Check whether a server could listen, or listens already."""
    host, _, port = listen.rpartition(":")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind((host.strip("[]"), int(port)))
        except OSError as error:
            try:
                with socket.create_connection((host.strip("[]"), int(port)), 2.0):
                    return Finding(
                        "port", Level.OK, f"something listens on {listen} already, perhaps this server"
                    )
            except OSError:
                problem = f"cannot listen on {listen}: {error.strerror}"
                remedy = "choose an address of this machine and a free port"
                return Finding("port", Level.FAIL, problem, remedy)
    return Finding("port", Level.OK, f"{listen} is free")


def _failed(check: str, error: FedValueError, remedy: str) -> Finding:
    return Finding(check, Level.FAIL, f"{error} [{error.code}]", remedy)
