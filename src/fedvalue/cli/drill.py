"""`fedvalue drill`: cheating servers against each protocol."""

from __future__ import annotations

from enum import StrEnum
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedvalue.cli.shared_options import JsonFile
from fedvalue.cli.terminal import print_table, say, wrote_json
from fedvalue.errors import InputError

if TYPE_CHECKING:
    from fedvalue.simulation.drill.detection import Advice
    from fedvalue.simulation.drill.runner import DrillRow


class Drilled(StrEnum):
    """What can be drilled: `paper` and `vpsic` as published and hardened, `mirror`, `gram`, or all."""

    PAPER = "paper"
    MIRROR = "mirror"
    GRAM = "gram"
    VPSIC = "vpsic"
    ALL = "all"


def drill(
    protocol: Annotated[Drilled, typer.Option(help="Which protocol to drill.")] = Drilled.ALL,
    trials: Annotated[int, typer.Option(min=1, help="Runs per behaviour and protocol.")] = 50,
    q: Annotated[int, typer.Option(min=1, max=255, help="Encryption ids per sample (paper).")] = 2,
    n_r: Annotated[
        int, typer.Option("--n-r", min=0, max=10_000, help="Adversarial samples per cell (paper).")
    ] = 1,
    seed: Annotated[int, typer.Option(min=0, help="Random seed of the cheating servers.")] = 0,
    json_file: JsonFile = None,
    advise: Annotated[
        bool, typer.Option("--advise", help="Compare choices of q and n_r only: detection against bytes.")
    ] = False,
    cells: Annotated[int | None, typer.Option(min=2, help="With --advise: cells of the joint table.")] = None,
    samples: Annotated[int, typer.Option(min=1, help="With --advise: number of samples.")] = 10_000,
    parties: Annotated[int, typer.Option(min=1, help="With --advise: number of data parties.")] = 5,
) -> None:
    """Try each kind of cheating server against each protocol: how often it is caught, and the prediction."""
    if not advise:
        if cells is not None:
            raise InputError("--cells is for --advise")
        chosen = ("paper", "mirror", "gram", "vpsic") if protocol is Drilled.ALL else (protocol.value,)
        _deliver_rows(_drill(chosen, trials=trials, q=q, n_r=n_r, seed=seed), trials, json_file)
        return
    if cells is None:
        raise InputError("--advise needs --cells, the number of cells of the joint table")
    from fedvalue.simulation.drill.detection import advise as make_advice

    title = f"{cells:,} cells, {samples:,} samples, {parties} data parties with equally many values"
    _deliver_advice(make_advice(cells=cells, samples=samples, parties=parties), title, json_file)


def _drill(protocols: tuple[str, ...], *, trials: int, seed: int, **settings: Any) -> list[DrillRow]:
    from rich.console import Console

    from fedvalue.simulation.drill.gram_drill import gram_rows
    from fedvalue.simulation.drill.runner import run_drill
    from fedvalue.simulation.drill.vpsic_drill import vpsic_rows

    two_servers = tuple(name for name in protocols if name not in ("gram", "vpsic"))
    tables = [run_drill(protocols=two_servers, trials=trials, seed=seed, **settings)] if two_servers else []
    if "gram" in protocols:
        tables.append(gram_rows(trials=trials, seed=seed))
    if "vpsic" in protocols:
        tables.append(vpsic_rows(trials=trials, seed=seed))
    rows = []
    with Console(stderr=True).status("cheating") as status:
        for row in chain(*tables):
            status.update(f"{row.protocol}: {row.behaviour}")
            rows.append(row)
    return rows


def _deliver_rows(rows: list[DrillRow], trials: int, json_file: str | None) -> None:
    from dataclasses import asdict

    if wrote_json([asdict(row) for row in rows], json_file, "rows"):
        return
    columns = {
        ("paper", False): "paper as published",
        ("paper", True): "paper hardened",
        ("mirror", True): "mirror",
        ("gram", True): "gram",
        ("vpsic", False): "vpsic as published",
        ("vpsic", True): "vpsic hardened",
    }
    # gram and vpsic have other cheats: a table for each.
    for group in (("paper", "mirror"), ("gram",), ("vpsic",)):
        part = [row for row in rows if row.protocol in group]
        if part:
            _print_rows(part, columns, f"Detected in {trials} runs each (predicted)")
    if any(row.surprising for row in rows):
        say("Some rates are more than 4 standard deviations from the formulas: please report this.")
    if any(row.protocol == "paper" for row in rows):
        say("The published check is passed by a server that returns a whole upload or ignores a party.")
    if any(row.protocol == "vpsic" for row in rows):
        say("vpsic: a single server that reads q from the counts passes, also the hardened checks.")
    if any(row.protocol == "gram" for row in rows):
        say("gram: a party that works with a server can pass entries other than 0 and 1 (decision 0321).")
    if any(row.protocol != "vpsic" for row in rows):
        say("No protocol here detects two servers that share one lie.")


def _print_rows(rows: list[DrillRow], columns: dict[tuple[str, bool], str], title: str) -> None:
    present = [key for key in columns if any((row.protocol, row.hardened) == key for row in rows)]
    by_kind = {(row.behaviour, row.protocol, row.hardened): row for row in rows}
    lines = []
    for behaviour in dict.fromkeys(row.behaviour for row in rows):
        line = [behaviour]
        for key in present:
            row = by_kind.get((behaviour, *key))
            line.append("-" if row is None else f"{row.detected / row.trials:.1%} ({row.predicted:.1%})")
        lines.append(line)
    print_table(["a server that would", *(columns[key] for key in present)], lines, title=title)


def _deliver_advice(choices: list[Advice], title: str, json_file: str | None) -> None:
    from dataclasses import asdict

    if wrote_json([asdict(choice) for choice in choices], json_file, "rows"):
        return
    lines = []
    for choice in choices:
        name = choice.protocol
        if name == "paper":
            name += " hardened" if choice.hardened else " as published"
        q, n_r = ("-" if x is None else str(x) for x in (choice.q, choice.n_r))
        size = f"{choice.n_bytes / 1e6:,.1f} MB"
        lines.append([name, q, n_r, f"{choice.detection:.4%}", f"{choice.whole_upload:.0%}", size])
    print_table(["protocol", "q", "n_r", "drop one", "whole upload", "all uploads"], lines, title=title)
    say("'drop one': probability that a sample dropped from a cell that holds one is detected.")
    say("No q and n_r make the published check see a whole upload returned as the intersection.")
