"""`fedvalue benchmark`: data values against what retraining really brings."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from fedvalue.benchmark import BenchmarkResult


def benchmark(
    profile: Annotated[
        str, typer.Option(help="quick: minutes on two cores. full: all data sets and splits, hours.")
    ] = "quick",
    method: Annotated[
        list[str] | None,
        typer.Option(help="Only this method, or your own as module:Class.", metavar="NAME"),
    ] = None,
    data: Annotated[list[str] | None, typer.Option(help="Only this data set.", metavar="NAME")] = None,
    design: Annotated[
        bool, typer.Option("--design", help="The splits that you may tune on, instead of the judging ones.")
    ] = False,
    finished: Annotated[
        bool,
        typer.Option("--finished", help="Train nothing: only settings whose true values are in the cache."),
    ] = False,
    out: Annotated[
        Path, typer.Option(help="Folder for benchmark.json and index.html.", metavar="DIR")
    ] = Path("benchmark"),
    cache: Annotated[
        Path | None,
        typer.Option(help="Folder for true values; your cache by default.", metavar="DIR"),
    ] = None,
    workers: Annotated[int, typer.Option(help="Processes that train models.", min=1)] = 1,
    json_file: Annotated[
        str | None, typer.Option("--json", help="Also write the result here; - for stdout.", metavar="FILE")
    ] = None,
) -> None:
    """Compare ways to value data with the gain of models that were retrained with the data.

    Needs the extra `benchmark`. True values are kept in the cache, so the same command continues a run that
    was stopped. A data set that is not on this machine is named and left out, a method that fails on a
    setting is reported, and the run goes on.
    """
    from fedvalue.benchmark import chosen, plan, run_benchmark
    from fedvalue.benchmark.benchmark_page import write_page
    from fedvalue.benchmark.benchmark_run import with_truth
    from fedvalue.cli.progress import progress_bar
    from fedvalue.cli.terminal import refuse_unwritable, say, wrote_json
    from fedvalue.paper.extras import require_extra

    require_extra("benchmark")
    refuse_unwritable(json_file)
    methods = chosen(method or [])
    problems, missing = plan(profile, data_sets=data or [], design=design)
    for message in missing.values():
        say(f"left out: {message}")
    if finished:
        problems = with_truth(problems, cache)
    try:
        with progress_bar("benchmark") as bar:
            result = run_benchmark(
                problems, methods, cache=cache, workers=workers, progress=bar, profile=profile, design=design,
                missing=missing,
            )  # fmt: skip
    except KeyboardInterrupt:
        say("what was computed so far is kept: the same command continues")
        raise
    say(f"results: {write_page(result, out)}")
    if not wrote_json(result.to_dict(), json_file, "result"):
        show(result)


def show(result: BenchmarkResult) -> None:
    """Print the scores as tables."""
    from fedvalue.benchmark.benchmark_page import known_table, lead, notes, scores_table
    from fedvalue.cli.terminal import print_line, print_table

    if result.real:
        table = scores_table(result)
        print_table(table.header, table.rows, title="Real data sets, truth by retraining")
    if result.known:
        table = known_table(result)
        print_table(table.header, table.rows, title="Populations with known values: TV")
    for line in (lead(result), *notes(result)):
        print_line(line)
