"""Where runs stand, at any participant: its own state folder, and what the two servers say.

- Read-only: nothing is written, nothing but names, times, sizes and codes is shown.
- A participant that is not running can be looked at too; a server that cannot be reached is named.
"""

from __future__ import annotations

import datetime as dt
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from fedvalue.agreement.manifest import Manifest, SignedManifest
from fedvalue.agreement.manifest_files import read_manifest
from fedvalue.agreement.manifest_rules import Terms
from fedvalue.deployment.config import ServerConfig, TableConfig, read_party_config, read_server_config
from fedvalue.deployment.health import clock_difference, duration
from fedvalue.deployment.home import Home
from fedvalue.deployment.network.rpc_client import ServerClient
from fedvalue.deployment.parties.party_store import PartyStore
from fedvalue.deployment.servers.server_store import ServerStore
from fedvalue.documents import Document
from fedvalue.errors import ConfigError, FedValueError, InputError
from fedvalue.identity.audit_log import read_line, read_log
from fedvalue.identity.cards import Identity
from fedvalue.identity.identity_files import read_identity

SCHEMA = "fedvalue.status/1"

ADVICE = {
    "E_DEADLINE": "Ask those who are missing when they can take part, then repeat the run.",
    "E_POPULATION": "Compare the extracts, or agree on a run that reduces the tables to the common ids.",
    "E_GATE": "A table breaks a limit that protects single persons: use fewer or coarser columns.",
    "E_IDENTITY": "Compare fingerprints; perhaps a card is not pinned yet.",
    "E_MANIFEST": "Check the agreement: `fedvalue manifest verify` and `show`.",
    "E_STORAGE": "Free some space on the disk of the participant that is named.",
    "E_MIRROR": "The servers disagree, and no value was released: keep the logs and talk to both operators.",
    "E_BUDGET": "The privacy budget of these samples is spent.",
    "E_VERSION": "Install a release with the agreed versions everywhere.",
}
"""What to do after a failure, by code."""

MOST_RUNS = 25
"""Runs that are shown, the newest first; older ones by their id."""

STAGES = {
    "inviting": "collecting answers to the invitation",
    "open": "waiting for the participants",
    "keying": "agreeing on keys",
    "uploading": "uploading and counting",
    "agreeing": "comparing the results",
    "running": "under way",
    "done": "done",
    "failed": "failed",
}
"""A stage, in words."""


class Sender(Document, frozen=True, kw_only=True):
    """What a server has stored of one participant."""

    name: str
    role: str
    messages: int
    n_bytes: int


class ServerView(Document, frozen=True, kw_only=True):
    """What one server says about a run, or why it does not answer."""

    name: str
    reachable: bool
    stage: str = ""
    deadline: dt.datetime | None = None
    awaited: tuple[str, ...] = ()
    n_bytes: int = 0
    problem: str = ""


class Event(Document, frozen=True):
    """An entry of the participant's own audit log."""

    time: str
    event: str


class RunStatus(Document, frozen=True, kw_only=True):
    """One run, as one participant sees it.

    Args:
        run_id: Hex.
        purpose: As agreed; empty where the agreement is not here.
        state: open, running, done or failed.
        stage: Of the computation server if it answers, otherwise what is known here.
        awaited: Whose messages are missing now.
        deadline: When the stage ends at the latest.
        n_bytes: Accepted by this server, or by the two servers from this party.
        code: Why it failed.
        reason: The same in words.
        next: What to do.
        servers: What the servers say.
        senders: What a server has stored, by participant.
        audit: Whether the participant's own audit log is whole.
        history: Its last entries.
    """

    run_id: str
    purpose: str = ""
    state: str
    stage: str
    awaited: tuple[str, ...] = ()
    deadline: dt.datetime | None = None
    n_bytes: int = 0
    code: str = ""
    reason: str = ""
    next: str = ""
    servers: tuple[ServerView, ...] = ()
    senders: tuple[Sender, ...] = ()
    audit: str = ""
    history: tuple[Event, ...] = ()


