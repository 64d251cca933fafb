"""`fedvalue select`: whom to invite with a budget."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedvalue.errors import InputError

if TYPE_CHECKING:
    from fedvalue.decisions.games import Game
    from fedvalue.decisions.selection import Selection
    from fedvalue.valuation.result import Valuation


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("select")(select)


def select(
    source: Annotated[
        str,
        typer.Argument(
            help="A result file (JSON), or a table as for `fedvalue value`, with --label and --party.",
            metavar="RESULT|DATA",
        ),
    ],
    prices: Annotated[Path, typer.Option(help="CSV file with the columns party and price.", metavar="FILE")],
    budget: Annotated[str, typer.Option(help="What may be spent.", metavar="AMOUNT")],
    by: Annotated[str, typer.Option(help="Go by the learnable value or by shapley-cmi.")] = "learnable",
    label: Annotated[
        str | None, typer.Option(help="DATA: column with the task's label.", metavar="COL")
    ] = None,
    party: Annotated[
        list[str] | None,
        typer.Option(help="DATA: a data party and its columns. Repeat for each.", metavar="NAME=COL,COL,…"),
    ] = None,
    each: Annotated[
        bool, typer.Option("--each", help="DATA: every remaining column is a party of its own.")
    ] = False,
    task: Annotated[
        str, typer.Option(help="DATA: the task party's own feature columns.", metavar="COL,COL,…")
    ] = "",
    bins: Annotated[int, typer.Option(help="DATA: bins of a numeric column.")] = 5,
    json_file: Annotated[
        str | None,
        typer.Option("--json", help="Write the selection as JSON; - prints it alone.", metavar="FILE|-"),
    ] = None,
) -> None:
    """Which parties to invite with this budget, and when more of them are no more than noise.

    A result of up to 12 parties holds the value of every subset; for more, or after a federated run,
    subsets are valued by the sum of their members. Given the table itself, every subset of up to 20
    parties is valued.
    """
    from fedvalue.decisions import selection

    listed = selection.read_prices(prices)
    if label is None:
        if party or each or task:
            raise InputError("--party, --each and --task describe a table, which needs --label too")
        from fedvalue.valuation.result import Valuation

        result, game = Valuation.from_json(source), None
    else:
        result, game = _from_data(source, label, task, party or [], each, bins, by)
    found = selection.select(result, listed, budget, by=by, game=game)
    _deliver(found, json_file)


def _from_data(
    data: str, label: str, task: str, party: list[str], each: bool, bins: int, by: str
) -> tuple[Valuation, Game]:
    """Value the parties of a table, and the game on it."""
    from fedvalue.cli.columns import Columns
    from fedvalue.cli.terminal import progress_bar
    from fedvalue.decisions.games import game_of_counts
    from fedvalue.local.value import joint_counts
    from fedvalue.tables.files import read_table
    from fedvalue.tables.party_table import label_table, party_table, task_table
    from fedvalue.valuation.engine import value_counts

    columns = Columns.parse(data, label=label, task=task, party=party, each=each, ids=None)
    table = read_table(data, columns=columns.all)
    y = label_table(table.column(columns.label), bins=bins)
    own = task_table(table.select(list(columns.task)) if columns.task else None, len(y.codes), bins=bins)
    tables = {
        name: party_table(name, table.select(names), bins=bins) for name, names in columns.parties.items()
    }
    counts = joint_counts(y, own, tables)
    with progress_bar("valuing") as progress:
        result = value_counts(counts, progress=progress)
    return result, game_of_counts(counts, by)


def _deliver(found: Selection, json_file: str | None) -> None:
    import json

    from fedvalue.cli.terminal import say, write_text

    text = json.dumps(found.to_dict(), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    if json_file == "-":
        typer.echo(text, nl=False)
        return
    _show(found)
    if json_file is not None:
        write_text(Path(json_file), text)
        say(f"selection written to {json_file}")


def _show(found: Selection) -> None:
    """Print the choice, the order of invitation and what was assumed."""
    import sys

    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    from fedvalue.decisions.selection import GREEDY_BOUND

    console = Console(file=sys.stdout, highlight=False)
    chosen = ", ".join(found.parties) or "nobody"
    part = f"{found.value / found.total:.1%}" if found.total > 0 else "0%"
    console.print(
        f"Invite {chosen}: {found.value:.4f} nats ({part} of everybody's) for {found.cost:,} "
        f"of {found.budget:,}.",
        soft_wrap=True, markup=False,
    )  # fmt: skip
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("best order", overflow="fold")
    for heading in ("price", "adds", "noise", "value so far"):
        table.add_column(heading, justify="right")
    table.add_column("")
    for step in found.order:
        table.add_row(
            _escape(step.party), f"{step.price:,}", f"{step.gain:.4f}",
            "" if step.noise is None else f"{step.noise:.4f}", f"{step.value:.4f}",
            "" if step.above_noise else "no more than noise",
        )  # fmt: skip
    console.print(table)
    how = (
        "every subset was compared"
        if found.method == "exact"
        else f"greedy: at least {GREEDY_BOUND:.0%} of the best value where returns fall"
    )
    console.print(f"by {found.by}; {how}; subsets valued by {found.basis}", soft_wrap=True, markup=False)


def _escape(text: str) -> str:
    from rich.markup import escape

    return escape(text)
