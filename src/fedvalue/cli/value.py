"""`fedvalue value`: value the parties of one table that may be gathered."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from fedvalue.cli.columns import Columns
from fedvalue.cli.terminal import (
    interruptible,
    progress_bar,
    refuse_unwritable,
    say,
    show_valuation,
    write_text,
)
from fedvalue.errors import InputError

if TYPE_CHECKING:
    from fedvalue.valuation.result import Valuation


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("value")(value)


def value(
    data: Annotated[
        str,
        typer.Argument(help="CSV, Parquet or Arrow file, Parquet folder, or a database URI.", metavar="DATA"),
    ],
    label: Annotated[str, typer.Option(help="Column with the task's label.", metavar="COL")],
    party: Annotated[
        list[str] | None,
        typer.Option(help="A data party and its columns. Repeat for each party.", metavar="NAME=COL,COL,…"),
    ] = None,
    each: Annotated[
        bool, typer.Option("--each", help="Every remaining column is a party of its own.")
    ] = False,
    task: Annotated[
        str, typer.Option(help="The task party's own feature columns.", metavar="COL,COL,…")
    ] = "",
    id_column: Annotated[
        str | None, typer.Option("--id", help="Column with the sample ids; must be unique.", metavar="COL")
    ] = None,
    bins: Annotated[int, typer.Option(help="Bins of a numeric column.")] = 5,
    binning: Annotated[str, typer.Option(help="width (equal width, the paper's) or quantile.")] = "width",
    pca: Annotated[
        int | None, typer.Option(help="Reduce each data party to so many principal components first.")
    ] = None,
    method: Annotated[str, typer.Option(help="auto, exact or sampled.")] = "auto",
    permutations: Annotated[int, typer.Option(help="Permutations of the sampled method.")] = 5000,
    precision: Annotated[
        float | None,
        typer.Option(help="Stop sampling when every standard error is at most this fraction of the total."),
    ] = None,
    time_limit: Annotated[
        float | None,
        typer.Option(help="Seconds after which an exact walk gives way to sampling.", metavar="SECONDS"),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the sampled permutations.")] = 0,
    protocol: Annotated[
        str | None,
        typer.Option(help="Compute federated, all roles in this process: single, paper or mirror."),
    ] = None,
    q: Annotated[int | None, typer.Option(help="Encryption IDs per sample (protocol paper).")] = None,
    n_r: Annotated[
        str | None,
        typer.Option(
            "--n-r",
            help="Adversarial samples (protocol paper): per cell (2), as a share of all samples (90%), or "
            "random per cell (random:8).",
        ),
    ] = None,
    harden: Annotated[
        bool | None,
        typer.Option("--harden/--as-published", help="Protocol paper with or without the added checks."),
    ] = None,
    policy: Annotated[
        str | None, typer.Option(help="Protocol mirror: valuation (values only) or counts.")
    ] = None,
    cluster: Annotated[
        str | None, typer.Option(help="Address of a Dask scheduler to work on.", metavar="tcp://HOST:8786")
    ] = None,
    state: Annotated[
        Path | None,
        typer.Option(
            help="Add DATA's rows to the counts kept in this file and value them all.", metavar="FILE"
        ),
    ] = None,
    statistics: Annotated[
        bool, typer.Option("--statistics/--no-statistics", help="Error bars and learnable values.")
    ] = True,
    json_file: Annotated[
        str | None,
        typer.Option("--json", help="Write the result as JSON; - prints it alone.", metavar="FILE|-"),
    ] = None,
    html: Annotated[
        Path | None, typer.Option(help="Write the report, one HTML file.", metavar="FILE")
    ] = None,
) -> None:
    """What is each party's data worth, on a table that holds all columns?

    Example: fedvalue value loans.csv --label default --task income,age --party telco=bill,calls --party
    shop=spend,visits
    """
    options: dict[str, Any] = {"q": q, "n_r": n_r, "harden": harden, "policy": policy}
    refuse_unwritable(json_file, html)
    columns = Columns.parse(data, label=label, task=task, party=party or [], each=each, ids=id_column)
    from fedvalue.tables.coding_settings import CodingSettings
    from fedvalue.valuation.settings import ValuationSettings

    settings = ValuationSettings(
        method=cast(Any, method),
        n_permutations=permutations, precision=precision, time_limit=time_limit, seed=seed,
        statistics=statistics, coding=CodingSettings(bins=bins, binning=cast(Any, binning), pca=pca),
    )  # fmt: skip
    with _executor(cluster) as executor, progress_bar("valuing") as progress, interruptible() as stop:
        result = _value(
            data, columns, state=state, protocol=protocol,
            options={key: item for key, item in options.items() if item is not None},
            settings=settings, executor=executor, progress=progress, stop=stop,
        )  # fmt: skip
    deliver(result, json_file, html)


def deliver(result: Valuation, json_file: str | None, html: Path | None) -> None:
    """Print the table, or the JSON alone, and write the files that were asked for."""
    if json_file == "-":
        typer.echo(result.to_json(), nl=False)
    else:
        show_valuation(result)
        if json_file is not None:
            write_text(Path(json_file), result.to_json())
            say(f"result written to {json_file}")
    if html is not None:
        result.to_html(html)
        say(f"report written to {html}")


def _value(
    data: str,
    columns: Columns,
    *,
    state: Path | None,
    protocol: str | None,
    options: dict[str, Any],
    **settings: Any,
) -> Valuation:
    """Value in memory, streamed, or on top of a state, as the source and the options ask for."""
    from fedvalue.local.streaming import stream_by_default, value_files

    named: dict[str, Any] = {"label": columns.label, "task": columns.task, "parties": columns.parties}
    if state is not None or (protocol is None and stream_by_default(data)):
        if protocol is not None:
            raise InputError("--state keeps plain counts: it cannot be used with --protocol")
        if options:
            raise InputError(f"{', '.join(sorted(options))}: only with --protocol")
        if columns.ids:
            say("the source is streamed: its ids are not checked for duplicates")
        if state is not None:
            from fedvalue.local.incremental import value_with_state

            return value_with_state(state, data, **named, **settings)
        return value_files(data, **named, **settings)
    from fedvalue.local.value import value_tables
    from fedvalue.tables.files import read_table
    from fedvalue.tables.party_table import check_ids

    if protocol is not None:
        from fedvalue.deployment.process import reuse_memory

        reuse_memory()
    table = read_table(data, columns=columns.all, text_columns=[columns.ids] if columns.ids else [])
    ids = None
    if columns.ids:
        ids = table.column(columns.ids)
        check_ids(ids, name=columns.ids)
    return value_tables(
        label=table.select([columns.label]),
        task=table.select(list(columns.task)) if columns.task else None,
        parties={name: table.select(own) for name, own in columns.parties.items()},
        ids=ids,
        protocol=protocol,
        **settings,
        **options,
    )


def _executor(cluster: str | None) -> Any:
    from contextlib import nullcontext

    if cluster is None:
        return nullcontext(None)
    from fedvalue.engines.cluster import connect

    return connect(cluster)
