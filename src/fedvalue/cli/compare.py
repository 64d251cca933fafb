"""`fedvalue compare`: what changed from one result to another, beyond its error."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedvalue.cli import shared_options as options
from fedvalue.cli.terminal import print_line, print_table, refuse_unwritable, wrote_json


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("compare")(compare)


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
    from fedvalue.valuation.result import Valuation

    outcome = comparison.compare(Valuation.from_json(before), Valuation.from_json(after))
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
                    change.name, f"{change.before:.4f}", f"{change.after:.4f}",
                    f"{change.after - change.before:+.4f}",
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
