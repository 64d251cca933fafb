"""How far values with the noise of `gram` and `mirror` are from retrained models: decision 0320.

Settings of the benchmark's rule (`fedvalue.benchmark.benchmark_problems`) with splits on which nothing was
tuned, and 10,000 known rows: four parties, a noise party, and in every second setting task features. Splits 5
and 6 are for tuning. Numbers are cut into the bins that `fedvalue manifest new` proposes.

The truth is the Shapley value of the fall of the log loss on up to 15,000 unseen rows, for the mean
prediction of boosted trees and of ridge regression on bins, both trained on the known rows. TV is the part of
the money that goes to the wrong party; the truth's own is the mean between the truth and truths on unseen
rows drawn again.

Run: python benchmarks/noisy_values.py [SETTING ...], for example credit/1/3
"""

from __future__ import annotations

import math
import sys
import zlib
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from fedvalue.agreement.term_choices import chosen_bins
from fedvalue.benchmark.learners import matrices, predict
from fedvalue.benchmark.problem import VerticalTable
from fedvalue.benchmark.scores import shares_of, total_variation
from fedvalue.datasets import label_codes, load
from fedvalue.information.pair_tables import PairTables, pair_layout, tables_of_columns
from fedvalue.protocol.privacy import GRAM_SHARES, Privacy
from fedvalue.tables.coding_settings import CodingSettings
from fedvalue.tables.party_table import party_table
from fedvalue.valuation.low_order.low_order_valuation import value_tables
from fedvalue.valuation.shapley_indices import shapley_of

Vector = NDArray[np.float64]
SETTINGS = tuple(
    f"{data}/{features}/{split}"
    for features in (1, 3)
    for data in ("credit", "adult", "bank")
    for split in (3, 4, 7, 8)
)
KNOWN, UNSEEN = 10_000, 15_000
N_PARTIES = 4
DRAWS, REDRAWS = 4, 50
LEARNERS = ("boosted trees", "ridge on bins")


