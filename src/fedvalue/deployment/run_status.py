"""The status of a participant's runs, from its own state folder and from the servers.

- Read-only: nothing is written, and only names, times, sizes and codes are shown.
- The participant need not be running; a server that cannot be reached is named.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING

from msgspec.structs import replace

from fedvalue.agreement.manifest import Manifest, SignedManifest
from fedvalue.deployment.agreeing import WAITING, Agreeing, remote_lobbies
from fedvalue.deployment.health import clock_difference, duration
from fedvalue.deployment.network.rpc_client import ASK_SECONDS, ServerClient
from fedvalue.deployment.parties.party_store import PartyStore
from fedvalue.deployment.servers.server_store import ServerStore
from fedvalue.documents import Document
from fedvalue.errors import FedValueError, InputError
from fedvalue.identity.audit_log import read_line, read_log
from fedvalue.identity.cards import Identity
from fedvalue.identity.identity_files import read_identity

if TYPE_CHECKING:
    from fedvalue.deployment.home import Agreement
    from fedvalue.deployment.sites import Site

SCHEMA = "fedvalue.status/1"

ADVICE = {
    "E_DEADLINE": "Ask the missing participants when they can take part, then repeat the run.",
    "E_POPULATION": "Compare the extracts and repeat the run with --again, or invite again with "
    "`--align intersect`, which reduces the tables to the common ids.",
    "E_GATE": "A table breaks a limit that protects single persons: use fewer or coarser columns.",
    "E_IDENTITY": "Compare fingerprints; perhaps a card is not pinned yet.",
    "E_MANIFEST": "Check the agreement: `fedvalue manifest verify` and `show`.",
    "E_STORAGE": "Free some space on the disk of the participant that is named.",
    "E_MIRROR": "The servers disagree, and no value was released: keep the logs and talk to both operators.",
    "E_BUDGET": "A limit is exceeded, of the privacy budget or of the size of a run: the reason says which.",
    "E_VERSION": "Install a release with the agreed versions everywhere.",
}
"""What to do after a failure, by code."""

MOST_RUNS = 25
"""Runs that are shown, the newest first; older ones are shown by their id."""

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
    """The messages of one participant that a server has stored."""

    name: str
    role: str
    messages: int
    n_bytes: int


class ServerView(Document, frozen=True, kw_only=True):
    """One server's answer about a run, or why there is none."""

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
        stage: Of the computation server if it answers, otherwise as known here.
        awaited: Participants whose messages are missing now.
        deadline: Latest end of the stage.
        n_bytes: Accepted by this server, or by the servers from this party.
        code: Code of its failure.
        reason: The same in words.
        next: What to do.
        servers: The servers' answers.
        senders: Stored messages, by participant, at a server.
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


def read_status(site: Site, run: str = "", *, ask: bool = True, history: int = 12) -> Status:
    """The runs of one participant, the newest first.

    Args:
        site: Where it keeps them.
        run: Only runs whose id begins with this.
        ask: Whether to ask the servers about runs that have not ended.
        history: Largest number of entries of the audit log per run.

    Raises:
        InputError: E_RUN: no run has this id.
        ConfigError: The identity cannot be read.
    """
    identity, start = read_identity(site.identity), run.lower()
    stored = _of_server(site, start) if (site.state / "server.sqlite").is_file() else _of_party(site)
    stored = [known for known in stored if known[0].run_id.startswith(start)]
    inviting = [agreement for agreement in site.inviting if agreement.id.startswith(start)]
    if run and not stored and not inviting:
        raise InputError(f"no run here has an id that begins with {run!r}", code="E_RUN")
    runs = [invitation_status(agreement, identity, ask=ask) for agreement in inviting]
    for status, signed, log in stored[:MOST_RUNS]:
        if ask and signed is not None and status.state in ("open", "running"):
            status = _asked(status, signed.manifest, identity, site.addresses)  # noqa: PLW2901
        purpose = status.purpose or (signed.manifest.purpose if signed is not None else "")
        advice = _next(status, identity.card.name, signed)
        events, audit = _events(log, history), _audit(log, identity)
        runs.append(replace(status, purpose=purpose, next=advice, history=events, audit=audit))
    now = dt.datetime.now(dt.UTC).replace(microsecond=0)
    return Status(name=identity.card.name, role=identity.card.role, time=now, runs=tuple(runs))


