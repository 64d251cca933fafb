"""`fedvalue payout`: what to pay each party out of a pot."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedvalue.cli import shared_options as options

if TYPE_CHECKING:
    from fedvalue.decisions.payout import Payout


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("payout")(payout)


def payout(
    result: Annotated[Path, typer.Argument(help="A result file (JSON).", metavar="RESULT")],
    pot: Annotated[str, typer.Option(help="Amount to divide.", metavar="AMOUNT")],
    by: options.By = "learnable",
    floor: Annotated[str, typer.Option(help="Least amount of every party.", metavar="AMOUNT")] = "0",
    cap: Annotated[str | None, typer.Option(help="Largest amount of any party.", metavar="AMOUNT")] = None,
    csv_file: Annotated[
        str | None,
        typer.Option("--csv", help="Write the shares as CSV; - prints it alone.", metavar="FILE|-"),
    ] = None,
    json_file: Annotated[
        str | None,
        typer.Option("--json", help="Write the shares as JSON; - prints it alone.", metavar="FILE|-"),
    ] = None,
) -> None:
    """Divide a pot by value, exact to the cent.

    Parties whose values differ by less than their error have the same rank. Where the result holds the value
    of every set of parties, the payout says whether some group gets less than it would bring by itself.
    """
    import json

    from fedvalue.cli.terminal import say, write_text
    from fedvalue.decisions.payout import payout as divide
    from fedvalue.errors import InputError
    from fedvalue.valuation.result import Valuation

    if csv_file == "-" and json_file == "-":
        raise InputError("only one of --csv and --json can go to standard output")
    payment = divide(Valuation.from_json(result), pot, by=by, floor=floor, cap=cap)
    as_json = json.dumps(payment.to_dict(), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    texts = {"CSV": (csv_file, payment.to_csv()), "JSON": (json_file, as_json)}
    for kind, (target, text) in texts.items():
        if target is not None and target != "-":
            write_text(Path(target), text)
            say(f"{kind} written to {target}")
    alone = [text for target, text in texts.values() if target == "-"]
    if alone:
        typer.echo(alone[0], nl=False)
    else:
        _show(payment)


def _show(payment: Payout) -> None:
    from fedvalue.cli.terminal import print_line, print_table

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
