"""The command `fedvalue`: its subcommands, and the one place where errors become exit codes.

A command is a function of the same name (`PANELS` lists them), and a group is a tuple of such functions. A
command parses, calls one function and prints. Heavy libraries are imported inside functions only, so that
`fedvalue --help` and shell completion are instant.
"""

from __future__ import annotations

import importlib
import inspect
import os
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, Never

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group

from fedvalue.cli import exit_codes
from fedvalue.cli.kernels import keep_kernels
from fedvalue.errors import FedValueError
from fedvalue.untrusted_text import printable

PANELS = {
    "Value and decide": {
        "check": "Show how each column is read: type, bins, missing values, and what looks wrong.",
        "value": "Value each party's data, from tables that this machine can read.",
        "compare": "Show what changed from one result to another: the advice, the values beyond their "
        "error, the question.",
        "select": "Choose the parties to invite within a budget, and name those that the rows leave "
        "undecided.",
        "payout": "Divide a pot by value, exact to the cent.",
        "report": "Write the report of a result: whom to invite, values with intervals, overlap, how "
        "it was computed.",
    },
    "Take part in a federated run": {
        "invite": "Draft the terms and make one invitation for all data parties and operators.",
        "accept": "Read the terms of an invitation and accept them, as a data party or the operator of "
        "a server.",
        "join": "Take part as a data party, after `fedvalue accept`; prints the value of your data.",
        "run": "Take part as the task party, after `fedvalue invite`; prints the value of every data party.",
        "abort": "Cancel a run for everybody, even while the servers compute. Nothing is released.",
        "init": "Make an identity: a signing key and a TLS certificate, readable by you alone.",
        "manifest": "Make, sign, check and explain the agreement for a run.",
    },
    "Operate and audit": {
        "status": "Show where runs stand: stage, missing participants, deadline, bytes, what to do. "
        "Changes nothing.",
        "doctor": "Check clock, ports, names, TLS and pins, cards, permissions, disk, memory, "
        "versions, table and terms.",
        "serve": "Run the computation, validation or assisting server.",
        "audit": "Check audit logs, certificates and identity cards offline.",
        "backup": "Back up and restore the state of a participant.",
        "warm-up": "Compile everything ahead of time, so that no valuation waits for the compiler.",
    },
    "Try and research": {
        "demo": "Run servers, a bank and four data parties on this machine, each its own "
        "process, over mutual TLS.",
        "drill": "Try each kind of cheating server against each protocol: how often it is caught, and "
        "the prediction.",
        "reproduce": "Run the paper's experiments: numbers, drawings, and a verdict on each of its claims.",
        "benchmark": "Compare ways to value data with the gain of models that were retrained with the data.",
        "datasets": "List the paper's six data sets and the benchmark's other three: where they are, how "
        "to get them.",
    },
}
"""Commands by purpose, in the order of the help, each with the first sentence of its help.

The list of commands is printed from this table, without loading any of them."""

_MODULES = {
    "compare": "decide", "payout": "decide", "select": "decide",
    "init": "invite_and_accept", "invite": "invite_and_accept", "accept": "invite_and_accept",
    "join": "taking_part", "run": "taking_part", "abort": "taking_part",
    "status": "operate", "doctor": "operate", "backup": "operate", "warm-up": "kernels",
    "reproduce": "research", "benchmark": "research", "datasets": "research",
}  # fmt: skip
"""Modules of the commands whose module has another name."""


class _LazyCommands(TyperGroup):
    """Lists the commands of `PANELS`, and loads the one that is called."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        for panel, commands in PANELS.items():
            for name, summary in commands.items():
                self.add_command(TyperCommand(name, help=summary, rich_help_panel=panel))

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """The called command, with its options, and the remaining arguments."""
        name, listed, rest = super().resolve_command(ctx, args)
        return name, listed and load_command(name or ""), rest

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the list of commands."""
        _load_help_printer()
        super().format_help(ctx, formatter)


def load_command(name: str) -> Any:
    """A command, or a group of them, from its module."""
    python_name = name.replace("-", "_")
    module = importlib.import_module(f"fedvalue.cli.{_MODULES.get(name, python_name)}")
    command = getattr(module, python_name)
    home = typer.Typer()
    if isinstance(command, tuple):
        summary = next(commands[name] for commands in PANELS.values() if name in commands)
        group = typer.Typer(help=summary, no_args_is_help=True)
        for function in command:
            group.command(function.__name__, help=_help(function))(function)
        home.add_typer(group, name=name)
    else:
        home.command(name, help=_help(command))(command)
    return get_group(home).commands[name]


def _help(command: Callable[..., Any]) -> str:
    """The docstring with each paragraph on one line, so that it wraps at the width of the terminal."""
    paragraphs = (inspect.getdoc(command) or "").split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def _load_help_printer() -> None:
    """Load Typer's help without the Markdown parser and the traceback printer that it imports.

    Neither is used here, and they take half of the time. Later imports load the real modules.
    """
    unused = {"rich.markdown": "Markdown", "rich.traceback": "Traceback"}
    absent = {module: name for module, name in unused.items() if module not in sys.modules}
    for module, name in absent.items():
        sys.modules[module] = ModuleType(module)
        setattr(sys.modules[module], name, None)
    try:
        importlib.import_module("typer.rich_utils")
    finally:
        for module in absent:
            del sys.modules[module]


app = typer.Typer(
    name="fedvalue",
    cls=_LazyCommands,
    help="Find out what a partner's data would add to your model, before you train it and before anyone "
    "shares a table.",
    epilog="Exit codes: "
    + "; ".join(f"{code} {meaning}" for code, meaning in exit_codes.MEANINGS.items())
    + ".",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def _root(
    version: bool = typer.Option(False, "--version", help="Print the version and stop.", is_eager=True),
) -> None:
    if version:
        from fedvalue import __version__

        typer.echo(f"fedvalue {__version__}")
        raise typer.Exit


def main() -> None:
    """Run the command line; a FedValueError becomes one line on stderr and an exit code."""
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
        # Typer turns these two into its own exit codes, without a message.
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
    """The reader of our output (head, less) has closed the pipe, which is not an error."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(exit_codes.OK)