def invitation_status(agreement: Agreement, identity: Identity, *, ask: bool) -> RunStatus:
    """The status of the exchange of an accepted invitation."""
    exchange, views = agreement.exchange(identity), []
    if ask:
        lobbies = remote_lobbies(exchange.invitation)
        problems: dict[str, FedValueError] = {}
        try:
            problems |= Agreeing(exchange, lobbies, fix=agreement.fix, consent=lambda _: None).look()
        except FedValueError as error:
            problems |= dict.fromkeys((lobby.name for lobby in lobbies), error)
        finally:
            for lobby in lobbies:
                lobby.close()
        for lobby in lobbies:
            problem = str(problems.get(lobby.name, ""))
            view = ServerView(name=lobby.name, reachable=not problem, stage="inviting", problem=problem)
            views.append(view)
    me, role, (what, names) = identity.card.name, identity.card.role, exchange.awaited()
    silent = [view.name for view in views if view.problem]
    if silent and me not in silent:
        names, advice = (), f"Ask the operators of {', '.join(silent)} to accept and to start their servers."
    elif not views or me in (*names, *silent) or not what:
        command = {"task": "run", "data": "join"}.get(role, f"serve {role}")
        advice = f"Start `fedvalue {command}`, unless it is running already; it waits for the others."
    else:
        advice = f"Wait for {', '.join(names)} {WAITING[what]}, or remind them."
    proposal = exchange.invitation.proposal
    return RunStatus(
        run_id=agreement.id, purpose=proposal.purpose, state="open", stage="inviting", next=advice,
        awaited=names if views and not silent else (), deadline=proposal.expires, servers=tuple(views),
    )  # fmt: skip


StoredRun = tuple[RunStatus, SignedManifest | None, list[str]]
"""A run, its agreement where it is known, and the lines of its audit log."""

_MOST_ATTEMPTS = 20
"""Runs under one agreement that a party recognises by their ids."""


def _of_server(site: Site, start: str) -> list[StoredRun]:
    runs: list[StoredRun] = []
    with closing(ServerStore(site.state)) as store:
        rows = [row for row in store.runs() if row.run_id.hex().startswith(start)]
        for row in sorted(rows, key=lambda row: -row.stage_since)[:MOST_RUNS]:
            signed, senders = SignedManifest.from_json(row.manifest), []
            for participant in signed.manifest.participants:
                name, role = participant.name, participant.role
                messages, n_bytes = store.volume(row.run_id, name)
                if messages:
                    senders.append(Sender(name=name, role=role, messages=messages, n_bytes=n_bytes))
            status = RunStatus(
                run_id=row.run_id.hex(), purpose=signed.manifest.purpose, state=row.state, stage=row.stage,
                n_bytes=sum(sender.n_bytes for sender in senders), code=row.code, reason=row.reason,
                senders=tuple(senders),
            )  # fmt: skip
            runs.append((status, signed, store.audit(row.run_id)))
    return runs


def _of_party(site: Site) -> list[StoredRun]:
    runs: list[StoredRun] = []
    attempts = [
        signed.repeated(number) for signed in site.agreements for number in range(1, _MOST_ATTEMPTS + 1)
    ]
    known = {signed.run_id: signed for signed in attempts}
    if (site.state / "party.sqlite").is_file():
        with closing(PartyStore(site.state)) as store:
            for run_id, state, code, reason in store.runs():
                status = RunStatus(run_id=run_id.hex(), state=state, stage=state, code=code, reason=reason)
                runs.append((status, known.get(run_id), store.audit(run_id)))
    runs.sort(key=lambda run: [event.time for event in _events(run[2], 1)], reverse=True)
    begun = {signed.manifest.agreement_id for _, signed, _ in runs if signed is not None}
    fresh: list[StoredRun] = [
        (RunStatus(run_id=signed.run_id.hex(), state="open", stage="open"), signed, [])
        for signed in site.agreements
        if signed.manifest.agreement_id not in begun
    ]
    return fresh + runs


def _asked(status: RunStatus, manifest: Manifest, identity: Identity, addresses: dict[str, str]) -> RunStatus:
    """The status with the servers' answers."""
    views = []
    for server in manifest.servers:
        address = addresses.get(server.name)
        client = ServerClient(
            identity, server, manifest, patience=0.0, address=address, call_seconds=ASK_SECONDS
        )
        with closing(client):
            views.append(_view(server.name, client, bytes.fromhex(status.run_id)))
    own = next((view for view in views if view.name == identity.card.name), views[0])
    return replace(
        status, stage=own.stage or status.stage, awaited=own.awaited, deadline=own.deadline,
        n_bytes=status.n_bytes or sum(view.n_bytes for view in views), servers=tuple(views),
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
    """Advice to the participant."""
    if status.state in ("done", "failed"):
        failed = ADVICE.get(status.code, "Look up the code in the deployment guide.")
        return failed if status.state == "failed" else "Nothing: the run has ended with a result."
    if signed is not None and signed.missing:
        return f"Not signed yet by {', '.join(signed.missing)}: ask for the signatures."
    if problem := next((server.problem for server in status.servers if not server.reachable), ""):
        return f"{problem[:1].upper()}{problem[1:]}."
    if me in status.awaited:
        return "Your part: start `fedvalue run` or `fedvalue join`, unless it is running already."
    if status.awaited:
        late = ""
        if status.deadline:
            left = duration(max(0.0, status.deadline.timestamp() - time.time()))
            late = f" They have {left} left."
        return f"Wait for {', '.join(status.awaited)}, or remind them.{late}"
    begun = any(server.stage for server in status.servers) or (status.state != "open" and not status.servers)
    start = "Start `fedvalue run` or `fedvalue join`, unless it is running already."
    return "Wait: the servers are at work." if begun else start


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
