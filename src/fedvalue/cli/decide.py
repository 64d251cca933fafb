"""`fedvalue select`, `payout` and `compare`: decisions from a result."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from fedvalue.cli import shared_options as options
from fedvalue.cli.progress import progress_bar
from fedvalue.cli.terminal import print_line, print_table, refuse_unwritable, wrote_json, wrote_text
from fedvalue.errors import InputError

if TYPE_CHECKING:
    from fedvalue.decisions.payout import Payout
    from fedvalue.decisions.selection import Selection, Step
    from fedvalue.valuation.result import Valuation
    from fedvalue.valuation.settings import ValuationSettings

_BASIS = {
    "coalitions": "",
    "an order of joining": "; sets along one order of joining were valued",
    "pairs of parties": "; sets are valued by their members' values and the interactions of pairs",
    "sum of values": "; sets are valued by the sum of their members",
}
"""How sets of parties were valued, by `Selection.basis`."""

_ABOUT_CHOICE = ("source", "prices", "budget", "by", "json_file")
"""Arguments of `select` that do not describe a table."""

_REMEDY = "`fedvalue value` with --json FILE makes a result of it"


@options.takes("coding", options.coding_options)
def select(
    source: Annotated[
        str,
        typer.Argument(
            help="A result file (JSON), or a table as for `fedvalue value`, with --label and --party.",
            metavar="RESULT|DATA",
        ),
    ],
    context: typer.Context,
    prices: Annotated[Path, typer.Option(help="Table with the columns party and price.", metavar="FILE")],
    budget: Annotated[str, typer.Option(help="Most that may be spent.", metavar="AMOUNT")],
    coding: Any,
    by: options.By = "learnable",
    label: options.Label = None,
    party: options.Party = None,
    each: options.Each = False,
    task: options.Task = "",
    columns: options.ColumnsOption = "features",
    json_file: options.JsonFile = None,
) -> None:
    """Choose the parties to invite within a budget, and name those that the rows leave undecided.

    A result of up to 12 parties has the value of every set of parties; for more parties, sets are valued by
    their members and the interactions of pairs.
    """
    from fedvalue.decisions import selection
    from fedvalue.decisions.own_share import refuse_own_share
    from fedvalue.decisions.price_list import read_prices

    listed = read_prices(prices)
    if label is None:
        if described := options.used_options(context, except_for=_ABOUT_CHOICE):
            verb = "describes" if len(described) == 1 else "describe"
            raise InputError(
                f"{', '.join(described)} {verb} a table, which needs --label too; a result file has "
                "its answers"
            )
        valuation = read_result(source, "add --label, and --party or --each, to value it")
    else:
        from fedvalue.valuation.settings import ValuationSettings

        settings = ValuationSettings(columns=cast(Any, columns), coding=coding)
        valuation = _value(source, label, task, party or [], each, settings)
    refuse_own_share(valuation, "selection")
    chosen = selection.select(valuation, listed, budget, by=by)
    if not wrote_json(chosen.to_dict(), json_file, "selection"):
        _show_selection(valuation, chosen)


def read_result(source: str | Path, remedy: str = _REMEDY) -> Valuation:
    """Read a result; where a table is given instead, say what to do."""
    from fedvalue.tables.sources import is_file_name
    from fedvalue.valuation.result import Valuation

    try:
        return Valuation.from_json(source)
    except InputError:
        if is_file_name(str(source)):
            raise InputError(f"{source} is a table: {remedy}") from None
        raise


def _value(
    data: str, label: str, task: str, party: list[str], each: bool, settings: ValuationSettings
) -> Valuation:
    """Value a table as `fedvalue value` does."""
    from fedvalue.cli.column_owners import parse_request
    from fedvalue.engines import Execution
    from fedvalue.local.value_request import value_request

    request = parse_request(data, label=label, task=task, party=party, each=each)
    with progress_bar("valuing", watch_compiling=True) as progress:
        return value_request(request, settings, execution=Execution(progress=progress))


def _show_selection(valuation: Valuation, selection: Selection) -> None:
    """Print the advice, the contributions of the parties in order, and the method."""
    from fedvalue.decisions.leaks import Leaks
    from fedvalue.decisions.selection import GREEDY_BOUND
    from fedvalue.reports import wording

    for sentence in _sentences(valuation, selection):
        print_line(sentence)
    doubtful = Leaks.of(valuation, selection.parties).parties
    print_table(
        ("party", "price", "adds", "95% interval", "value so far", "advice"),
        [
            (
                step.party,
                f"{step.price:,}",
                f"{step.adds.gain:z.4f}".replace("-", "−"),
                "" if step.adds.low is None else wording.interval((step.adds.low, step.adds.high or 0.0)),
                f"{step.value:.4f}",
                "check first" if step.party in doubtful else _advice(step),
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
    from fedvalue.decisions.games import listing
    from fedvalue.decisions.leaks import Leaks
    from fedvalue.reports import wording

    if selection.by == "learnable":
        return wording.decision(valuation, selection)
    chosen = listing(selection.parties) or "nobody"
    leaks = Leaks.of(valuation, selection.parties)
    doubt = (f"Warning: {leaks.suspicion}; {leaks.remedy}.",) if leaks.columns else ()
    return (
        *doubt,
        f"With a budget of {selection.budget:,}, invite {chosen} for {selection.cost:,}, by Shapley-CMI.",
        "Warning: Shapley-CMI also counts what is memorised; the learnable value does not.",
    )


def _advice(step: Step) -> str:
    if step.invited:
        return "invite"
    return {"adds": "over budget", "undecided": "undecided", "nothing": "adds nothing"}[step.adds.verdict]


def payout(
    result: Annotated[Path, typer.Argument(help="A result file (JSON).", metavar="RESULT")],
    pot: Annotated[str, typer.Option(help="Amount to divide.", metavar="AMOUNT")],
    by: options.By = "learnable",
    floor: Annotated[str, typer.Option(help="Least amount for each party.", metavar="AMOUNT")] = "0",
    cap: Annotated[str | None, typer.Option(help="Largest amount for any party.", metavar="AMOUNT")] = None,
    csv_file: Annotated[
        str | None,
        typer.Option("--csv", help="Write the shares as CSV; - prints only the CSV.", metavar="FILE|-"),
    ] = None,
    json_file: options.JsonFile = None,
) -> None:
    """Divide a pot by value, exact to the cent.

    Parties whose values differ by less than their error have the same rank. If the result has the value of
    every set of parties, the payout says whether any group gets less than it would bring alone.
    """
    from fedvalue.decisions.own_share import refuse_own_share
    from fedvalue.decisions.payout import payout as divide

    if csv_file == "-" and json_file == "-":
        raise InputError("only one of --csv and --json can go to standard output")
    valuation = read_result(result)
    refuse_own_share(valuation, "payout")
    payment = divide(valuation, pot, by=by, floor=floor, cap=cap)
    csv_alone = wrote_text(payment.to_csv(), csv_file, "CSV")
    json_alone = wrote_json(payment.to_dict(), json_file, "JSON")
    if not csv_alone and not json_alone:
        _show_payout(payment)


def _show_payout(payment: Payout) -> None:
    print_table(
        ("rank", "party", "value", "amount", "share", ""),
        [
            (
                f"{share.rank}{'=' if share.tied else ''}",
                share.name,
                f"{share.value:z.4f}",
                f"{share.amount:,}",
                f"{share.percent:.2f}%",
                share.bound,
            )
            for share in sorted(payment.shares, key=lambda share: (share.rank, -share.value))
        ],
        footer=("", "total", "", f"{payment.pot:,}", "", ""),
        left=(1, 5),
    )
    for line in payment.remarks():
        print_line(line)


def compare(
    before: Annotated[Path, typer.Argument(help="A result file (JSON).", metavar="BEFORE")],
    after: Annotated[Path, typer.Argument(help="A later result file.", metavar="AFTER")],
    json_file: options.JsonFile = None,
) -> None:
    """Show what changed from one result to another: the advice, the values beyond their error, the question.

    Example: fedvalue compare march.json june.json
    """
    refuse_unwritable(json_file)
    import msgspec

    from fedvalue.decisions import comparison

    outcome = comparison.compare(read_result(before), read_result(after))
    if wrote_json(msgspec.to_builtins(outcome), json_file, "comparison"):
        return
    for sentence in outcome.sentences:
        print_line(sentence)
    changes = [*outcome.parties, *([outcome.total] if outcome.total else [])]
    if changes:
        verdict = {True: "yes", False: "no", None: "not known"}
        print_table(
            ["party", "before", "after", "difference", "± 95%", "beyond its error"],
            [
                [
                    change.name, f"{change.before:z.4f}", f"{change.after:z.4f}",
                    f"{change.after - change.before:+z.4f}".replace("-", "−"),
                    "" if change.error is None else f"{1.96 * change.error:.4f}",
                    verdict[change.beyond_error],
                ]
                for change in changes
            ],
        )  # fmt: skip
        rows = {
            True: "both results come from the same rows: errors of the data cancel",
            False: "the results come from different rows",
            None: "it is not known whether the rows are the same; they are treated as different",
        }
        print_line(f"learnable values in nats per row; {rows[outcome.same_rows]}")
