"""`fedvalue status`: where runs stand, whom they wait for, and what to do."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedvalue.cli.shared_options import DEFAULT_HOME, HomeFolder
from fedvalue.cli.terminal import print_line, print_table, say

if TYPE_CHECKING:
    from fedvalue.deployment.run_status import RunStatus, Status

_WATCH_SECONDS = 2.0


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("status")(status)


def status(
    run: Annotated[str, typer.Argument(help="First digits of a run's id; all runs by default.")] = "",
    config: Annotated[
        Path | None, typer.Option(help="server.toml, party.toml or task.toml, instead of --home.")
    ] = None,
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

    Works at every participant, also while a run is under way or after it has ended.
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
        if not watch or (run and all(one.state in ("done", "failed") for one in current.runs)):
            return
        time.sleep(_WATCH_SECONDS)


def _serve(site: object, listen: str) -> None:
    from fedvalue.deployment.process import stop_on_signals
    from fedvalue.deployment.servers.observability import LoopbackServer
    from fedvalue.deployment.sites import Site
    from fedvalue.deployment.status_page import page_routes

    assert isinstance(site, Site)
    stop = stop_on_signals()
    server = LoopbackServer(page_routes(site), listen)
    server.start()
    say(f"http://{listen.rpartition(':')[0]}:{server.port}/  (Ctrl-C ends it)")
    stop.wait()
    server.stop()


def _print(current: Status, json_: bool, *, compact: bool) -> None:
    if json_:
        import json

        import msgspec

        typer.echo(json.dumps(msgspec.to_builtins(current), indent=None if compact else 2))
        return
    print_line(f"{current.name} ({current.role}), {current.time:%Y-%m-%d %H:%M:%S} UTC")
    if not current.runs:
        print_line("No run yet.")
    for one in current.runs:
        _print_run(one)


def _print_run(one: RunStatus) -> None:
    from fedvalue.deployment.run_status import STAGES

    print_line("")
    print_line(f"run {one.run_id[:12]}  {one.purpose}")
    facts = {"stage": STAGES.get(one.stage, one.stage)}
    if one.code:
        facts["why"] = f"{one.reason} [{one.code}]"
    if one.awaited:
        facts["awaited"] = ", ".join(one.awaited)
    if one.deadline is not None:
        facts["deadline"] = f"{one.deadline:%Y-%m-%d %H:%M:%S} UTC"
    if one.n_bytes:
        facts["stored"] = f"{one.n_bytes:,} bytes at the servers"
    if one.audit:
        facts["audit log"] = one.audit
    facts["next"] = one.next
    for name, words in facts.items():
        print_line(f"  {name:<9} {words}")
    for view in one.servers:
        words = view.problem or STAGES.get(view.stage, view.stage)
        words += f", {view.n_bytes:,} bytes from us" if view.n_bytes else ""
        print_line(f"  {view.name:<9} {words}")
    if one.senders:
        rows = [[s.name, s.role, f"{s.messages:,}", f"{s.n_bytes:,}"] for s in one.senders]
        print_table(["from", "role", "messages", "bytes"], rows, left=(0, 1))