class Status(Document, frozen=True, kw_only=True, tag_field="schema", tag=SCHEMA):
    """Everything that `fedvalue status --json` prints."""

    name: str
    role: str
    time: dt.datetime
    runs: tuple[RunStatus, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a participant keeps what a status needs: found by `place_of`.

    Args:
        identity: Folder of the keys.
        peers: Folder of the pinned cards.
        state: Folder of its runs.
        agreements: Signed manifests in this home folder.
        addresses: host:port of servers that are reached in another way than the manifest says.
        inviting: (id, purpose) of invitations that not everybody has accepted.
        accept: The weakest terms that the participant accepts.
        table: A party's rows, where they are known.
        listen: Where a server listens.
    """

    identity: Path
    peers: Path
    state: Path
    agreements: tuple[SignedManifest, ...] = ()
    addresses: dict[str, str] | None = None
    inviting: tuple[tuple[str, str], ...] = ()
    accept: Terms = Terms()  # noqa: RUF009  it is frozen
    table: TableConfig | None = None
    listen: str = ""


def place_of(config: Path | None, home: Path) -> Place:
    """The place that a configuration file or a home folder describes.

    Raises:
        ConfigError: The file is wrong, or nobody has taken part from this folder.
    """
    if config is None:
        return _of_home(home)
    try:
        is_party = re.search(r"^\[table\]", config.read_text("utf-8"), re.MULTILINE) is not None
    except (OSError, UnicodeDecodeError):
        is_party = False  # the reader of servers says what is wrong
    if not is_party:
        server = read_server_config(config)
        return place_of_server(server)
    party = read_party_config(config)
    signed = _agreement(party.manifest)
    agreements = () if signed is None else (signed,)
    return Place(
        party.identity, party.peers, party.state, agreements, party.addresses, accept=party.accept,
        table=party.table,
    )  # fmt: skip


def place_of_server(config: ServerConfig) -> Place:
    """The place of a server."""
    return Place(config.identity, config.peers, config.state, accept=config.accept, listen=config.listen)


def _of_home(folder: Path) -> Place:
    home = Home(folder.resolve())
    if not home.identity.is_dir():
        raise ConfigError(
            f"nobody takes part from {folder}: run `fedvalue accept INVITATION` first, name the folder with "
            "--home, or a configuration file with --config"
        )
    agreements, inviting = [], []
    for one in home.agreements():
        signed = one.signed
        if signed is None:
            inviting.append((one.id, str(one.invitation.terms.get("purpose", ""))))
        else:
            agreements.append(signed)
    return Place(
        home.identity, home.peers, home.state, tuple(agreements), None, tuple(inviting), home.policy()
    )


def read_status(place: Place, run: str = "", *, ask: bool = True, history: int = 12) -> Status:
    """The runs of one participant, the newest first.

    Args:
        place: Where it keeps them.
        run: Only runs whose id begins with this.
        ask: Whether to ask the two servers about runs that have not ended.
        history: Most entries of the audit log per run.

    Raises:
        InputError: E_RUN: no run has this id.
        ConfigError: The identity cannot be read.
    """
    identity = read_identity(place.identity)
    found = _of_server(place, run.lower()) if (place.state / "server.sqlite").is_file() else _of_party(place)
    found += [
        (RunStatus(run_id=number, purpose=purpose, state="open", stage="inviting"), None, [])
        for number, purpose in place.inviting
    ]
    if run:
        found = [one for one in found if one[0].run_id.startswith(run.lower())]
        if not found:
            raise InputError(f"no run here has an id that begins with {run!r}", code="E_RUN")
    runs = []
    for status, signed, log in found[:MOST_RUNS]:
        asked = status
        if ask and signed is not None and status.state in ("open", "running"):
            asked = _asked(status, signed.manifest, identity, place.addresses or {})
        advice = _next(asked, identity.card.name, signed)
        purpose = status.purpose or (signed.manifest.purpose if signed is not None else "")
        runs.append(
            replace(
                asked,
                purpose=purpose,
                next=advice,
                history=_events(log, history),
                audit=_audit(log, identity),
            )
        )
    now = dt.datetime.now(dt.UTC).replace(microsecond=0)
    return Status(name=identity.card.name, role=identity.card.role, time=now, runs=tuple(runs))


Found = tuple[RunStatus, SignedManifest | None, list[str]]
"""A run, its agreement where it is known, and the lines of its audit log."""


def _of_server(place: Place, run: str) -> list[Found]:
    store = ServerStore(place.state)
    try:
        found: list[Found] = []
        rows = [row for row in store.runs() if row.run_id.hex().startswith(run)]
        for row in sorted(rows, key=lambda row: -row.stage_since)[:MOST_RUNS]:
            signed = SignedManifest.from_json(row.manifest)
            volumes = [(one, store.volume(row.run_id, one.name)) for one in signed.manifest.participants]
            senders = tuple(
                Sender(name=one.name, role=one.role, messages=messages, n_bytes=n_bytes)
                for one, (messages, n_bytes) in volumes
                if messages
            )
            status = RunStatus(
                run_id=row.run_id.hex(), purpose=signed.manifest.purpose, state=row.state, stage=row.stage,
                n_bytes=sum(one.n_bytes for one in senders), code=row.code, reason=row.reason,
                senders=senders,
            )  # fmt: skip
            found.append((status, signed, store.audit(row.run_id)))
        return found
    finally:
        store.close()


def _of_party(place: Place) -> list[Found]:
    found: list[Found] = []
    known = {one.run_id: one for signed in place.agreements for one in _attempts(signed)}
    if (place.state / "party.sqlite").is_file():
        store = PartyStore(place.state)
        try:
            for run_id, state, code, reason in store.runs():
                status = RunStatus(run_id=run_id.hex(), state=state, stage=state, code=code, reason=reason)
                found.append((status, known.get(run_id), store.audit(run_id)))
        finally:
            store.close()
    found.sort(key=lambda one: [event.time for event in _events(one[2], 1)], reverse=True)
    begun = {signed.manifest.agreement_id for _, signed, _ in found if signed is not None}
    fresh = [signed for signed in place.agreements if signed.manifest.agreement_id not in begun]
    return [
        (RunStatus(run_id=one.run_id.hex(), state="open", stage="open"), one, []) for one in fresh
    ] + found


_MOST_ATTEMPTS = 20


def _attempts(signed: SignedManifest) -> list[SignedManifest]:
    """An agreement with the numbers that its runs may have had."""
    return [signed.repeated(number) for number in range(1, _MOST_ATTEMPTS + 1)]


def _agreement(path: Path) -> SignedManifest | None:
    try:
        return read_manifest(path)
    except ConfigError:
        return None


def _asked(status: RunStatus, manifest: Manifest, identity: Identity, addresses: dict[str, str]) -> RunStatus:
    """The same with what the servers say."""
    views = []
    for server in manifest.servers:
        client = ServerClient(
            identity, server, manifest, patience=0.0, address=addresses.get(server.name), call_seconds=5.0
        )
        try:
            views.append(_view(server.name, client, bytes.fromhex(status.run_id)))
        finally:
            client.close()
    own = next((one for one in views if one.name == identity.card.name), views[0])
    return replace(
        status, stage=own.stage or status.stage, awaited=own.awaited, deadline=own.deadline,
        n_bytes=status.n_bytes or sum(one.n_bytes for one in views), servers=tuple(views),
    )  # fmt: skip


def _view(name: str, client: ServerClient, run_id: bytes) -> ServerView:
    try:
        standing = client.status(run_id)
    except FedValueError as error:
        if error.code == "E_RUN":
            return ServerView(name=name, reachable=True, problem=f"server {name!r} does not know the run yet")
        return ServerView(name=name, reachable=False, problem=str(error))
    deadline = dt.datetime.fromtimestamp(round(standing.deadline), dt.UTC) if standing.deadline else None
    return ServerView(
        name=name, reachable=True, stage=standing.stage, deadline=deadline,
        awaited=standing.awaited, n_bytes=standing.n_bytes,
        problem=clock_difference(standing.time, f"server {name!r}"),
    )  # fmt: skip


def _next(status: RunStatus, me: str, signed: SignedManifest | None) -> str:
    """What the participant should do."""
    settled = {
        "done": "Nothing: the run has ended well.",
        "failed": ADVICE.get(status.code, "See the meaning of the code in the deployment guide."),
        "inviting": "Wait until everybody has accepted and started; then compare the words.",
    }
    if words := settled.get(status.state) or settled.get(status.stage):
        return words
    if signed is not None and signed.missing:
        return f"Not signed yet by {', '.join(signed.missing)}: ask for the signatures."
    if problem := next((one.problem for one in status.servers if not one.reachable), ""):
        return f"{problem[:1].upper()}{problem[1:]}."
    if me in status.awaited:
        return "Your part: start `fedvalue run` or `fedvalue join`, unless it is running already."
    if status.awaited:
        late = f" They have {duration(_left(status.deadline))} left." if status.deadline else ""
        return f"Wait for {', '.join(status.awaited)}, or remind them.{late}"
    begun = any(one.stage for one in status.servers) or not status.servers
    return "Wait: the servers are at work." if begun else "Start `fedvalue run` or `fedvalue join`."


def _left(deadline: dt.datetime) -> float:
    return max(0.0, deadline.timestamp() - time.time())


def _audit(lines: Sequence[str], identity: Identity) -> str:
    if not lines:
        return ""
    try:
        return f"{len(read_log(lines, identity.card.sign_key)):,} entries, unbroken"
    except FedValueError as error:
        return str(error)


def _events(lines: Sequence[str], most: int) -> tuple[Event, ...]:
    entries = [read_line(line).entry for line in (lines[-most:] if most else ())]
    return tuple(Event(entry.time, entry.event) for entry in entries)
