"""AUC and KS: what the uplift says, and what the same fitted evidence does on fresh rows of the population.

    python benchmarks/ranking_on_fresh_rows.py --half judge --rows 200 600 2000 5000 --draws 20

Populations with a known distribution: the demonstration's, LINEAR, a column of many cells, columns with weak
and strong effects, and noise. A pool is fitted to each draw; the gains over nobody are compared with those of
its scores, read from all rows of the draw, on 20,000 fresh rows whose chance of the label is known. One half
of the populations chose how pairs are corrected (decision 0611), the other judged.
"""

from __future__ import annotations

import argparse
import zlib
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedvalue.valuation.evidence.canonical_table import CanonicalTable
from fedvalue.valuation.evidence.evidence_game import EvidenceGame, fit_evidences
from fedvalue.valuation.evidence.evidence_pool import EvidenceArrays
from fedvalue.valuation.evidence.label_evidence import LabelEvidence, base_log_odds, column_evidence
from fedvalue.valuation.evidence.pair_search import VISITS, search_pairs
from fedvalue.valuation.evidence.predictions import Predictions, score_predictions
from fedvalue.valuation.evidence.uplift import CoalitionUplift, uplift_of

Floats = NDArray[np.float64]
Columns = list[NDArray[np.int64]]

N_FRESH = 20_000
N_CODES = 5


@dataclass(frozen=True, eq=False)
class Population:
    """Rows with a known chance of the label.

    Args:
        name: In the table.
        held: Places of each party's columns; a column may have several holders.
        task: Places of the task party's columns.
        draw: Number of rows and generator -> columns, chance of the label.
    """

    name: str
    held: tuple[tuple[int, ...], ...]
    task: tuple[int, ...]
    draw: Callable[[int, np.random.Generator], tuple[Columns, Floats]]


def logistic(odds: Floats) -> Floats:
    """Chance of the label."""
    return np.asarray(1.0 / (1.0 + np.exp(-odds)))


def demonstration() -> Population:
    """The population of `fedvalue demo`; columns of many values in five codes, filled about evenly."""

    def draw(n: int, rng: np.random.Generator) -> tuple[Columns, Floats]:
        strain, habit, luck = rng.normal(size=(3, n))
        income = np.digitize(0.3 * rng.normal(size=n) - 0.2 * strain, [-0.303, -0.091, 0.091, 0.303])
        credit = np.digitize(20 * habit + 6 * rng.normal(size=n), [-17.6, -5.3, 5.3, 17.6])
        steps = [(1 + 1.2 * strain, 3), (0.5 + 0.3 * habit, 2), (1 - 1.1 * luck, 3)]
        late, returns, claims = (
            np.clip(np.round(x + 0.3 * rng.normal(size=n)), 0, most).astype(int) for x, most in steps
        )
        contract, region, meter = rng.integers(0, 2, (3, n))
        columns = [income, late, contract, credit, returns, claims, region, meter, rng.integers(0, 5, n)]
        return columns, logistic(-1.5 + 1.8 * strain + 1.5 * habit - 1.6 * luck)

    return Population("demonstration", ((1, 2), (3, 4), (5, 6), (7, 8)), (0,), draw)


def linear(scenario: str, seed: int) -> Population:
    """LINEAR of `fedvalue.datasets`, equal columns as one column with several holders."""
    weights = np.random.default_rng(seed).normal(size=20)
    first, second, third = tuple(range(5)), tuple(range(5, 10)), tuple(range(10, 20))
    held = (first, second, third) if scenario == "S0" else (first, second, third, first + second)

    def draw(n: int, rng: np.random.Generator) -> tuple[Columns, Floats]:
        bits = rng.integers(0, 2, (20, n))
        return list(bits), logistic(weights @ (2 * bits - 1))

    return Population(f"LINEAR {scenario}", held, third if scenario == "S2" else (), draw)


def cells(n_cells: int, seed: int) -> Population:
    """One column of many cells, each with its own chance, and a useless column."""
    chance = np.random.default_rng(seed).beta(0.7, 0.7, n_cells)

    def draw(n: int, rng: np.random.Generator) -> tuple[Columns, Floats]:
        cell = rng.integers(0, n_cells, n)
        return [cell, rng.integers(0, N_CODES, n)], chance[cell]

    return Population(f"{n_cells} cells", ((0,), (1,)), (), draw)


