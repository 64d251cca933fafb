"""`fedvalue demo`: a whole federated valuation on this machine."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from fedvalue.cli.shared_options import JsonFile
from fedvalue.cli.terminal import show_valuation, wrote_json


class Fault(StrEnum):
    """Faults that the demonstration can inject."""

    KILL_PARTY = "kill-party"
    KILL_SERVER = "kill-server"
    CHEAT = "cheat"


class Shown(StrEnum):
    """Protocols of the demonstration."""

    MIRROR = "mirror"
    GRAM = "gram"


def demo(
    fault: Annotated[
        Fault | None, typer.Option(help="Break something on purpose, and see what happens.")
    ] = None,
    protocol: Annotated[
        Shown, typer.Option(help="mirror (two servers) or gram (three servers, values with noise).")
    ] = Shown.MIRROR,
    output: Annotated[Path, typer.Option(help="Folder for result, report and certificate.")] = Path(
        "fedvalue-demo"
    ),
    keep: Annotated[Path | None, typer.Option(help="Keep all participants' folders here.")] = None,
    json_file: JsonFile = None,
) -> None:
    """Run servers, a bank and four data parties on this machine, each its own process, over mutual TLS.

    Shows live progress and the values, compares them with those of the joined table, checks the
    certificate and the audit logs, writes the report, and cleans up.
    """
    import tempfile

    from fedvalue.errors import ConfigError
    from fedvalue.simulation.demonstration import demonstrate

    if keep is not None and keep.exists() and (not keep.is_dir() or any(keep.iterdir())):
        raise ConfigError(f"{keep} must be a new or an empty folder")
    if output.exists() and not output.is_dir():
        raise ConfigError(f"{output} must be a folder")
    _end_as_with_ctrl_c()
    with tempfile.TemporaryDirectory(prefix="fedvalue-demo-") as temporary:
        ended = demonstrate(
            keep or Path(temporary),
            output,
            lambda name, text: typer.echo(f"{name:>9}  {text}", err=True),
            fault=None if fault is None else fault.value,
            protocol=protocol.value,
        )
    if ended.valuation is None:
        if not wrote_json({"detected": dict(ended.detected)}, json_file, "result"):
            typer.echo(
                "The computation server cheated. No value was released; every party ended with a reason:"
            )
            for name, code in ended.detected.items():
                typer.echo(f"  {name:<10} {code}")
    elif not wrote_json(ended.valuation.to_dict(), json_file, "result"):
        show_valuation(ended.valuation)
        for sentence in ended.checks:
            typer.echo(f"ok  {sentence}")
        for name in ("report.html", "result.json", "certificate.json"):
            if (output / name).exists():
                typer.echo(f"wrote {output / name}")


def _end_as_with_ctrl_c() -> None:
    """Treat SIGTERM and a closed terminal like Ctrl-C, so that no process and no key remains."""
    import signal

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:  # and not ignored, as under nohup
            signal.signal(number, signal.default_int_handler)
