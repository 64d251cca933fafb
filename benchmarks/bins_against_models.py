"""Learnable values with more bins against retrained models, at 600 to 15,000 rows (decision 0609).

Adult, Credit and Bank; three parties of one to three columns and a party of shuffled ones; in every second
split the task party has columns too. The truth of a coalition is the fall of the log loss on up to 12,000
unseen rows, by a stack of two sizes of boosted trees (early stopping), ridge logistic regression on bins, the
label's frequency, and the task party's own prediction. The shuffled party is worth 0.

Split 0 is for design, splits 1 and 2 for judging. A setting with less than 0.01 nats to share is not scored.

Run: python benchmarks/bins_against_models.py --folder FOLDER    (6 minutes of CPU; keeps what it has done)
"""

from __future__ import annotations

import argparse
import json
import time
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import fedvalue
from fedvalue.benchmark.learners import LEARNERS, Matrices, matrices, rows_of
from fedvalue.benchmark.problem import VerticalTable
from fedvalue.benchmark.retraining import mixture_weights
from fedvalue.benchmark.scores import LEAST_TOTAL, shares_of, total_variation
from fedvalue.datasets import Dataset, label_codes, load
from fedvalue.valuation.shapley_indices import shapley_of

if TYPE_CHECKING:
    from fedvalue.typing import Codes

BINS = (5, 8, 12)
SIZES = ((600, 2), (1000, 2), (1000, 3), (1500, 1), (2500, 2), (5000, 2), (5000, 3), (15_000, 2))
"""Rows, and columns per party."""
DATA_SETS = ("adult", "credit", "bank")
SPLITS = (0, 1, 2)
N_PARTIES = 3
NOISE = "noise"
MOST_UNSEEN = 12_000
LEAVES = (7, 31)
Numbers = dict[str, Any]
Prediction = tuple[NDArray[np.float64], NDArray[np.float64]]
"""Probability of label 1: of the known rows that were held out, and of the unseen rows."""


@cache
def data_set(name: str) -> Dataset:
    """A data set, read once."""
    return load(name)


@dataclass(frozen=True)
class Split:
    """Rows and columns of a setting; everything random follows from its name."""

    data_set: str
    n: int
    features: int
    split: int

    @property
    def name(self) -> str:
        """Also of the file that keeps its numbers."""
        return f"{self.data_set}-{self.n}-{self.features}-{self.split}"

    @property
    def seed(self) -> int:
        """Of rows, columns and models."""
        return zlib.crc32(f"large/{self.name.replace('-', '/')}".encode())

    def tables(self) -> tuple[VerticalTable, VerticalTable]:
        """The known rows with the shuffled party, and the unseen ones."""
        data, k = data_set(self.data_set), self.features
        rng = np.random.default_rng(self.seed)
        names = [data.feature_names[j] for j in rng.permutation(len(data.feature_names))]
        task, free = (names[:k], names[k:]) if self.split % 2 == 0 else ([], names)
        parties = {f"p{d + 1}": free[d * k : (d + 1) * k] for d in range(N_PARTIES)}
        rows = rng.permutation(data.n_samples)
        copied = parties[f"p{rng.integers(N_PARTIES) + 1}"]
        shuffled = rng.permutation(data.n_samples)
        label = label_codes(data)

        def table(index: NDArray[np.int64]) -> VerticalTable:
            held = {party: {c: data.X[c][index] for c in columns} for party, columns in parties.items()}
            held[NOISE] = {c: data.X[c][shuffled[index]] for c in copied}
            return VerticalTable(label[index], {c: data.X[c][index] for c in task}, held)

        return table(rows[: self.n]), table(rows[self.n : self.n + MOST_UNSEEN])


def splits() -> Iterator[Split]:
    """All settings."""
    for (n, k), split, name in product(SIZES, SPLITS, DATA_SETS):
        yield Split(name, n, k, split)


def boosted(
    fit: Matrices, y: Codes, stop: Matrices, y_stop: Codes, every: Matrices, y_every: Codes, others: Matrices,
    *, leaves: int, seed: int,
) -> Prediction:  # fmt: skip
    """LightGBM, stopped on the rows held out, then trained on all known rows."""
    import lightgbm

    settings = {
        "objective": "binary", "learning_rate": 0.07, "num_leaves": leaves, "min_data_in_leaf": 20,
        "lambda_l2": 1.0, "feature_fraction": 0.8, "min_data_per_group": 20, "num_threads": 1,
        "deterministic": True, "force_row_wise": True, "seed": seed % 2**31, "verbosity": -1,
    }  # fmt: skip
    kinds, quiet = list(fit.categorical), {"verbosity": -1}
    data = lightgbm.Dataset(fit.plain, y, categorical_feature=kinds, params=quiet)
    held = lightgbm.Dataset(stop.plain, y_stop, reference=data, categorical_feature=kinds, params=quiet)
    stopping = [lightgbm.early_stopping(25, verbose=False)]
    first = lightgbm.train(settings, data, 400, valid_sets=[held], callbacks=stopping)
    everything = lightgbm.Dataset(every.plain, y_every, categorical_feature=kinds, params=quiet)
    second = lightgbm.train(settings, everything, max(1, int(1.1 * first.best_iteration)))
    return (
        np.asarray(first.predict(stop.plain, num_iteration=first.best_iteration, num_threads=1)),
        np.asarray(second.predict(others.plain, num_threads=1)),
    )


