"""Where runs stand, at any participant: its own state folder, and what the two servers say.

- Read-only: nothing is written, nothing but names, times, sizes and codes is shown.
- A participant that is not running can be looked at too; a server that cannot be reached is named.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Sequence
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
    "E_DEADLINE": "Ask those who are missing when they can take part, then repeat the run.",
    "E_POPULATION": "Compare the extracts, or agree on a run that reduces the tables to the common ids.",
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


def read_status(site: Site, run: str = "", *, ask: bool = True, history: int = 12) -> Status:
    """The runs of one participant, the newest first.

    Args:
        site: Where it keeps them.
        run: Only runs whose id begins with this.
        ask: Whether to ask the two servers about runs that have not ended.
        history: Most entries of the audit log per run.

    Raises:
        InputError: E_RUN: no run has this id.
        ConfigError: The identity cannot be read.
    """
    identity = read_identity(site.identity)
    stored = _of_server(site, run.lower()) if (site.state / "server.sqlite").is_file() else _of_party(site)
    inviting = [one for one in site.inviting if one.id.startswith(run.lower())]
    stored = [one for one in stored if one[0].run_id.startswith(run.lower())]
    if run and not stored and not inviting:
        raise InputError(f"no run here has an id that begins with {run!r}", code="E_RUN")
    runs = [invitation_status(one, identity, ask=ask) for one in inviting]
    for status, signed, log in stored[:MOST_RUNS]:
        asked = status
        if ask and signed is not None and status.state in ("open", "running"):
            asked = _asked(status, signed.manifest, identity, site.addresses)
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


def invitation_status(agreement: Agreement, identity: Identity, *, ask: bool) -> RunStatus:
    """Where the exchange of an accepted invitation stands."""
    exchange, views = agreement.exchange(identity), []
    if ask:
        lobbies = remote_lobbies(exchange.invitation)
        problems: dict[str, FedValueError] = {}
        try:
            problems |= Agreeing(exchange, lobbies, fix=agreement.fix, consent=lambda _: None).look()
        except FedValueError as error:
            problems |= dict.fromkeys((one.name for one in lobbies), error)
        finally:
            for lobby in lobbies:
                lobby.close()
        for one in lobbies:
            bad = problems.get(one.name, "")
            views.append(ServerView(name=one.name, reachable=not bad, stage="inviting", problem=str(bad)))
    me, role, (what, names) = identity.card.name, identity.card.role, exchange.awaited()
    silent = [one.name for one in views if one.problem]
    if silent and me not in silent:
        names, advice = (), f"Ask the operators of {', '.join(silent)} to accept and to start their servers."
    elif not views or me in (*names, *silent) or not what:
        own = {"task": "run", "data": "join"}.get(role, f"serve {role}")
        advice = f"Start `fedvalue {own}`, unless it is running already; it waits for the others."
    else:
        advice = f"Wait for {', '.join(names)} {WAITING[what]}, or remind them."
    proposal = exchange.invitation.proposal
    return RunStatus(
        run_id=agreement.id, purpose=proposal.purpose, state="open", stage="inviting", next=advice,
        awaited=names if views and not silent else (), deadline=proposal.expires, servers=tuple(views),
    )  # fmt: skip


Found = tuple[RunStatus, SignedManifest | None, list[str]]
"""A run, its agreement where it is known, and the lines of its audit log."""


def _of_server(site: Site, run: str) -> list[Found]:
    store = ServerStore(site.state)
    try:
        runs: list[Found] = []
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
            runs.append((status, signed, store.audit(row.run_id)))
        return runs
    finally:
        store.close()


def _of_party(site: Site) -> list[Found]:
    runs: list[Found] = []
    known = {one.run_id: one for signed in site.agreements for one in _attempts(signed)}
    if (site.state / "party.sqlite").is_file():
        store = PartyStore(site.state)
        try:
            for run_id, state, code, reason in store.runs():
                status = RunStatus(run_id=run_id.hex(), state=state, stage=state, code=code, reason=reason)
                runs.append((status, known.get(run_id), store.audit(run_id)))
        finally:
            store.close()
    runs.sort(key=lambda one: [event.time for event in _events(one[2], 1)], reverse=True)
    begun = {signed.manifest.agreement_id for _, signed, _ in runs if signed is not None}
    fresh = [signed for signed in site.agreements if signed.manifest.agreement_id not in begun]
    return [(RunStatus(run_id=one.run_id.hex(), state="open", stage="open"), one, []) for one in fresh] + runs


_MOST_ATTEMPTS = 20


def _attempts(signed: SignedManifest) -> list[SignedManifest]:
    """An agreement with the numbers that its runs may have had."""
    return [signed.repeated(number) for number in range(1, _MOST_ATTEMPTS + 1)]


def _asked(status: RunStatus, manifest: Manifest, identity: Identity, addresses: dict[str, str]) -> RunStatus:
    """The same with what the servers say."""
    views = []
    for server in manifest.servers:
        client = ServerClient(
            identity,
            server,
            manifest,
            patience=0.0,
            address=addresses.get(server.name),
            call_seconds=ASK_SECONDS,
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
    }
    if words := settled.get(status.state):
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
