"""The command `fedvalue`: its subcommands, and the one place where errors become exit codes.

A subcommand lives in a module of its own, which imports heavy libraries inside its function only,
so that `fedvalue --help` is instant. It parses, calls one function, prints.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from typing import Never

import typer

from fedvalue.cli import exit_codes
from fedvalue.cli.kernels import keep_kernels
from fedvalue.errors import FedValueError

app = typer.Typer(
    name="fedvalue",
    help="What is each party's data worth for a vertical federated learning task, "
    "before anyone trains a model or shows a row?",
    epilog="Exit codes: "
    + "; ".join(f"{code} {meaning}" for code, meaning in exit_codes.MEANINGS.items())
    + ".",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    add_completion=False,
)

# Each module has `register(app)`. The order is the order in the help.
_COMMANDS = (
    "value", "select", "payout", "report", "demo", "init", "manifest", "serve", "join", "run",
    "audit", "drill", "reproduce", "benchmark", "datasets",
)  # fmt: skip

for _name in _COMMANDS:
    if importlib.util.find_spec(f"fedvalue.cli.{_name}") is not None:
        importlib.import_module(f"fedvalue.cli.{_name}").register(app)


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
        sys.stderr.write(f"fedvalue: {error} [{error.code}]\n")
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