def retrained(
    known: VerticalTable, unseen: VerticalTable, mask: int, seed: int, own: Prediction
) -> Prediction:
    """The stack with a coalition's columns; `own` is the task party's own prediction."""
    y, n = known.label, known.n_samples
    held = np.zeros(n, dtype=bool)
    held[np.random.default_rng(seed).permutation(n)[: n // 5]] = True
    columns = known.columns(mask)
    fit, stop = matrices(rows_of(columns, ~held), rows_of(columns, held))
    every, others = matrices(columns, unseen.columns(mask))
    members = [
        boosted(fit, y[~held], stop, y[held], every, y, others, leaves=leaves, seed=seed) for leaves in LEAVES
    ]
    ridge = LEARNERS["ridge on bins"]
    members.append((ridge(fit, y[~held], stop, seed)[:, 1], ridge(every, y, others, seed)[:, 1]))
    members += [(np.full(n // 5, y.mean()), np.full(unseen.n_samples, y.mean())), own]
    left, right = (np.clip([member[side] for member in members], 1e-4, 1 - 1e-4) for side in (0, 1))
    weights = mixture_weights(np.where(y[held], left, 1 - left).T)
    return weights @ left, weights @ right


def true_game(split: Split) -> list[float]:
    """Values of the coalitions of the three parties, by bit mask."""
    known, unseen = split.tables()
    rate = known.label.mean()
    own: Prediction = (np.full(split.n // 5, rate), np.full(unseen.n_samples, rate))
    if known.task:
        own = retrained(known, unseen, 0, split.seed, own)

    def likelihood(p: NDArray[np.float64]) -> float:
        return float(np.log(np.where(unseen.label == 1, p, 1 - p)).mean())

    nobody = likelihood(own[1])
    every = range(1, 1 << N_PARTIES)
    return [0.0] + [likelihood(retrained(known, unseen, m, split.seed, own)[1]) - nobody for m in every]


def valued(split: Split, bins: int) -> Numbers:
    """Learnable values by `fedvalue.value` with this number of bins."""
    known, _ = split.tables()
    start = time.process_time()
    result = fedvalue.value(
        label=np.char.add("class ", known.label.astype(np.str_)),
        task=dict(known.task) or None,
        parties=known.parties,
        bins=bins,
    )
    return {
        "learnable": [party.learnable for party in result.parties],
        "seconds": time.process_time() - start,
    }


def measured(split: Split, folder: Path) -> Numbers:
    """The numbers of a setting, from its file where they are."""
    path = folder / f"{split.name}.json"
    numbers = json.loads(path.read_text()) if path.exists() else {}
    if "truth" not in numbers:
        numbers["truth"] = true_game(split)
    for bins in BINS:
        if str(bins) not in numbers:
            numbers[str(bins)] = valued(split, bins)
    path.write_text(json.dumps(numbers))
    return numbers


def row(title: str, settings: Sequence[Numbers]) -> str:
    """Scores of some settings."""
    cells = []
    tv: dict[int, NDArray[np.float64]] = {}
    for bins in BINS:
        scores, totals, noise = [], [], []
        for numbers in settings:
            # The shuffled party is the fourth bit, and adds nothing.
            game = np.tile(np.array(numbers["truth"]), 2)
            values = np.array(numbers[str(bins)]["learnable"])
            scores.append(total_variation(shares_of(values), shares_of(shapley_of(game))))
            totals.append(values.sum() / game[-1])
            noise.append(shares_of(values)[-1])
        tv[bins] = np.array(scores)
        change = tv[bins] - tv[BINS[0]]
        error = change.std(ddof=1) / np.sqrt(len(change)) if len(change) > 1 else np.nan
        versus = "" if bins == BINS[0] else f" ({change.mean():+.1%} ± {error:.1%})"
        seconds = np.mean([numbers[str(bins)]["seconds"] for numbers in settings])
        cells.append(
            f"{tv[bins].mean():.1%}{versus}, total {np.median(totals):.2f}, noise {np.mean(noise):.2%}, "
            f"{seconds:.2f} s"
        )
    return f"| {title} | {len(settings)} | {' | '.join(cells)} |"


def main() -> None:
    """Measure what is missing and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--folder", type=Path, required=True, help="where the numbers of each setting are kept"
    )
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    done = {}
    for split in splits():
        numbers = measured(split, folder)
        if numbers["truth"][-1] >= LEAST_TOTAL:
            done[split] = numbers
    print(f"| settings | number | {' | '.join(f'{bins} bins' for bins in BINS)} |")
    print(f"| --- | --- |{' --- |' * len(BINS)}")
    for title, chosen in (("design", SPLITS[:1]), ("judging", SPLITS[1:])):
        mine = {split: numbers for split, numbers in done.items() if split.split in chosen}
        print(row(f"{title}, all", list(mine.values())))
        for low, high in ((600, 1000), (1500, 2500), (5000, 15_000)):
            some = [numbers for split, numbers in mine.items() if low <= split.n <= high]
            print(row(f"{title}, {low:,} to {high:,} rows", some))
        for name in DATA_SETS:
            print(row(f"{title}, {name}", [n for split, n in mine.items() if split.data_set == name]))


if __name__ == "__main__":
    main()
