"""Options that several commands share, with one help text each."""

from __future__ import annotations

import inspect
import re
import shlex
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar, cast

import typer

T = TypeVar("T")

READING, CODING, OUTPUT = "Reading files", "Columns and label", "Output"
"""Panels of the help."""

HomeFolder = Annotated[
    Path, typer.Option("--home", envvar="FEDVALUE_HOME", help="Folder of your identity, agreements and runs.")
]

Label = Annotated[str | None, typer.Option(help="Column with the task's label.", metavar="COL")]
Peers = Annotated[
    Path | None, typer.Option(help="Folder of pinned cards to compare the keys with.", metavar="FOLDER")
]

DEFAULT_HOME = Path("fedvalue")
"""In the folder where the command is started."""


def _coding(help: str, *names: str, choices: Sequence[str] = (), metavar: str | None = None) -> Any:
    complete = (lambda: list(choices)) if choices else None
    return typer.Option(*names, help=help, metavar=metavar, autocompletion=complete, rich_help_panel=CODING)


def _reading(help: str, metavar: str | None = None) -> Any:
    return typer.Option(help=help, metavar=metavar, rich_help_panel=READING)


Party = Annotated[
    list[str] | None,
    typer.Option(
        help="A data party and its columns, or a file of its own. Repeat for each party.",
        metavar="NAME=COL,…|FILE",
    ),
]
Each = Annotated[bool, typer.Option("--each", help="Make every remaining column a party.")]
Task = Annotated[
    str, typer.Option(help="Feature columns that the task party already has.", metavar="COL,COL,…")
]
Ids = Annotated[
    list[str] | None,
    typer.Option(
        "--id",
        help="Column with the sample ids, which are unique and join the parties' files. NAME=COL names that "
        "of one party's file.",
        metavar="COL",
    ),
]
Drop = Annotated[str, typer.Option(help="Columns to leave out.", metavar="COL,COL,…")]

ColumnsOption = Annotated[
    str,
    _coding(
        "Learnable values use each column of a party (features) or one joint code per party (joint).",
        "--columns",
        choices=("features", "joint"),
    ),
]
CleanLabels = Annotated[
    bool,
    _coding(
        "Treat labels that differ only in case or blanks as one class; leave out rows without a label.",
        "--clean-labels",
    ),
]

SEPARATOR = "Separator of fields in a CSV file; detected by default."
DECIMAL = "Decimal mark of numbers in text, . or a comma."
ENCODING = "Encoding of a CSV file, such as cp1252."
DATES = "Order in dates such as 03/04/2024: DD/MM/YYYY or MM/DD/YYYY."
SHEET = "Sheet of an Excel workbook."
HEADER = "Line of a CSV file, or row of a sheet, that names the columns; lines above it are skipped."
MISSING = "Text that stands for a missing value, such as ? or unknown."

Delimiter = Annotated[list[str] | None, _reading(SEPARATOR, "[NAME=]CHAR")]
Decimal = Annotated[list[str] | None, _reading(DECIMAL, "[NAME=]MARK")]
Encoding = Annotated[list[str] | None, _reading(ENCODING, "[NAME=]ENCODING")]
Dates = Annotated[list[str] | None, _reading(DATES, "[NAME=]ORDER")]
Sheet = Annotated[list[str] | None, _reading(SHEET, "[NAME=]SHEET")]
Header = Annotated[list[str] | None, _reading(HEADER, "[NAME=]LINE")]
Missing = Annotated[list[str] | None, _reading(MISSING, "[NAME=]TEXT,TEXT,…")]

