"""`fedvalue value`: value the parties of tables on this machine."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from fedvalue.cli import shared_options as options
from fedvalue.cli.column_owners import parse_file_options, parse_request, split_names
from fedvalue.cli.kernels import load_arrow
from fedvalue.cli.progress import interruptible, progress_bar
from fedvalue.cli.terminal import refuse_unwritable, say, show_valuation, write_text
from fedvalue.errors import InputError

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from fedvalue.tables.column_report import CodedColumns
    from fedvalue.valuation.provenance import Request
    from fedvalue.valuation.result import Valuation
    from fedvalue.valuation.settings import ValuationSettings


_BESIDE_FROM = ("data", "from_result", "cluster", "state", "sensitivity", "json_file", "html", "table")
"""Arguments that may stand beside --from: they do not change the question."""


def _shapley(help: str, metavar: str | None = None) -> Any:
    return typer.Option(help=help, metavar=metavar, rich_help_panel="Shapley-CMI")


def _federated(help: str, *names: str) -> Any:
    return typer.Option(*names, help=help, rich_help_panel="Federated, in this process")


@options.takes("coding", options.coding_options)
def value(
    context: typer.Context,
    coding: Any,
    data: Annotated[
        str | None,
        typer.Argument(
            help="CSV, Excel, Parquet or Arrow file, Parquet folder, or a database URI.", metavar="DATA"
        ),
    ] = None,
    label: options.Label = None,
    party: options.Party = None,
    each: options.Each = False,
    task: options.Task = "",
    id_column: options.Ids = None,
    drop: options.Drop = "",
    from_result: Annotated[
        Path | None,
        typer.Option(
            "--from",
            help="Repeat the valuation of this result: the same files, columns and settings. With DATA, on "
            "another file.",
            metavar="RESULT",
        ),
    ] = None,
    delimiter: options.Delimiter = None,
    decimal: options.Decimal = None,
    encoding: options.Encoding = None,
    dates: options.Dates = None,
    sheet: options.Sheet = None,
    header: options.Header = None,
    missing: options.Missing = None,
    clean_labels: options.CleanLabels = False,
    columns: options.ColumnsOption = "features",
    pca: Annotated[
        int | None,
        typer.Option(
            help="Principal components per data party, in place of its numbers if it has more of them.",
            rich_help_panel=options.CODING,
        ),
    ] = None,
    method: Annotated[str, _shapley("How to compute Shapley-CMI: auto, exact or sampled.")] = "auto",
    permutations: Annotated[int, _shapley("Permutations of the sampled method.")] = 5000,
    precision: Annotated[
        float | None,
        _shapley("Stop sampling when every standard error is at most this fraction of the total."),
    ] = None,
    time_limit: Annotated[
        float | None, _shapley("Seconds after which exact computation is replaced by sampling.", "SECONDS")
    ] = None,
    seed: Annotated[int, _shapley("Seed of the sampled permutations.")] = 0,
    protocol: Annotated[
        str | None,
        _federated(
            "Run a federated protocol, all roles in this process: single, paper, mirror, gram or vpsic."
        ),
    ] = None,
    q: Annotated[int | None, _federated("Encryption IDs per sample (protocol paper).")] = None,
    n_r: Annotated[
        str | None,
        _federated(
            "Adversarial samples (protocol paper): per cell (2), as a share of all samples (90%), or random "
            "per cell (random:8).",
            "--n-r",
        ),
    ] = None,
    harden: Annotated[
        bool | None, _federated("Protocol paper with or without the added checks.", "--harden/--as-published")
    ] = None,
    policy: Annotated[str | None, _federated("Protocol mirror: valuation (values only) or counts.")] = None,
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
    accept: options.Accept = None,
    json_file: options.JsonFile = None,
    html: Annotated[
        Path | None,
        typer.Option(help="Write the report, one HTML file.", metavar="FILE", rich_help_panel=options.OUTPUT),
    ] = None,
    table: Annotated[
        Path | None,
        typer.Option(
            help="Write the values as a spreadsheet, .xlsx or .csv.",
            metavar="FILE",
            rich_help_panel=options.OUTPUT,
        ),
    ] = None,
) -> None:
    """Value each party's data, from tables that this machine can read.

    Example: fedvalue value loans.csv --label default --task income --party telco=bill,calls

    A file per party: fedvalue value loans.csv --label default --id customer --party telco=telco.csv
    """
    refuse_unwritable(json_file, html, table)
    if table is not None and table.suffix.lower() not in (".xlsx", ".csv"):
        raise InputError(f"--table {table}: the file name must end in .xlsx or .csv")
    load_arrow()
    from fedvalue.decisions.acceptance import check_party, with_acceptance
    from fedvalue.engines import Execution
    from fedvalue.local.value_request import value_request

    if from_result is not None:
        if decided := options.used_options(context, except_for=_BESIDE_FROM):
            raise InputError(
                "--from takes the label, the parties and all settings from the result: leave out "
                f"{', '.join(decided)}, or leave out --from and value the table again"
            )
        from fedvalue.local.origin import repeated_request
        from fedvalue.valuation.result import Valuation

        earlier = Valuation.from_json(from_result)
        request, settings = repeated_request(earlier, from_result, data)
    else:
        from msgspec.structs import replace

        from fedvalue.valuation.acceptance_test import AcceptanceTest
        from fedvalue.valuation.settings import ValuationSettings

        if data is None or label is None:
            raise typer.BadParameter("give the file with the label as DATA, and its column as --label")
        earlier = None
        request = parse_request(
            data, label=label, task=task, party=party or [], each=each, ids=id_column or [], drop=drop,
            options=parse_file_options(
                delimiter=delimiter, decimal=decimal, encoding=encoding, dates=dates, sheet=sheet,
                header=header, missing=missing,
            ),
        )  # fmt: skip
        _name_unused(request, drop)
        protocol_options: dict[str, Any] = {"q": q, "n_r": n_r, "harden": harden, "policy": policy}
        request = replace(
            request, protocol=protocol,
            protocol_options={key: item for key, item in protocol_options.items() if item is not None},
        )  # fmt: skip
        settings = ValuationSettings(
            method=cast(Any, method), n_permutations=permutations, precision=precision, time_limit=time_limit,
            seed=seed, statistics=statistics, columns=cast(Any, columns),
            acceptance=None if accept is None else AcceptanceTest.parse(accept),
            coding=replace(coding, pca=pca, clean_labels=clean_labels),
        )  # fmt: skip
    check_party(settings.acceptance, [party.name for party in request.parties])
    if sensitivity and (state is not None or request.protocol is not None or not settings.statistics):
        raise InputError(
            "--sensitivity values the table several times: it cannot be used with --state, --protocol or "
            "--no-statistics"
        )
    if request.protocol is not None:
        from fedvalue.deployment.process import reuse_memory

        reuse_memory()
    with _executor(cluster) as executor, interruptible() as stop:
        with progress_bar("valuing", watch_compiling=True) as progress:
            valuation = value_request(
                request, settings, state=state, command=options.public_command(sys.argv),
                execution=Execution(executor, progress, stop), coded=_announce(request),
            )  # fmt: skip
        if sensitivity:
            valuation = _with_sensitivity(valuation, request, settings, executor)
    deliver(with_acceptance(valuation), json_file, html, table)
    if earlier is not None:
        _say_whether_repeated(earlier, valuation, same_data=data is None)


def _name_unused(request: Request, drop: str) -> None:
    """Columns that the task party has and nobody named may be forgotten ones."""
    from fedvalue.decisions.games import listing
    from fedvalue.reports.wording import NAMES_SHOWN
    from fedvalue.tables.sources import column_names

    named = {*request.columns, *split_names(drop)}
    unused = [name for name in column_names(request.source, request.options_of()) if name not in named]
    if unused:
        say(f"not used, because no option names them: {listing([*map(repr, unused)], NAMES_SHOWN)}")


def deliver(
    valuation: Valuation, json_file: str | None, html: Path | None, table: Path | None = None
) -> None:
    """Write the requested files, then print the result, or only its JSON.

    Files come first: a closed pipe (`| head`) must not lose the result of long work.
    """
    if json_file is not None and json_file != "-":
        write_text(Path(json_file), valuation.to_json())
        say(f"result written to {json_file}")
    if html is not None:
        valuation.to_html(html)
        say(f"report written to {html}")
    if table is not None:
        valuation.to_table(table)
        say(f"table written to {table}")
    if json_file == "-":
        typer.echo(valuation.to_json(), nl=False)
    else:
        show_valuation(valuation)


def _announce(request: Request) -> Callable[[CodedColumns], None] | None:
    """On a terminal, print a summary of the columns before the values."""
    if not sys.stderr.isatty():
        return None

    def announce(coded: CodedColumns) -> None:
        from fedvalue.local.check import summary_lines

        for line in summary_lines(coded, request):
            say(line)

    return announce


def _say_whether_repeated(earlier: Valuation, valuation: Valuation, *, same_data: bool) -> None:
    from fedvalue.decisions.comparison import compare

    sentences = compare(earlier, valuation).sentences
    if not same_data:
        for sentence in sentences:
            say(sentence)
    elif earlier.learnable == valuation.learnable and earlier.values == valuation.values:
        say("repeated: every value is the same")
    else:
        say(f"repeated, but values differ: {'; '.join(sentences)}")


def _with_sensitivity(
    valuation: Valuation, request: Request, settings: ValuationSettings, executor: Executor | None
) -> Valuation:
    from msgspec.structs import replace

    from fedvalue.decisions.coding_sensitivity import with_sensitivity
    from fedvalue.engines import Execution
    from fedvalue.local.value_request import value_request

    with progress_bar("other bins") as progress:
        return with_sensitivity(
            valuation,
            lambda coding: value_request(
                request, replace(settings, coding=coding), execution=Execution(executor)
            ),
            progress,
        )


def _executor(cluster: str | None) -> AbstractContextManager[Any]:
    if cluster is None:
        return nullcontext()
    from fedvalue.engines.cluster import connect

    return connect(cluster)