def vertical(name: str) -> tuple[VerticalTable, VerticalTable]:
    """Known and unseen rows of a setting, split as the benchmark splits."""
    source, features, split = name.split("/")
    k, data = int(features), load(source)
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    order = [data.feature_names[j] for j in rng.permutation(len(data.X))]
    task, free = (order[:k], order[k:]) if (k + int(split)) % 2 else ([], order)
    n_parties = min(N_PARTIES, len(free) // k)
    parties = {f"party-{d + 1}": free[d * k : (d + 1) * k] for d in range(n_parties)}
    rows, shuffled = rng.permutation(data.n_samples), rng.permutation(data.n_samples)
    copied = parties[f"party-{rng.integers(n_parties) + 1}"]
    label = label_codes(data)

    def table(index: NDArray[np.int64]) -> VerticalTable:
        held = {party: {f: data.X[f][index] for f in own} for party, own in parties.items()}
        held["noise"] = {f: data.X[f][shuffled[index]] for f in copied}
        return VerticalTable(label[index], {f: data.X[f][index] for f in task}, held)

    return table(rows[:KNOWN]), table(rows[KNOWN : KNOWN + UNSEEN])


def losses(known: VerticalTable, unseen: VerticalTable) -> Vector:
    """Log loss of every unseen row for every coalition, shape (2^p, n_unseen)."""
    n_labels = int(known.label.max()) + 1
    truth = unseen.label

    def of(mask: int) -> Vector:
        own, others = known.columns(mask), unseen.columns(mask)
        if not own:
            chance: Vector = np.bincount(known.label, minlength=n_labels) / len(known.label)
            return np.asarray(-np.log(chance[truth]))
        mine, theirs = matrices(own, others)
        found = [predict(one, mine, known.label, theirs, n_labels=n_labels, seed=0) for one in LEARNERS]
        return np.asarray(-np.log(np.mean(found, axis=0)[np.arange(len(truth)), truth]))

    return np.array([of(mask) for mask in range(1 << known.n_parties)])


def retrained(rows: Vector) -> Vector:
    """Shapley values of the retraining game."""
    game = rows.mean(axis=1)
    return shapley_of(game[0] - game)


def own_error(rows: Vector) -> float:
    """Mean TV between the truth and truths on unseen rows drawn again."""
    rng, n = np.random.default_rng(0), rows.shape[1]
    truth = shares_of(retrained(rows))
    again = [shares_of(retrained(rows[:, rng.integers(0, n, n)])) for _ in range(REDRAWS)]
    return float(np.mean([total_variation(one, truth) for one in again]))


def exact_tables(table: VerticalTable, label: NDArray[np.int64]) -> PairTables:
    """Tables of the coded columns."""
    coding = CodingSettings(bins=chosen_bins(len(label), pair_tables=True))
    own = [party_table(f, {f: column}, coding) for f, column in table.task.items()]
    held = [
        [party_table(f, {f: c}, coding) for f, c in columns.items()] for columns in table.parties.values()
    ]
    layout = pair_layout(
        table.names, [[one.n_codes for one in party] for party in held], int(label.max()) + 1,
        task=tuple(one.n_codes for one in own),
    )  # fmt: skip
    codes = [one.codes for one in own] + [one.codes for party in held for one in party]
    return tables_of_columns(layout, codes, label)


def noisy(tables: PairTables, epsilon: str, shares: int, seed: int) -> PairTables:
    """With rounded Gaussian noise: a rehearsal, so that a seed may draw it."""
    privacy = Privacy(Fraction(epsilon), tables.n_samples, tables.layout.n_columns, shares)
    label, pair = (privacy.total(v) for v in (privacy.label_variance, privacy.pair_variance))
    spread = np.full(tables.layout.n_cells, math.sqrt(pair))
    spread[: tables.layout.n_label_cells] = math.sqrt(label)
    drawn = np.random.default_rng(seed).normal(size=len(spread)) * spread
    return tables.with_noise(np.rint(drawn).astype(np.int64), label, pair)


def learnable(tables: PairTables) -> Vector:
    """The learnable value of every party."""
    return np.array([party.learnable or 0.0 for party in value_tables(tables).parties])


def main() -> None:
    """One line per setting, then means by number of features."""
    means: dict[str, list[list[float]]] = {}
    for name in sys.argv[1:] or SETTINGS:
        known, unseen = vertical(name)
        exact = exact_tables(known, known.label)
        rows = losses(known, unseen)
        values = retrained(rows)
        truth = shares_of(values)
        far, noise = [], []
        for shares in (GRAM_SHARES, 1):
            found = [shares_of(learnable(noisy(exact, "1", shares, k))) for k in range(DRAWS)]
            far.append(float(np.mean([total_variation(one, truth) for one in found])))
            noise.append(float(np.mean([one[-1] for one in found])))
        far.append(total_variation(shares_of(learnable(exact)), truth))
        mixed = np.random.default_rng(9).permutation(known.label)
        shuffled = value_tables(noisy(exact_tables(known, mixed), "1", GRAM_SHARES, 9))
        clear = sum((one.learnable_interval or (0.0, 0.0))[0] > 0 for one in shuffled.parties)
        most = max(one.learnable or 0.0 for one in shuffled.parties)
        own = own_error(rows)
        means.setdefault(name.split("/")[1], []).append([*far, noise[0], own])
        print(
            f"{name}: true total {values.sum():.3f} nats; TV gram {far[0]:.3f}, mirror {far[1]:.3f}, "
            f"no noise {far[2]:.3f}, the truth's own {own:.3f}; noise party {noise[0]:.1%}; "
            f"shuffled labels at most {most:.4f} nats, {clear} intervals above 0",
            flush=True,
        )
    for features, scores in means.items():
        gram, mirror, exact_far, noise_share, own = np.mean(scores, axis=0)
        print(
            f"{len(scores)} settings with {features} features per party: mean TV gram {gram:.3f}, "
            f"mirror {mirror:.3f}, no noise {exact_far:.3f}, the truth's own {own:.3f}; noise party "
            f"{noise_share:.1%}"
        )


if __name__ == "__main__":
    main()
