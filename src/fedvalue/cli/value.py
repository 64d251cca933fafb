"""`fedvalue value`: value the parties of one table that may be gathered."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

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
    seed: Annotated[int, typer.Option(help="Seed of the sampled permutations.")] = 0,
    protocol: Annotated[
        str | None,
        typer.Option(help="Compute federated, all roles in this process: single, paper or mirror."),
    ] = None,
    q: Annotated[int | None, typer.Option(help="Encryption IDs per sample (protocol paper).")] = None,
    n_r: Annotated[
        float | None,
        typer.Option(
            "--n-r",
            help="Adversarial samples (protocol paper): a number per cell, or a share such as 0.9 of all.",
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
    from fedvalue.cli.terminal import progress_bar

    options: dict[str, Any] = {"q": q, "n_r": n_r, "harden": harden, "policy": policy}
    with _executor(cluster) as executor, progress_bar("valuing") as progress:
        columns = _Columns.of(data, label=label, task=task, party=party or [], each=each, id_column=id_column)
        result = columns.value(
            bins=bins, binning=binning, pca=pca, method=method, n_permutations=permutations,
            precision=precision, seed=seed, statistics=statistics, protocol=protocol,
            executor=executor, progress=progress,
            **{key: item for key, item in options.items() if item is not None},
        )  # fmt: skip
    deliver(result, json_file, html)


def deliver(result: Valuation, json_file: str | None, html: Path | None) -> None:
    """Print the table, or the JSON alone, and write the files that were asked for."""
    from fedvalue.cli.terminal import say, show_valuation, write_text

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


class _Columns:
    """Which column belongs to whom, read from one source."""

    def __init__(
        self, table: Any, label: str, task: list[str], parties: dict[str, list[str]], ids: Any
    ) -> None:
        self.table, self.label, self.task, self.parties, self.ids = table, label, task, parties, ids

    @classmethod
    def of(
        cls, data: str, *, label: str, task: str, party: list[str], each: bool, id_column: str | None
    ) -> _Columns:
        """Read the named columns; refuse a column that is given twice."""
        from fedvalue.tables.files import column_names, read_table
        from fedvalue.tables.party_table import check_ids

        own = split_names(task)
        parties = parse_parties(party)
        used = [label, *own, *([id_column] if id_column else [])]
        if each:
            taken = {*used, *(column for columns in parties.values() for column in columns)}
            parties |= {column: [column] for column in column_names(data) if column not in taken}
        if not parties:
            raise InputError("at least one data party is needed: give --party NAME=COL,… or --each")
        refuse_shared({"the label": [label], "the task party": own, **_quoted(parties)}, id_column)
        wanted = [*used, *(column for columns in parties.values() for column in columns)]
        table = read_table(data, columns=wanted, text_columns=[id_column] if id_column else [])
        ids = None
        if id_column:
            ids = table.column(id_column)
            check_ids(ids)
        return cls(table, label, own, parties, ids)

    def value(self, **settings: Any) -> Valuation:
        """Value the parties."""
        from fedvalue.valuation.local import value as value_tables

        return value_tables(
            label=self.table.column(self.label),
            task=self.table.select(self.task) if self.task else None,
            parties={name: self.table.select(columns) for name, columns in self.parties.items()},
            ids=self.ids,
            **settings,
        )


def parse_parties(arguments: list[str]) -> dict[str, list[str]]:
    """`NAME=COL,COL` arguments -> columns by party.

    Raises:
        InputError: No `=`, no name, no column, or a party named twice.
    """
    parties: dict[str, list[str]] = {}
    for argument in arguments:
        name, equals, columns = argument.partition("=")
        name = name.strip()
        if not equals or not name or not split_names(columns):
            raise InputError(f"--party must read NAME=COL,COL,…, got {argument!r}")
        if name in parties:
            raise InputError(f"party {name!r} is given twice; list all its columns in one --party")
        parties[name] = split_names(columns)
    return parties


def split_names(text: str) -> list[str]:
    """Column names separated by commas; a name that holds a comma stands in double quotes."""
    if not text.strip():
        return []
    return [name.strip() for name in next(csv.reader([text], skipinitialspace=True)) if name.strip()]


def refuse_shared(owners: dict[str, list[str]], id_column: str | None) -> None:
    """Refuse a column that has two owners, or one that is also the id.

    Raises:
        InputError: Naming the column and both owners.
    """
    seen: dict[str, str] = {} if id_column is None else {id_column: "the id"}
    for owner, columns in owners.items():
        for column in columns:
            if column in seen:
                raise InputError(
                    f"column {column!r} is given to {seen[column]} and to {owner}; it can have one owner"
                )
            seen[column] = owner


def _quoted(parties: dict[str, list[str]]) -> dict[str, list[str]]:
    return {f"party {name!r}": columns for name, columns in parties.items()}


def _executor(cluster: str | None) -> Any:
    from contextlib import nullcontext

    if cluster is None:
        return nullcontext(None)
    from fedvalue.engines.cluster import connect

    return connect(cluster)
