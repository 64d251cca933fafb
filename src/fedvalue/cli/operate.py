"""`fedvalue status`, `doctor` and `backup`: tools for every participant."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedvalue.cli import exit_codes
from fedvalue.cli.shared_options import DEFAULT_HOME, HomeFolder, Label
from fedvalue.cli.terminal import print_json, print_line, print_table, say

if TYPE_CHECKING:
    from fedvalue.deployment.run_status import RunStatus, Status
    from fedvalue.deployment.sites import Site

Config = Annotated[Path | None, typer.Option(help="server.toml, party.toml or task.toml, instead of --home.")]

_WATCH_SECONDS = 2.0


def status(
    run: Annotated[str, typer.Argument(help="First digits of a run's id; all runs by default.")] = "",
    config: Config = None,
    home: HomeFolder = DEFAULT_HOME,
    watch: Annotated[bool, typer.Option("--watch", help="Print again when something changes.")] = False,
    json_: Annotated[bool, typer.Option("--json", help="Print JSON; with --watch, one line each.")] = False,
    offline: Annotated[bool, typer.Option("--offline", help="Do not ask the servers.")] = False,
    page: Annotated[
        str | None,
        typer.Option(help="Show a page in the browser at this loopback address.", metavar="HOST:PORT"),
    ] = None,
) -> None:
    """Show where runs stand: stage, missing participants, deadline, bytes, what to do. Changes nothing.

    Works for every participant, during a run and after it.
    """
    from fedvalue.deployment.process import harden
    from fedvalue.deployment.run_status import read_status
    from fedvalue.deployment.sites import site_of

    harden()
    site = site_of(config, home)
    if page is not None:
        _serve(site, page)
        return
    before = None
    while True:
        current = read_status(site, run, ask=not offline)
        if current.runs != before:
            _print(current, json_, compact=watch)
            before = current.runs
        if not watch or (run and all(known.state in ("done", "failed") for known in current.runs)):
            return
        time.sleep(_WATCH_SECONDS)


def _serve(site: Site, listen: str) -> None:
    from fedvalue.deployment.process import stop_on_signals
    from fedvalue.deployment.servers.observability import LoopbackServer
    from fedvalue.deployment.status_page import page_routes

    stop = stop_on_signals()
    server = LoopbackServer(page_routes(site), listen)
    server.start()
    say(f"http://{listen.rpartition(':')[0]}:{server.port}/  (Ctrl-C ends it)")
    stop.wait()
    server.stop()


def _print(current: Status, json_: bool, *, compact: bool) -> None:
    if json_:
        print_json(current, compact=compact)
        return
    print_line(f"{current.name} ({current.role}), {current.time:%Y-%m-%d %H:%M:%S} UTC")
    if not current.runs:
        print_line("No run yet.")
    for run in current.runs:
        _print_run(run)


def _print_run(run: RunStatus) -> None:
    from fedvalue.deployment.run_status import STAGES

    print_line("")
    print_line(f"run {run.run_id[:12]}  {run.purpose}")
    facts = [
        ("stage", STAGES.get(run.stage, run.stage)),
        ("why", f"{run.reason} [{run.code}]" if run.code else ""),
        ("awaited", ", ".join(run.awaited)),
        ("deadline", "" if run.deadline is None else f"{run.deadline:%Y-%m-%d %H:%M:%S} UTC"),
        ("stored", f"{run.n_bytes:,} bytes at the servers" if run.n_bytes else ""),
        ("audit log", run.audit),
        ("next", run.next),
    ]
    for view in run.servers:
        sent = f", {view.n_bytes:,} bytes from us" if view.n_bytes else ""
        facts.append((view.name, (view.problem or STAGES.get(view.stage, view.stage)) + sent))
    for name, fact in facts:
        if fact:
            print_line(f"  {name:<9} {fact}")
    if run.senders:
        rows = [[s.name, s.role, f"{s.messages:,}", f"{s.n_bytes:,}"] for s in run.senders]
        print_table(["from", "role", "messages", "bytes"], rows, left=(0, 1))


def doctor(
    config: Config = None,
    home: HomeFolder = DEFAULT_HOME,
    table: Annotated[str | None, typer.Option(help="Your table, if no configuration names it.")] = None,
    id_: Annotated[str, typer.Option("--id", help="Column of the table that names a sample.")] = "id",
    label: Label = None,
    json_: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Check clock, ports, names, TLS and pins, cards, permissions, disk, memory, versions, table and terms.

    Each finding comes with its remedy. Exits with code 4 if something would prevent a run from working.
    """
    from dataclasses import replace

    from fedvalue.deployment.config import TableConfig
    from fedvalue.deployment.doctor import examine
    from fedvalue.deployment.health import Level
    from fedvalue.deployment.process import harden
    from fedvalue.deployment.sites import site_of

    harden()
    site = site_of(config, home)
    if table is not None:
        site = replace(site, table=TableConfig(source=table, id=id_, label=label))
    findings = []
    for finding in examine(site):
        findings.append(finding)
        if not json_:
            print_line(f"{finding.level.value:<5} {finding.check:<16} {finding.words}")
            if finding.remedy:
                print_line(f"{'':<5} {'':<16} -> {finding.remedy}")
    levels = [finding.level for finding in findings]
    failed, warned = levels.count(Level.FAIL), levels.count(Level.WARN)
    if json_:
        print_json(findings)
    else:
        warnings = f", {warned} warning{'s' if warned > 1 else ''}" if warned else ""
        say(f"{len(findings)} checks: {failed or 'none'} failed{warnings}")
    if failed:
        raise typer.Exit(exit_codes.CONFIG)


def make(
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder of the archives.")],
    keep: Annotated[int, typer.Option(min=0, help="Keep this many archives; 0 keeps all.")] = 0,
    config: Config = None,
    home: HomeFolder = DEFAULT_HOME,
) -> None:
    """Back up databases, audit logs and pinned cards, also while the participant runs.

    Private keys are not included: copy the identity folder to a safe place once. Neither are active runs,
    which cannot be continued from a copy.
    """
    from fedvalue.deployment.backup import back_up
    from fedvalue.deployment.process import harden
    from fedvalue.deployment.sites import site_of
    from fedvalue.errors import InputError

    if output.suffix == ".tar" and not output.is_dir():
        raise InputError(f"-o {output}: name a folder; each archive in it gets its own name")
    harden()
    say(str(back_up(site_of(config, home), output, keep)))


def restore(
    archive: Annotated[Path, typer.Argument(help="An archive that `fedvalue backup make` wrote.")],
    home: HomeFolder = DEFAULT_HOME,
) -> None:
    """Restore an archive into a home without a state. Copy the identity folder back yourself."""
    from fedvalue.deployment.backup import restore as put_back
    from fedvalue.deployment.process import harden

    harden()
    restored = put_back(archive, home)
    owner, moment = f"{restored.name} ({restored.role})", f"{restored.created:%Y-%m-%d %H:%M:%S} UTC"
    say(f"restored {owner} as of {moment} into {home}")
    if "state/ledger.sqlite" in restored.files:
        say("The ledger does not know what was spent since then: compare it with the agreements you signed.")


backup = (make, restore)
