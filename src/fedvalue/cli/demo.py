"""`fedvalue demo`: a whole federated valuation on this machine."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedvalue.cli.terminal import wrote_json

if TYPE_CHECKING:
    from fedvalue.simulation.demonstration import Shown


class Fault(StrEnum):
    """What to break on purpose."""

    KILL_PARTY = "kill-party"
    KILL_SERVER = "kill-server"
    CHEAT = "cheat"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("demo")(demo)


def demo(
    fault: Annotated[
        Fault | None, typer.Option(help="Break something on purpose, and see what happens.")
    ] = None,
    output: Annotated[Path, typer.Option(help="Folder for result, report and certificate.")] = Path(
        "fedvalue-demo"
    ),
    keep: Annotated[Path | None, typer.Option(help="Keep all participants' folders here.")] = None,
    json_file: Annotated[
        str | None,
        typer.Option("--json", help="Write the result as JSON; - prints it alone.", metavar="FILE|-"),
    ] = None,
) -> None:
    """Two servers, a bank and four data parties, each its own process, over mutual TLS on loopback.

    Shows live progress, the federated values next to the centralised ones, and the checks of
    certificate and audit logs; writes the report; cleans up after itself.
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
        shown = demonstrate(
            keep or Path(temporary), output, _say, fault=None if fault is None else fault.value
        )
    if wrote_json(shown.result or {"detected": shown.detected}, json_file, "result"):
        return
    if shown.result is None:
        _print_detected(shown)
    else:
        _print_values(shown, output)


def _end_as_with_ctrl_c() -> None:
    """Also when told to end, or when the terminal goes: no process and no key of ours may stay behind."""
    import signal

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:  # and not ignored, as under nohup
            signal.signal(number, signal.default_int_handler)


def _say(who: str, words: str) -> None:
    typer.echo(f"{who:>9}  {words}", err=True)


def _print_detected(shown: Shown) -> None:
    typer.echo("The computation server cheated. No value was released; every party ended with a reason:")
    for name, code in shown.detected.items():
        typer.echo(f"  {name:<10} {code}")


def _print_values(shown: Shown, output: Path) -> None:
    assert shown.result is not None
    typer.echo(f"{'party':<12}{'federated':>14}{'centralised':>14}{'share':>8}{'learnable':>11}")
    for party in sorted(shown.result["parties"], key=lambda one: -one["value"]):
        learnable = f"{party['learnable']:.4f}" if party.get("learnable") is not None else "-"
        typer.echo(
            f"{party['name']:<12}{party['value']:>14.9f}{shown.central[party['name']]:>14.9f}"
            f"{party['share']:>8.1%}{learnable:>11}"
        )
    typer.echo(f"total {shown.result['total']:.6f} of {shown.result['label_entropy']:.6f} nats")
    for sentence in shown.checks:
        typer.echo(f"ok  {sentence}")
    for name in ("report.html", "result.json", "certificate.json"):
        if (output / name).exists():
            typer.echo(f"wrote {output / name}")
