"""`fedvalue select`: whom to invite with a budget."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from fedvalue.cli import shared_options as options
from fedvalue.errors import InputError

if TYPE_CHECKING:
    from fedvalue.decisions.selection import Selection, Step
    from fedvalue.valuation.result import Valuation
    from fedvalue.valuation.settings import ValuationSettings


_BASIS = {
    "coalitions": "",
    "an order of joining": "; sets along one order of joining were valued",
    "pairs of parties": "; sets are valued by their members' values and the interactions of pairs",
    "sum of values": "; sets are valued by the sum of their members",
}
"""How sets of parties were valued."""


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
    by: options.By = "learnable",
    label: Annotated[
        str | None, typer.Option(help="DATA: column with the task's label.", metavar="COL")
    ] = None,
    party: options.Party = None,
    each: options.Each = False,
    task: options.Task = "",
    bins: options.Bins = 5,
    binning: options.Binning = "quantile",
    label_bins: options.LabelBins = None,
    categorical: options.Categorical = "",
    columns: options.ColumnsOption = "features",
    json_file: options.JsonFile = None,
) -> None:
    """Choose the parties to invite within a budget, and name those that the rows leave undecided.

    A result of up to 12 parties holds the value of every set of parties; for more parties, sets are valued
    by their members and the interactions of pairs.
    """
    from fedvalue.decisions import selection
    from fedvalue.decisions.money import read_prices

    listed = read_prices(prices)
    if label is None:
        if party or each or task:
            raise InputError("--party, --each and --task describe a table, which needs --label too")
        from fedvalue.valuation.result import Valuation

        valuation = Valuation.from_json(source)
    else:
        from fedvalue.cli.column_owners import split_names
        from fedvalue.tables.coding_settings import CodingSettings
        from fedvalue.valuation.settings import ValuationSettings

        settings = ValuationSettings(
            columns=cast(Any, columns),
            coding=CodingSettings(
                bins=bins, binning=cast(Any, binning), label_bins=label_bins,
                categorical=tuple(split_names(categorical)),
            ),
        )  # fmt: skip
        valuation = _value(source, label, task, party or [], each, settings)
    _deliver(valuation, selection.select(valuation, listed, budget, by=by), json_file)


def _value(
    data: str, label: str, task: str, party: list[str], each: bool, settings: ValuationSettings
) -> Valuation:
    """Value a table as `fedvalue value` does."""
    from fedvalue.cli.column_owners import parse_request
    from fedvalue.cli.terminal import progress_bar
    from fedvalue.engines import Execution
    from fedvalue.local.value_request import value_request

    request = parse_request(data, label=label, task=task, party=party, each=each)
    with progress_bar("valuing", watch_compiling=True) as progress:
        return value_request(request, settings, execution=Execution(progress=progress))


def _deliver(valuation: Valuation, selection: Selection, json_file: str | None) -> None:
    import json

    from fedvalue.cli.terminal import say, write_text

    text = json.dumps(selection.to_dict(), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    if json_file == "-":
        typer.echo(text, nl=False)
        return
    if json_file is not None:
        write_text(Path(json_file), text)
        say(f"selection written to {json_file}")
    _show(valuation, selection)


def _show(valuation: Valuation, selection: Selection) -> None:
    """Print the choice, what everybody adds one after the other, and how it was chosen."""
    from fedvalue.cli.terminal import print_line, print_table
    from fedvalue.decisions.selection import GREEDY_BOUND
    from fedvalue.reports import wording

    for sentence in _sentences(valuation, selection):
        print_line(sentence)
    print_table(
        ("party", "price", "adds", "95% interval", "value so far", "advice"),
        [
            (
                step.party,
                f"{step.price:,}",
                f"{step.adds.gain:z.4f}",
                "" if step.adds.low is None else wording.interval((step.adds.low, step.adds.high or 0.0)),
                f"{step.value:.4f}",
                _advice(step),
            )
            for step in selection.steps
        ],
        left=(0, 5),
    )
    how = "every set of parties was compared"
    if selection.method != "exact":
        how = f"chosen greedily: at least {GREEDY_BOUND:.0%} of the best value where returns fall"
    print_line(f"by {selection.by}, in nats per row; {how}{_BASIS[selection.basis]}")


def _sentences(valuation: Valuation, selection: Selection) -> tuple[str, ...]:
    from fedvalue.reports import wording

    if selection.by == "learnable":
        return wording.decision(valuation, selection)
    chosen = wording.listing(selection.parties) or "nobody"
    return (
        f"With a budget of {selection.budget:,}, invite {chosen} for {selection.cost:,}, by Shapley-CMI.",
        "Warning: Shapley-CMI also counts what is memorised; the learnable value does not.",
    )


def _advice(step: Step) -> str:
    if step.invited:
        return "invite"
    return {"adds": "over budget", "undecided": "undecided", "nothing": "adds nothing"}[step.adds.verdict]
