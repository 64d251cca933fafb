"""`fedvalue reproduce`, `benchmark` and `datasets`: the paper's experiments, values against retraining."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedvalue.cli.progress import progress_bar
from fedvalue.cli.shared_options import JsonFile
from fedvalue.cli.terminal import print_line, print_table, refuse_unwritable, say, wrote_json

if TYPE_CHECKING:
    from fedvalue.benchmark import BenchmarkResult
    from fedvalue.datasets.catalogue import Entry
    from fedvalue.datasets.locate import Place
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
    json_file: JsonFile = None,
) -> None:
    """Run the paper's experiments: numbers, drawings, and a verdict on each of its claims.

    Writes DIR/NAME.json, DIR/NAME.svg and DIR/index.html. Finished pieces are kept, so the same command
    continues a run that was stopped. Data sets that are not on this machine are named and left out. Timings
    are in CPU seconds, but are best measured on an idle machine.
    """
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
    start = last = clock()

    def report(done: float, total: float, note: str = "") -> None:
        nonlocal last
        now = clock()
        if done > 0 and now - last >= _SECONDS_BETWEEN_LINES:
            last = now
            left = (now - start) * (total - done) / done
            sys.stderr.write(f"reproduce: {done / total:.0%}, about {left / 60:.0f} min left ({note})\n")

    return report


def benchmark(
    profile: Annotated[
        str, typer.Option(help="quick: minutes on two cores. full: all data sets and splits, hours.")
    ] = "quick",
    method: Annotated[
        list[str] | None, typer.Option(help="Only this method, or your own as module:Class.", metavar="NAME")
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
        Path | None, typer.Option(help="Folder for true values; your cache by default.", metavar="DIR")
    ] = None,
    workers: Annotated[int, typer.Option(help="Processes that train models.", min=1)] = 1,
    json_file: JsonFile = None,
) -> None:
    """Compare ways to value data with the gain of models that were retrained with the data.

    Needs the extra `benchmark`. True values are kept in the cache, so the same command continues a run that
    was stopped. Data sets that are not on this machine are named and left out; a method that fails on a
    setting is reported, and the run continues.
    """
    from fedvalue.benchmark import chosen, plan, run_benchmark
    from fedvalue.benchmark.benchmark_page import write_page
    from fedvalue.benchmark.benchmark_run import with_truth
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
        _show_scores(result)


def _show_scores(result: BenchmarkResult) -> None:
    """Print the scores as tables."""
    from fedvalue.benchmark.benchmark_page import known_table, lead, notes, scores_table

    if result.real:
        table = scores_table(result)
        print_table(table.header, table.rows, title="Real data sets, truth by retraining")
    if result.known:
        table = known_table(result)
        print_table(table.header, table.rows, title="Populations with known values: TV")
    for line in (lead(result), *notes(result)):
        print_line(line)


def datasets(
    download: Annotated[
        list[str] | None,
        typer.Option(
            help="Fetch a data set into your cache, or all that may be fetched.", metavar="NAME|all"
        ),
    ] = None,
    json_file: JsonFile = None,
) -> None:
    """List the paper's six data sets and the benchmark's other three: where they are, how to get them.

    They are searched in the folder FEDVALUE_DATA, in ../shared/data beside a checkout, in your cache, then in
    scikit-learn (Wine, Breast and Digits). Nothing is downloaded unless you ask for it.
    """
    from fedvalue.datasets import locate
    from fedvalue.datasets.catalogue import CATALOGUE

    for entry in _asked_for(download or []):
        say(f"{entry.name}: {entry.origin}; licence: {entry.licence}")
        say(f"{entry.name}: kept as {locate.download(entry)}")
    places = [(entry, locate.find(entry)) for entry in CATALOGUE.values()]
    keys = ("name", "n_samples", "n_features", "n_labels", "origin", "licence")
    listed = [
        {**{key: getattr(entry, key) for key in keys}, "found": None if place is None else str(place)}
        for entry, place in places
    ]
    if not wrote_json(listed, json_file, "list"):
        _show_datasets(places)


def _asked_for(names: list[str]) -> list[Entry]:
    from fedvalue.datasets import locate
    from fedvalue.datasets.catalogue import CATALOGUE, entry

    if "all" in names:
        return [known for known in CATALOGUE.values() if known.urls and locate.find(known) is None]
    return [entry(name) for name in names]


def _show_datasets(status: list[tuple[Entry, Place | None]]) -> None:
    from fedvalue.datasets.locate import missing_message

    print_table(
        ("data set", "rows", "features", "labels", "found"),
        [
            (
                entry.name, f"{entry.n_samples:,}", str(entry.n_features), str(entry.n_labels),
                "missing" if place is None else str(place),
            )
            for entry, place in status
        ],
        left=(0, 4),
    )  # fmt: skip
    for entry, _ in status:
        print_line(f"{entry.name}: {entry.origin}. Licence: {entry.licence}.")
    for entry, place in status:
        if place is None:
            print_line(missing_message(entry))
