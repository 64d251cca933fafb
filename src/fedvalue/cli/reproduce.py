"""`fedvalue reproduce`: the paper's experiments with our numbers beside its claims."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from fedvalue.typing import Progress

_SECONDS_BETWEEN_LINES = 30.0


def reproduce(
    names: Annotated[
        list[str],
        typer.Argument(
            help="table1, table2, fig2, fig3, fig4, fig5, fig6, fig7, fig8, or all.", metavar="NAME…"
        ),
    ],
    profile: Annotated[
        str, typer.Option(help="quick: minutes on two cores. paper: the paper's repeats, many hours.")
    ] = "quick",
    out: Annotated[
        Path, typer.Option(help="Folder for results; a stopped run continues there.", metavar="DIR")
    ] = Path("reproduction"),
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 0,
    workers: Annotated[int | None, typer.Option(help="Processes; one per core by default.", min=0)] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Discard earlier results in DIR.")] = False,
    json_file: Annotated[
        str | None,
        typer.Option("--json", help="Also write the verdicts as JSON; - for stdout.", metavar="FILE"),
    ] = None,
) -> None:
    """Run the paper's experiments: numbers, drawings, and a verdict on each of its claims.

    Writes DIR/NAME.json, DIR/NAME.svg and DIR/index.html. Finished pieces are kept, so the same command
    continues a run that was stopped. A data set that is not on this machine is named and left out. Timings
    are in CPU seconds, but run best on an idle machine.
    """
    from fedvalue.cli.progress import progress_bar
    from fedvalue.cli.terminal import print_table, say, wrote_json
    from fedvalue.paper.experiments.experiment import chosen
    from fedvalue.paper.experiments.runner import check_needs
    from fedvalue.paper.experiments.runner import reproduce as run

    experiments = chosen(names)
    for message in check_needs(experiments).values():
        say(f"left out: {message}")
    with progress_bar("reproduce") as bar:
        documents = run(
            experiments, profile=profile, out=out, seed=seed, workers=workers, fresh=fresh,
            progress=bar if sys.stderr.isatty() else progress_lines(time.monotonic),
        )  # fmt: skip
    say(f"results: {out / 'index.html'}")
    keys = ("name", "claim", "measured", "verdict")
    verdicts = [{key: document[key] for key in keys} for document in documents]
    if not wrote_json(verdicts, json_file, "verdicts"):
        rows = [(document["name"], document["verdict"], document["measured"]) for document in documents]
        print_table(("experiment", "verdict", "measured"), rows, left=(0, 1, 2))


def progress_lines(clock: Callable[[], float]) -> Progress:
    """Progress for a log file: a line every half minute, with an estimate of the time left."""
    start = said = clock()

    def tell(done: float, total: float, note: str = "") -> None:
        nonlocal said
        now = clock()
        if done > 0 and now - said >= _SECONDS_BETWEEN_LINES:
            said = now
            left = (now - start) * (total - done) / done
            sys.stderr.write(f"reproduce: {done / total:.0%}, about {left / 60:.0f} min left ({note})\n")

    return tell