def effects(
    n_columns: int,
    n_codes: int,
    size: float,
    base: float,
    seed: int,
    *,
    pair: float = 0.0,
    task: bool = False,
) -> Population:
    """Columns of equally likely codes with normal effects on the log-odds; perhaps two interact."""
    rng = np.random.default_rng(seed)
    sizes, joint = size * rng.normal(size=(n_columns, n_codes)), pair * rng.normal(size=(n_codes, n_codes))

    def draw(n: int, rng: np.random.Generator) -> tuple[Columns, Floats]:
        columns = list(rng.integers(0, n_codes, (n_columns, n)))
        odds = base + sum(effect[column] for effect, column in zip(sizes, columns, strict=True))
        return columns, logistic(odds + (joint[columns[0], columns[1]] if pair else 0.0))

    free = list(range(int(task), n_columns))
    held = tuple(tuple(free[k::3]) for k in range(min(3, len(free))))
    signal = "noise" if size == 0 else f"effects {size}" + (" and a pair" if pair else "")
    name = f"{n_columns} × {n_codes} codes, {signal}, odds {base}"
    return Population(name, held, (0,) if task else (), draw)


HALVES = {
    "design": [
        demonstration(), linear("S0", 1), linear("S2", 2), cells(200, 99), effects(5, 5, 0.5, 0.0, 1),
        effects(20, 5, 0.3, -1.5, 2), effects(6, 5, 0.4, 0.0, 3, pair=0.8, task=True),
        effects(4, 30, 0.7, 0.0, 4), effects(1, 5, 0.0, 0.0, 5), effects(20, 5, 0.0, -1.4, 6),
        effects(3, 100, 0.0, 0.0, 7),
    ],
    "judge": [
        linear("S1", 3), linear("S0", 4), cells(500, 98), effects(3, 6, 0.6, -1.0, 11, task=True),
        effects(12, 5, 0.4, 0.0, 12), effects(20, 8, 0.25, -2.0, 13), effects(8, 4, 0.4, -0.5, 14, pair=0.9),
        effects(2, 60, 0.8, -0.5, 15), effects(5, 5, 0.0, -1.0, 16), effects(20, 8, 0.0, 0.0, 17),
        effects(2, 150, 0.0, -1.0, 18),
    ],
}  # fmt: skip


class FittedEvidence:
    """The evidence of one draw, and what it says about rows of another."""

    def __init__(self, population: Population, columns: Columns, label: NDArray[np.int64]) -> None:
        n, places = len(label), range(len(columns))
        self.kinds = [np.unique(column) for column in columns]
        codes = np.array(
            [np.searchsorted(kinds, column) for kinds, column in zip(self.kinds, columns, strict=True)]
        )
        self.table = table = CanonicalTable(
            codes=codes.astype(np.uint16),
            n_codes=tuple(map(len, self.kinds)),
            label=label,
            count=np.ones(n),
            members=tuple((k,) for k in places),
            holders=tuple(sum(1 << d for d, own in enumerate(population.held) if k in own) for k in places),
            at_task=tuple(k in population.task for k in places),
            key=np.arange(n, dtype=np.uint64),
            n_samples=n,
            n_labels=2,
            n_pooled=n,
        )
        base = base_log_odds(table)
        single = [column_evidence(table, k, base) for k in places]
        pairs, record = search_pairs(table, single, base, visits=VISITS)
        self.evidences = [evidence for evidence in single if evidence is not None] + pairs
        self.game = EvidenceGame(
            parties=tuple(f"d{k + 1}" for k in range(len(population.held))),
            arrays=EvidenceArrays.stack(
                self.evidences, base, base_log_odds(table, left_out=0.0), label, table.count
            ),
            holders=tuple(
                tuple(-1 if table.at_task[k] else table.holders[k] for k in evidence.columns)
                for evidence in self.evidences
            ),
            pair_search=record,
            synergies=(),
            n_samples=n,
            n_labels=2,
        )

    def scores(self, mask: int) -> tuple[Predictions, Floats]:
        """What the uplift says about a coalition, and the weights of its pool."""
        arrays, key = self.game.arrays, self.game.evidences_of(mask)
        fit = fit_evidences(self.game, key, np.full(arrays.n_evidences, 0.5), compiled=False)
        weights = np.zeros(arrays.n_evidences)
        weights[list(key)] = fit.weights
        return score_predictions(arrays, weights, fit.log_likelihood), weights

    def on(self, columns: Columns) -> Floats:
        """Log-odds of label 1 by each evidence on other rows; 0 for cells that the draw does not have."""
        places = [
            np.minimum(np.searchsorted(k, c), len(k) - 1) for k, c in zip(self.kinds, columns, strict=True)
        ]
        known = [kinds[at] == column for kinds, at, column in zip(self.kinds, places, columns, strict=True)]
        rows = np.zeros((len(self.evidences), len(columns[0])))
        for k, evidence in enumerate(self.evidences):
            if evidence.decides:
                of_cell = self._of_cells(evidence)[tuple(places[column] for column in evidence.columns)]
                rows[k] = np.where(
                    np.all([known[column] for column in evidence.columns], axis=0), of_cell, 0.0
                )
        return rows

    def _of_cells(self, evidence: LabelEvidence) -> Floats:
        """Log-odds of label 1 by the codes of the evidence's columns."""
        table = self.table
        found = np.zeros([table.n_codes[k] for k in evidence.columns])
        toward_other = evidence.fitted[evidence.index.astype(np.int64), 0]
        found[tuple(table.codes[k].astype(np.int64) for k in evidence.columns)] = np.where(
            table.label == 0, toward_other, -toward_other
        )
        return found


