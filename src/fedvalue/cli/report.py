"""`fedvalue report`: a result as one self-contained HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("report")(report)


def report(
    result: Annotated[Path, typer.Argument(help="A result file (JSON).", metavar="RESULT.json")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The page to write.", metavar="FILE.html")],
    prices: Annotated[
        Path | None,
        typer.Option(help="CSV file with the columns party and price, for the selection.", metavar="FILE"),
    ] = None,
    budget: Annotated[str | None, typer.Option(help="What may be spent.", metavar="AMOUNT")] = None,
) -> None:
    """Write the report of a result: whom to invite, values with intervals, overlap, how it was computed.

    The page loads nothing from anywhere and holds no script.
    """
    from fedvalue.cli.terminal import say
    from fedvalue.decisions.prices import read_prices
    from fedvalue.errors import InputError
    from fedvalue.reports import html
    from fedvalue.valuation.result import Valuation

    if output.suffix.lower() == ".pdf":
        raise InputError(f"{output}: the report is an HTML page; open it in a browser and print it to PDF")
    if budget is not None and prices is None:
        raise InputError("--budget needs --prices: without prices there is nothing to spend it on")
    listed = None if prices is None else read_prices(prices)
    html.write(Valuation.from_json(result), output, prices=listed, budget=budget)
    say(f"report written to {output}")
