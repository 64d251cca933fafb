"""Options that several commands share, with one help text each."""

from __future__ import annotations

import inspect
import re
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

READING, CODING, OUTPUT = "Reading files", "Columns and label", "Output"
"""Panels of the help."""

HomeFolder = Annotated[
    Path,
    typer.Option("--home", envvar="FEDVALUE_HOME", help="Folder of your identity, agreements and runs."),
]
DEFAULT_HOME = Path("fedvalue")
"""In the folder where the command is started."""

Party = Annotated[
    list[str] | None,
    typer.Option(
        help="A data party and its columns, or a file of its own. Repeat for each party.",
        metavar="NAME=COL,…|FILE",
    ),
]
Each = Annotated[bool, typer.Option("--each", help="Every remaining column is a party of its own.")]
Task = Annotated[str, typer.Option(help="The task party's own feature columns.", metavar="COL,COL,…")]
Bins = Annotated[int, typer.Option(help="Bins of a numeric column.", rich_help_panel=CODING)]
Binning = Annotated[
    str,
    typer.Option(
        help="quantile (about equally filled bins) or width (equal width, as in the paper).",
        autocompletion=lambda: ["quantile", "width"],
        rich_help_panel=CODING,
    ),
]
LabelBins = Annotated[
    int | None,
    typer.Option(
        help="Bins of a label that is an amount; as many as --bins by default.", rich_help_panel=CODING
    ),
]
Categorical = Annotated[
    str,
    typer.Option(
        help="Columns whose numbers are names, such as zip codes.",
        metavar="COL,COL,…",
        rich_help_panel=CODING,
    ),
]
ColumnsOption = Annotated[
    str,
    typer.Option(
        "--columns",
        help="Learnable values use each column of a party (features) or one joint code per party (joint).",
        autocompletion=lambda: ["features", "joint"],
        rich_help_panel=CODING,
    ),
]
Ids = Annotated[
    list[str] | None,
    typer.Option(
        "--id",
        help="Column with the sample ids, which are unique and join the parties' files; NAME=COL where a "
        "party's file has another.",
        metavar="COL",
    ),
]
Drop = Annotated[str, typer.Option(help="Columns to leave out.", metavar="COL,COL,…")]
Delimiter = Annotated[
    list[str] | None,
    typer.Option(
        help="Separator of fields in a CSV file; detected by default.",
        metavar="[NAME=]CHAR",
        rich_help_panel=READING,
    ),
]
Decimal = Annotated[
    list[str] | None,
    typer.Option(
        help="Decimal mark of numbers in text, . or a comma.", metavar="[NAME=]MARK", rich_help_panel=READING
    ),
]
Encoding = Annotated[
    list[str] | None,
    typer.Option(
        help="Encoding of a CSV file, such as cp1252.", metavar="[NAME=]ENCODING", rich_help_panel=READING
    ),
]
Dates = Annotated[
    list[str] | None,
    typer.Option(
        help="Order in dates such as 03/04/2024: DD/MM/YYYY or MM/DD/YYYY.",
        metavar="[NAME=]ORDER",
        rich_help_panel=READING,
    ),
]
Sheet = Annotated[
    list[str] | None,
    typer.Option(help="Sheet of an Excel workbook.", metavar="[NAME=]SHEET", rich_help_panel=READING),
]
Missing = Annotated[
    list[str] | None,
    typer.Option(
        help="Text that stands for a missing value, such as ? or unknown.",
        metavar="[NAME=]TEXT,TEXT,…",
        rich_help_panel=READING,
    ),
]
CleanLabels = Annotated[
    bool,
    typer.Option(
        "--clean-labels",
        help="Treat labels that differ only in case or blanks as one class; leave out rows without a label.",
        rich_help_panel=CODING,
    ),
]
By = Annotated[
    str,
    typer.Option(
        help="Decide by the learnable value, or by shapley-cmi, which also counts what is memorised.",
        autocompletion=lambda: ["learnable", "shapley-cmi"],
    ),
]
JsonFile = Annotated[
    str | None,
    typer.Option(
        "--json",
        help="Write the result as JSON; - prints it alone.",
        metavar="FILE|-",
        rich_help_panel=OUTPUT,
    ),
]
Accept = Annotated[
    str | None,
    typer.Option(
        help="An acceptance test, fixed beforehand: the least gain over the task party's own columns, as "
        "errors_avoided_per_1000=30, auc_gain=0.02 or log_loss_gain=0.05; PARTY:auc_gain=0.01 tests one "
        "party alone. The result says pass, fail or undecided.",
        metavar="METRIC=AMOUNT",
        autocompletion=lambda: ["errors_avoided_per_1000=", "auc_gain=", "log_loss_gain="],
    ),
]


def takes(name: str, shared: Callable[..., Any], command: Callable[..., None]) -> Callable[..., None]:
    """A command with the options of a function added, whose result it gets as the argument `name`."""
    own = [one for one in inspect.signature(command, eval_str=True).parameters.values() if one.name != name]
    added = list(inspect.signature(shared, eval_str=True).parameters.values())

    def with_options(**values: Any) -> None:
        made = shared(**{one.name: values.pop(one.name) for one in added})
        command(**values, **{name: made})

    parameters = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in (*own, *added)]
    with_options.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    with_options.__annotations__ = {one.name: one.annotation for one in parameters}
    with_options.__doc__, with_options.__name__ = command.__doc__, command.__name__
    return with_options


def add_group(app: typer.Typer, name: str, about: str, *commands: Callable[..., None]) -> None:
    """Add a command with subcommands, each named like its function."""
    group = typer.Typer(help=about, no_args_is_help=True)
    for command in commands:
        group.command(command.__name__)(command)
    app.add_typer(group, name=name)


def public_command(arguments: Sequence[str]) -> str:
    """The command line as it may be stored: no password of a database."""
    from fedvalue.tables.parts import shown

    def public(argument: str) -> str:
        uri = re.search(r"\w[\w+.-]*://", argument)  # also behind NAME= and --party=NAME=
        return argument if uri is None else argument[: uri.start()] + shown(argument[uri.start() :])

    return shlex.join(["fedvalue", *(public(argument) for argument in arguments[1:])])