By = Annotated[
    str,
    typer.Option(
        help="Decide by the learnable value, or by shapley-cmi, which also counts what is memorised.",
        autocompletion=lambda: ["learnable", "shapley-cmi"],
    ),
]
Accept = Annotated[
    str | None,
    typer.Option(
        help="Acceptance test: the least gain over the task party's own columns, such as "
        "errors_avoided_per_1000=30, auc_gain=0.02 or log_loss_gain=0.05. PARTY:auc_gain=0.01 tests one "
        "party alone. The verdict is pass, fail or undecided.",
        metavar="METRIC=AMOUNT",
        autocompletion=lambda: ["errors_avoided_per_1000=", "auc_gain=", "log_loss_gain="],
    ),
]
JsonFile = Annotated[
    str | None,
    typer.Option(
        "--json",
        help="Write the result as JSON; - prints only the JSON.",
        metavar="FILE|-",
        rich_help_panel=OUTPUT,
    ),
]


def coding_options(
    *,
    bins: Annotated[int, _coding("Bins of a numeric column.")] = 5,
    binning: Annotated[
        str,
        _coding(
            "quantile (about equally filled bins) or width (equal width, as in the paper).",
            choices=("quantile", "width"),
        ),
    ] = "quantile",
    label_bins: Annotated[
        int | None, _coding("Bins of a label that is an amount; as many as --bins by default.")
    ] = None,
    categorical: Annotated[
        str, _coding("Columns whose numbers are names, such as zip codes.", metavar="COL,COL,…")
    ] = "",
) -> Any:
    """The `CodingSettings` of a command, for `takes`."""
    from fedvalue.cli.column_owners import split_names
    from fedvalue.tables.coding_settings import CodingSettings

    names = tuple(split_names(categorical))
    return CodingSettings(bins=bins, binning=cast(Any, binning), label_bins=label_bins, categorical=names)


def file_options(
    *,
    delimiter: Annotated[str | None, _reading(SEPARATOR)] = None,
    decimal: Annotated[str | None, _reading(DECIMAL)] = None,
    encoding: Annotated[str | None, _reading(ENCODING)] = None,
    dates: Annotated[str | None, _reading(DATES)] = None,
    sheet: Annotated[str | None, _reading(SHEET)] = None,
    header: Annotated[int | None, _reading(HEADER, "LINE")] = None,
    missing: Annotated[str, _reading(MISSING, "TEXT,TEXT,…")] = "",
) -> Any:
    """The `FileOptions` of all files of a command, for `takes`."""
    from fedvalue.cli.column_owners import split_names
    from fedvalue.tables.file_options import FileOptions

    return FileOptions(
        delimiter=delimiter, decimal=cast(Any, decimal), encoding=encoding, dates=cast(Any, dates),
        sheet=sheet, header=header, missing=tuple(split_names(missing)) or None,
    )  # fmt: skip


def takes(name: str, shared: Callable[..., Any]) -> Callable[[Callable[..., T]], Callable[..., T]]:
    """Add the options of `shared` to a command, which takes its return value as the argument `name`."""

    def decorate(command: Callable[..., T]) -> Callable[..., T]:
        own = inspect.signature(command, eval_str=True).parameters
        added = inspect.signature(shared, eval_str=True).parameters

        def with_options(**values: Any) -> T:
            value = shared(**{option: values.pop(option) for option in added})
            return command(**values, **{name: value})

        parameters = [
            parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
            for parameter in (*(own[key] for key in own if key != name), *added.values())
        ]
        with_options.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        with_options.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        with_options.__doc__, with_options.__name__ = command.__doc__, command.__name__
        return with_options

    return decorate


def used_options(context: typer.Context, *, except_for: Collection[str] = ()) -> list[str]:
    """The options on the command line, as they are spelled, without those of these arguments."""
    return [
        parameter.opts[0]
        for parameter in context.command.params
        if parameter.name not in except_for
        and (source := context.get_parameter_source(parameter.name or "")) is not None
        and source.name == "COMMANDLINE"
    ]


def public_command(arguments: Sequence[str]) -> str:
    """The command line without passwords of databases, to be stored."""
    from fedvalue.tables.parts import shown

    def public(argument: str) -> str:
        uri = re.search(r"\w[\w+.-]*://", argument)  # also behind NAME= and --party=NAME=
        return argument if uri is None else argument[: uri.start()] + shown(argument[uri.start() :])

    return shlex.join(["fedvalue", *(public(argument) for argument in arguments[1:])])