def area(score: Floats, chance: Floats) -> float:
    """AUC of rows whose chance of the label is known, ties half."""
    level = np.unique(np.round(score, 9), return_inverse=True)[1]
    plus, minus = np.bincount(level, chance), np.bincount(level, 1.0 - chance)
    return float(plus @ (np.cumsum(minus) - 0.5 * minus) / (plus.sum() * minus.sum()))


def gap(score: Floats, chance: Floats) -> float:
    """KS where the evidence is silent."""
    above = np.where(np.abs(score) < 1e-9, 0.5, score > 0)
    return float(chance @ above / chance.sum() - (1 - chance) @ above / (1 - chance).sum())


def measured(
    population: Population, n: int, draw: int
) -> list[tuple[str, dict[str, tuple[float, float, float]]]]:
    """Role of each set, and by metric: gain by the uplift, gain on fresh rows, half the interval."""
    rng = np.random.default_rng(zlib.crc32(f"{population.name}/{n}/{draw}".encode()))
    columns, chance = population.draw(n, rng)
    label = (rng.random(n) < chance).astype(np.int64)
    if not 5 <= label.sum() <= n - 5:
        return []
    fresh, fresh_chance = population.draw(N_FRESH, rng)
    fitted = FittedEvidence(population, columns, label)
    on_fresh = fitted.on(fresh)
    scored, truth = {}, {}
    for mask in fitted.game.corners:
        scored[mask], weights = fitted.scores(mask)
        score = weights @ on_fresh
        truth[mask] = area(score, fresh_chance), gap(score, fresh_chance)
    uplift = uplift_of(fitted.game.parties, scored, fitted.table.count, fitted.game.n_columns)
    everybody = (1 << len(population.held)) - 1

    def case(row: CoalitionUplift, mask: int) -> dict[str, tuple[float, float, float]]:
        assert row.ks is not None
        return {
            name: (measure.gain, truth[mask][k] - truth[0][k], 1.96 * measure.se_gain)
            for k, (name, measure) in enumerate((("AUC", row.auc), ("KS", row.ks)))
        }

    parties = range(len(population.held))
    found = [("all", case(uplift.everybody, everybody))]
    if len(parties) > 1:
        found += [("alone", case(uplift.alone[k], 1 << k)) for k in parties]
    if len(parties) > 2:
        found += [("all but one", case(uplift.without[k], everybody ^ 1 << k)) for k in parties]
    return found


def main() -> None:
    """Print bias, spread and coverage by number of rows and role, and for all parties by population."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--half", choices=HALVES, default="judge")
    parser.add_argument("--rows", nargs="+", type=int, default=[200, 600, 2000, 5000])
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--populations", action="store_true", help="a line for each population, too")
    chosen = parser.parse_args()
    print("| rows | sets | metric | gain on fresh rows | bias | its size by population | spread | covered |")
    print("|---" * 8 + "|", flush=True)
    for n in chosen.rows:
        cases = {
            population: [case for draw in range(chosen.draws) for case in measured(population, n, draw)]
            for population in HALVES[chosen.half]
        }
        for role in ("all", "alone", "all but one"):
            for metric in ("AUC", "KS"):
                lines = defaultdict(list)
                for population, rows in cases.items():
                    table = np.array([found[metric] for own, found in rows if own == role])
                    if len(table):
                        error = table[:, 0] - table[:, 1]
                        covered = np.mean(np.abs(error) <= table[:, 2] + 1e-12)
                        lines[population.name] = [table[:, 1].mean(), error.mean(), error.std(), covered]
                truth, bias, spread, covered = np.array(list(lines.values())).T
                head = f"| {n:,} | {role} | {metric} | {truth.mean():.3f} | {bias.mean():+.4f} |"
                print(
                    f"{head} {np.abs(bias).mean():.4f} | {spread.mean():.4f} | {covered.mean():.0%} |",
                    flush=True,
                )
                for name, (gain, off, wide, part) in lines.items() if chosen.populations else ():
                    print(
                        f"|  | {name} | | {gain:.3f} | {off:+.4f} | | {wide:.4f} | {part:.0%} |", flush=True
                    )


if __name__ == "__main__":
    main()
