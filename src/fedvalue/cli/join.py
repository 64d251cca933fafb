"""`fedvalue join`: a data party takes part in a run."""

from __future__ import annotations

import typer

from fedvalue.cli import taking_part as options
from fedvalue.cli.homes import DEFAULT_HOME, HomeFolder


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("join")(join)


def join(
    table: options.Table = None,
    id_column: options.IdColumn = None,
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
    """Take part as a data party, after `fedvalue accept`; prints the value of your data.

    It waits until everybody has accepted, shows six words to compare over the
    phone, signs, and takes part in the run. If it is interrupted, the same
    command continues.
    """
    if config is not None:
        options.take_part_and_show(config, "data", psk, json_file, again=again)
        return
    rows = options.table_of(
        table, id_column, features=features, categorical=categorical, fold_case=fold_case,
        delimiter=delimiter, decimal=decimal, encoding=encoding, dates=dates, sheet=sheet,
    )  # fmt: skip
    settings = options.invited(home, agreement, rows, output, words=words, skip_words=skip_words)
    options.take_part_and_show(settings, "data", psk, json_file, again=again)
