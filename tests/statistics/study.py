"""The seeded study behind docs/statistics.md: what the statistics are worth where the truth is known.

    python -m tests.statistics.study [--quick] [--output FILE]

1. Learnable values: useless parties with 2 to 200 codes and a row-id party beside informative ones, n =
150 to 30,000. 2. Coverage of the 95% intervals of Shapley-CMI where cells are well filled.

Prints Markdown tables; `make study` runs it in full. Every number follows from the seeds.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedvalue.valuation.items import item_table
from fedvalue.valuation.shapley_indices import shapley_of
from fedvalue.valuation.statistics.influence import exact_influence
from fedvalue.valuation.statistics.joint_table_game import coalition_games
from tests.statistics.worlds import World, worlds

USELESS = (2, 10, 50, 200)
SIZES = {150: 200, 500: 120, 1000: 100, 3000: 50, 10_000: 24, 30_000: 10}
"""Samples, and how many tables are drawn of that size."""

PER_CELL = {20: 4000, 50: 4000, 200: 4000}
"""Samples per cell of the joint table, and how many tables are drawn."""

Z = 1.959963984540054


@dataclass(frozen=True)
class Learned:
    """Means over the tables of one world and size."""

    world: str
    n: int
    tables: int
    useless_share: float
    row_id_share: float
    errors: tuple[float, ...]
    plug_in_useless_share: float
    plug_in_errors: tuple[float, ...]


@dataclass(frozen=True)
class Covered:
    """How often the intervals of one world and size held the truth, per party."""

    world: str
    per_cell: int
    n: int
    tables: int
    coverage: tuple[float, ...]


def learned(world: World, n: int, tables: int) -> Learned:
    """Value many tables drawn from a world, with useless parties beside."""
    truth = world.truth()
    k = len(truth)
    found, plug = [], []
    for seed in range(tables):
        games = coalition_games(item_table(world.draw(n, seed, USELESS, row_id=True)))
        plug.append(shapley_of(games[0]))
        found.append(shapley_of(games[1]))
    mean, plain = np.mean(found, axis=0), np.mean(plug, axis=0)
    return Learned(
        world=world.name,
        n=n,
        tables=tables,
        useless_share=float(mean[k:].mean() / mean.sum()),
        row_id_share=float(mean[-1] / mean.sum()),
        errors=tuple((mean[:k] / truth - 1).tolist()),
        plug_in_useless_share=float(plain[k:].mean() / plain.sum()),
        plug_in_errors=tuple((plain[:k] / truth - 1).tolist()),
    )


def covered(world: World, per_cell: int, tables: int) -> Covered:
    """Value many tables of informative parties, and count how often the interval holds the truth."""
    truth = world.truth()
    n = per_cell * world.n_cells
    hits = np.zeros(len(truth))
    for seed in range(tables):
        found = exact_influence(item_table(world.draw(n, seed)))
        assert found is not None
        half = Z * np.hypot(found.spread, found.bias)
        hits += np.abs(found.values - truth) <= half
    return Covered(world.name, per_cell, n, tables, tuple((hits / tables).tolist()))


def _percents(parts) -> str:
    return ", ".join(f"{part:+.0%}" for part in parts)


def learned_table(rows: list[Learned]) -> str:
    lines = [
        "| world | n | tables | useless parties, mean share of the total | row-id party "
        "| informative parties, mean error | plug-in: useless share | plug-in: error |",
        "|---|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {r.world} | {r.n:,} | {r.tables} | {r.useless_share:.2%} | {r.row_id_share:.2%} "
        f"| {_percents(r.errors)} | {r.plug_in_useless_share:.0%} | {_percents(r.plug_in_errors)} |"
        for r in rows
    ]
    return "\n".join(lines)


def covered_table(rows: list[Covered]) -> str:
    lines = ["| world | samples per cell | n | tables | coverage per party |", "|---|---|---|---|---|"]
    lines += [
        f"| {r.world} | {r.per_cell} | {r.n:,} | {r.tables} | {', '.join(f'{c:.1%}' for c in r.coverage)} |"
        for r in rows
    ]
    return "\n".join(lines)


def verdicts(found: list[Learned], cover: list[Covered]) -> list[tuple[str, bool]]:
    """The three promises, and whether they hold."""
    useless = max(r.useless_share for r in found)
    worst = max((abs(e) for r in found if r.n >= 1000 for e in r.errors), default=0.0)
    low = min((c for r in cover for c in r.coverage), default=0.95)
    high = max((c for r in cover for c in r.coverage), default=0.95)
    return [
        (f"useless parties' mean learnable share is at most 1% (largest: {useless:.2%})", useless <= 0.01),
        (f"informative parties within 15% of the truth from n = 1,000 (worst: {worst:.1%})", worst <= 0.15),
        (
            f"95% intervals cover 92% to 97% of the time ({low:.1%} to {high:.1%})",
            low >= 0.92 and high <= 0.97,
        ),
    ]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a tenth of the tables")
    parser.add_argument("--output", type=Path, help="also write the tables to this file")
    options = parser.parse_args(arguments)
    part = 10 if options.quick else 1
    found = []
    for world in worlds():
        for n, tables in SIZES.items():
            found.append(learned(world, n, max(2, tables // part)))
            sys.stderr.write(f"{world.name}, n = {n:,}\n")
    cover = [
        covered(world, k, max(20, tables // part)) for world in worlds() for k, tables in PER_CELL.items()
    ]
    checks = verdicts(found, cover)
    text = "\n\n".join(
        [
            learned_table(found),
            covered_table(cover),
            "\n".join(f"- {'holds' if holds else 'DOES NOT HOLD'}: {sentence}" for sentence, holds in checks),
        ]
    )
    sys.stdout.write(text + "\n")
    if options.output:
        options.output.write_text(text + "\n", encoding="utf-8")
    return 0 if all(holds for _, holds in checks) else 1


if __name__ == "__main__":
    sys.exit(main())
