"""`fedvalue value`: value the parties of a table that holds all columns."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from fedvalue.cli import shared_options as options
from fedvalue.cli.column_owners import ColumnOwners, split_names
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
    from concurrent.futures import Executor

    from fedvalue.engines import Stop
    from fedvalue.typing import Progress
    from fedvalue.valuation.result import Valuation
    from fedvalue.valuation.settings import ValuationSettings


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("value")(value)


def value(
    data: Annotated[
        str,
        typer.Argument(help="CSV, Parquet or Arrow file, Parquet folder, or a database URI.", metavar="DATA"),
    ],
    label: Annotated[str, typer.Option(help="Column with the task's label.", metavar="COL")],
    party: options.Party = None,
    each: options.Each = False,
    task: options.Task = "",
    id_column: Annotated[
        str | None, typer.Option("--id", help="Column with the sample ids; must be unique.", metavar="COL")
    ] = None,
    bins: options.Bins = 5,
    binning: options.Binning = "quantile",
    label_bins: options.LabelBins = None,
    categorical: options.Categorical = "",
    columns: options.ColumnsOption = "features",
    pca: Annotated[
        int | None,
        typer.Option(help="Replace the columns of each data party by this many principal components first."),
    ] = None,
    method: Annotated[str, typer.Option(help="How to compute Shapley-CMI: auto, exact or sampled.")] = "auto",
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
        bool,
        typer.Option(
            "--statistics/--no-statistics", help="Learnable values, intervals, overlap and the advice."
        ),
    ] = True,
    sensitivity: Annotated[
        bool,
        typer.Option(
            "--sensitivity",
            help="Value again with 3, 5 and 8 bins, equally filled and of equal width, and report whether "
            "the advice changes.",
        ),
    ] = False,
    json_file: options.JsonFile = None,
    html: Annotated[
        Path | None, typer.Option(help="Write the report, one HTML file.", metavar="FILE")
    ] = None,
) -> None:
    """What is each party's data worth, on a table that holds all columns?

    Example: fedvalue value loans.csv --label default --task income,age --party telco=bill,calls --party
    shop=spend,visits
    """
    refuse_unwritable(json_file, html)
    owners = ColumnOwners.parse(data, label=label, task=task, party=party or [], each=each, ids=id_column)
    from fedvalue.tables.coding_settings import CodingSettings
    from fedvalue.valuation.settings import ValuationSettings

    settings = ValuationSettings(
        method=cast(Any, method), n_permutations=permutations, precision=precision, time_limit=time_limit,
        seed=seed, statistics=statistics, columns=cast(Any, columns),
        coding=CodingSettings(
            bins=bins, binning=cast(Any, binning), label_bins=label_bins, pca=pca,
            categorical=tuple(split_names(categorical)),
        ),
    )  # fmt: skip
    if sensitivity and (state is not None or protocol is not None or not statistics):
        raise InputError(
            "--sensitivity values the table several times: it cannot be used with --state, --protocol or "
            "--no-statistics"
        )
    given: dict[str, Any] = {"q": q, "n_r": n_r, "harden": harden, "policy": policy}
    with _executor(cluster) as executor, interruptible() as stop:
        with progress_bar("valuing", watch_compiling=True) as progress:
            valuation = value_source(
                data, owners, settings, state=state, protocol=protocol,
                protocol_options={key: item for key, item in given.items() if item is not None},
                executor=executor, progress=progress, stop=stop,
            )  # fmt: skip
        if sensitivity:
            valuation = _with_sensitivity(valuation, data, owners, settings, executor)
    deliver(valuation, json_file, html)


def deliver(valuation: Valuation, json_file: str | None, html: Path | None) -> None:
    """Write the files asked for, then print the result, or its JSON alone.

    Files come first: a reader that goes away (`| head`) must not cost the result of long work.
    """
    if json_file is not None and json_file != "-":
        write_text(Path(json_file), valuation.to_json())
        say(f"result written to {json_file}")
    if html is not None:
        valuation.to_html(html)
        say(f"report written to {html}")
    if json_file == "-":
        typer.echo(valuation.to_json(), nl=False)
    else:
        show_valuation(valuation)


def value_source(
    data: str,
    owners: ColumnOwners,
    settings: ValuationSettings,
    *,
    state: Path | None = None,
    protocol: str | None = None,
    protocol_options: dict[str, Any] | None = None,
    executor: Executor | None = None,
    progress: Progress | None = None,
    stop: Stop | None = None,
) -> Valuation:
    """Value a source in memory, streamed, or on top of a state, whichever it and the options ask for.

    Raises:
        InputError: Options that exclude each other, or wrong data.
    """
    from fedvalue.local.streaming import stream_by_default, value_files

    named: dict[str, Any] = {"label": owners.label, "task": owners.task, "parties": owners.parties}
    work: dict[str, Any] = {
        "settings": settings, "executor": executor, "progress": progress, "stop": stop
    }  # fmt: skip
    if protocol_options and protocol is None:
        raise InputError(f"{', '.join(sorted(protocol_options))}: only with --protocol")
    if state is not None or (protocol is None and stream_by_default(data)):
        if protocol is not None:
            raise InputError("--state keeps plain counts: it cannot be used with --protocol")
        if owners.ids:
            say("the source is streamed: its ids are not checked for duplicates")
        if state is not None:
            from fedvalue.local.incremental import value_with_state

            return value_with_state(state, data, **named, **work)
        return value_files(data, **named, **work)
    from fedvalue.federated.options import make_options
    from fedvalue.local.value import value_tables
    from fedvalue.tables.party_table import check_ids
    from fedvalue.tables.sources import read_table

    if protocol is not None:
        from fedvalue.deployment.process import reuse_memory

        reuse_memory()
    texts = [*settings.coding.categorical, *([owners.ids] if owners.ids else [])]
    table = read_table(data, columns=owners.all, text_columns=texts)
    ids = None
    if owners.ids:
        ids = table.column(owners.ids)
        check_ids(ids, name=owners.ids)
    return value_tables(
        label=table.select([owners.label]),
        task=table.select(list(owners.task)) if owners.task else None,
        parties={name: table.select(own) for name, own in owners.parties.items()},
        ids=ids,
        protocol=None if protocol is None else make_options(protocol, **(protocol_options or {})),
        **work,
    )


def _with_sensitivity(
    valuation: Valuation,
    data: str,
    owners: ColumnOwners,
    settings: ValuationSettings,
    executor: Executor | None,
) -> Valuation:
    from msgspec.structs import replace

    from fedvalue.decisions.coding_sensitivity import other_codings, sensitivity

    every = [valuation]
    others = other_codings(settings.coding)
    with progress_bar("other bins") as progress:
        for k, coding in enumerate(others):
            progress(k, len(others), f"{coding.bins} bins, {coding.binning}")
            every.append(value_source(data, owners, replace(settings, coding=coding), executor=executor))
    found = sensitivity(every)
    return replace(valuation, details={**valuation.details, "sensitivity": found.to_dict()})


def _executor(cluster: str | None) -> AbstractContextManager[Any]:
    if cluster is None:
        return nullcontext()
    from fedvalue.engines.cluster import connect

    return connect(cluster)
