"""The command `fedvalue`: its subcommands, and the one place where errors become exit codes.

A subcommand lives in a module of its own with a function `register(app)`. It imports heavy libraries
inside its functions only, so that `fedvalue --help` and shell completion are instant. It parses, calls one
function, prints.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import Never

import typer
from typer.core import TyperGroup

from fedvalue.cli import exit_codes
from fedvalue.cli.kernels import keep_kernels
from fedvalue.errors import FedValueError
from fedvalue.untrusted_text import printable

PANELS = {
    "Value and decide": ("check", "value", "compare", "select", "payout", "report"),
    "Take part in a federated run": ("invite", "accept", "join", "run", "abort", "init", "manifest"),
    "Operate and audit": ("status", "doctor", "serve", "audit", "backup", "warm-up"),
    "Try and research": ("demo", "drill", "reproduce", "benchmark", "datasets"),
}
"""Commands by what a person wants to do, in the order of the help. Each is a module of this package."""


class _InPanelOrder(TyperGroup):
    """Lists commands as `PANELS` does; Typer would list all plain commands before all groups."""

    def list_commands(self, ctx: object) -> list[str]:
        """All commands."""
        return [name for names in PANELS.values() for name in names]


app = typer.Typer(
    name="fedvalue",
    cls=_InPanelOrder,
    help="What is each party's data worth for a vertical federated learning task, "
    "before anyone trains a model or shows a row?",
    epilog="Exit codes: "
    + "; ".join(f"{code} {meaning}" for code, meaning in exit_codes.MEANINGS.items())
    + ".",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


for _panel, _names in PANELS.items():
    for _name in _names:
        importlib.import_module(f"fedvalue.cli.{_name.replace('-', '_')}").register(app)
        for _command in app.registered_commands:
            if _command.name == _name:
                _command.rich_help_panel = _panel
        for _group in app.registered_groups:
            if _group.name == _name:
                _group.rich_help_panel = _panel


@app.callback(invoke_without_command=True)
def _root(
    version: bool = typer.Option(False, "--version", help="Print the version and stop.", is_eager=True),
) -> None:
    if version:
        from fedvalue import __version__

        typer.echo(f"fedvalue {__version__}")
        raise typer.Exit


def main() -> None:
    """Run the command line; every error of ours ends as one line on stderr and an exit code."""
    try:
        keep_kernels()
        app()
    except FedValueError as error:
        # The message may quote somebody else's file.
        sys.stderr.write(f"fedvalue: {printable(str(error))} [{error.code}]\n")
        sys.exit(exit_codes.of(error))
    except KeyboardInterrupt:
        _stopped()
    except SystemExit as end:
        # Typer makes its own exit codes of these two, without a word.
        if end.code == exit_codes.INTERRUPTED:
            _stopped()
        if isinstance(end.__context__, BrokenPipeError):
            _no_reader()
        raise
    except BrokenPipeError:
        _no_reader()
    except OSError as error:
        where = f"{error.filename}: " if error.filename is not None else ""
        sys.stderr.write(f"fedvalue: {where}{error.strerror or repr(error)} [E_STORAGE]\n")
        sys.exit(exit_codes.ENGINE)


def _stopped() -> Never:
    sys.stderr.write("fedvalue: stopped\n")
    sys.exit(exit_codes.INTERRUPTED)


def _no_reader() -> Never:
    """The reader of our output (head, less) went away; that is not an error of ours."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(exit_codes.OK)
