"""`fedvalue run`: the task party takes part in a run and gets the values."""

from __future__ import annotations

from typing import Annotated

import typer

from fedvalue.cli import taking_part as options
from fedvalue.cli.homes import DEFAULT_HOME, HomeFolder
from fedvalue.cli.terminal import say


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("run")(run)


def run(
    table: options.Table = None,
    id_column: options.IdColumn = None,
    label: Annotated[str | None, typer.Option(help="Column with the label.")] = None,
    features: options.Features = None,
    categorical: options.Categorical = None,
    delimiter: options.Delimiter = None,
    decimal: options.Decimal = None,
    encoding: options.Encoding = None,
    dates: options.Dates = None,
    sheet: options.Sheet = None,
    fold_case: options.FoldCase = False,
    words: options.Words = None,
    skip_words: options.SkipWords = False,
    again: options.Again = False,
    agreement: options.AgreementId = None,
    output: options.OutputFolder = None,
    home: HomeFolder = DEFAULT_HOME,
    config: options.ConfigFile = None,
    psk: options.PresharedKey = None,
    json_file: options.JsonFile = None,
) -> None:
    """Take part as the task party, after `fedvalue invite`; prints the value of every data party.

    It waits until everybody has accepted, shows six words to compare over the
    phone, signs, takes part in the run, and writes result, report and
    certificate. If it is interrupted, the same command continues.
    """
    if config is not None:
        settings = options.take_part_and_show(config, "task", psk, json_file, again=again)
    else:
        rows = options.table_of(
            table, id_column, label=label, features=features, categorical=categorical, fold_case=fold_case,
            delimiter=delimiter, decimal=decimal, encoding=encoding, dates=dates, sheet=sheet,
        )  # fmt: skip
        made = options.invited(home, agreement, rows, output, words=words, skip_words=skip_words)
        settings = options.take_part_and_show(made, "task", psk, json_file, again=again)
    for path in (settings.output.result, settings.output.report, settings.output.certificate):
        if path is not None:
            say(f"wrote {path}")
