"""Populations with known values, drawn for the tests of pooled evidence."""

from __future__ import annotations

import math

import numpy as np

from fedvalue.information.contingency import JointCounts
from fedvalue.valuation.evidence.evidence_values import EvidenceValues
from fedvalue.valuation.evidence.feature_table import FeatureTable
from fedvalue.valuation.evidence.row_scores import RowScores
from fedvalue.valuation.items import item_table
from fedvalue.valuation.statistics.joint_table_game import joint_table_game


def joint_game_of(table: FeatureTable):
    """The joint-table game of a feature table whose parties hold one column each."""
    assert sorted(table.owner) == list(range(table.n_parties))
    counts = JointCounts.from_columns(
        label=table.label,
        parties={name: table.codes[:, table.owner.index(k)] for k, name in enumerate(table.parties)},
        count=table.count,
    )
    return joint_table_game(item_table(counts))


def value_of(values: EvidenceValues, *names: str) -> float:
    """The value of the named parties together."""
    return values.coalition_values[sum(1 << values.parties.index(name) for name in names)]


def scores_of(score, positive, *, pull=None, apart=None, variance=None, count=None) -> RowScores:
    """Scores of rows with two labels, given the log-odds of the second; no label is more frequent."""
    zero, one = np.zeros(len(score)), np.ones(len(score))
    return RowScores(
        evidence=np.where(positive, -score, score)[None],
        base=zero[None],
        pull=zero if pull is None else pull,
        apart=one if apart is None else apart,
        variance=zero if variance is None else variance,
        label=np.asarray(positive).astype(np.int64),
        count=one if count is None else count,
    )


def exclusive_or(n: int, n_parts: int, seed: int, *, noise: float = 0.1) -> FeatureTable:
    """One bit per party whose exclusive or is the label, up to noise, and a useless party."""
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 2, (n_parts, n))
    label = np.bitwise_xor.reduce(bits) ^ (rng.random(n) < noise)
    parties = {f"bit {k}": [bit] for k, bit in enumerate(bits)}
    return FeatureTable.from_columns(label=label, parties={**parties, "useless": [rng.integers(0, 4, n)]})


def two_informative(n: int, seed: int):
    """Label, and two columns that tell about it."""
    rng = np.random.default_rng(seed)
    strong, weak = rng.integers(0, 5, n), rng.integers(0, 4, n)
    odds = 0.8 * (strong - 2) + 0.5 * (weak - 1.5)
    return (rng.random(n) < 1 / (1 + np.exp(-odds))).astype(np.int64), strong, weak


def random_table(seed: int, *, n: int = 150, p: int = 3, labels: int = 2, task: bool = False) -> FeatureTable:
    """Parties with one to three columns of which some tell about the label."""
    rng = np.random.default_rng(seed)
    columns = [rng.integers(0, rng.integers(2, 6), n) for _ in range(2 * p)]
    score = columns[0] - columns[2] + (columns[1] == columns[-1]) + rng.normal(size=n)
    label = np.searchsorted(np.quantile(score, np.arange(1, labels) / labels), score)
    parties = {f"p{k}": columns[2 * k : 2 * k + 1 + int(rng.integers(0, 2))] for k in range(p)}
    own = [rng.integers(0, 3, n)] if task else []
    return FeatureTable.from_columns(label=label, parties=parties, task=own)


# LINEAR of the journal version: 20 fair bits, logit P(y=1) = sum of w_j (2 x_j - 1), w ~ N(0, 1).
LINEAR_HOLDERS = {
    "S0": ({"d1": range(5), "d2": range(5, 10), "d3": range(10, 20)}, ()),
    "S1": ({"d1": range(5), "d2": range(5, 10), "d3": range(10, 20), "d4": range(10)}, ()),
    "S2": ({"d1": range(5), "d2": range(5, 10), "d3": range(10, 20), "d4": range(10)}, range(10, 20)),
}


def linear_weights(seed: int):
    return np.random.default_rng(seed).normal(size=20)


def linear_table(setting: str, n: int, seed: int) -> FeatureTable:
    holders, task = LINEAR_HOLDERS[setting]
    rng = np.random.default_rng([seed, n])
    bits = rng.integers(0, 2, (20, n))
    odds = linear_weights(seed) @ (2 * bits - 1)
    label = (rng.random(n) < 1 / (1 + np.exp(-odds))).astype(np.int64)
    return FeatureTable.from_columns(
        label=label,
        parties={name: [bits[j] for j in own] for name, own in holders.items()},
        task=[bits[j] for j in task],
    )


def linear_truth(setting: str, seed: int):
    """Population Shapley values of the log-loss game, by enumeration.

    v(S) = H(Y | X_t) - H(Y | X_t, X_S), and H(Y | X_A) is the mean of the entropy of P(y = 1 | x_A), whose
    logit mixes over the bits outside A. The sum of w_j (2 x_j - 1) over m bits takes 2^m values; both sums,
    inside and outside A, are enumerated on a grid of 1/64 by repeated convolution.
    """
    holders, task = LINEAR_HOLDERS[setting]
    weights = linear_weights(seed)
    steps = 64

    def distribution(bits):
        """Probabilities of the sum of the bits' terms on the grid, centred."""
        sizes = [round(abs(weights[j]) * steps) for j in bits]
        found = np.ones(1)
        for size in sizes:
            found = 0.5 * (np.pad(found, (0, 2 * size)) + np.pad(found, (2 * size, 0)))
        return found, (np.arange(len(found)) - sum(sizes)) / steps

    def entropy(known):
        inside, at_inside = distribution(known)
        outside, at_outside = distribution([j for j in range(20) if j not in known])
        p = (1 / (1 + np.exp(-(at_inside[:, None] + at_outside[None, :])))) @ outside
        p = np.clip(p, 1e-300, 1 - 1e-16)
        return float(-(inside @ (p * np.log(p) + (1 - p) * np.log1p(-p))))

    names = list(holders)
    p = len(names)
    game = {}
    for mask in range(1 << p):
        known = set(task).union(*(holders[names[k]] for k in range(p) if mask >> k & 1))
        game[mask] = -entropy(known)
    values = []
    for d in range(p):
        total = 0.0
        for mask in range(1 << p):
            if not mask >> d & 1:
                s = mask.bit_count()
                weight = math.factorial(s) * math.factorial(p - s - 1) / math.factorial(p)
                total += weight * (game[mask | 1 << d] - game[mask])
        values.append(total)
    return np.array(values), game[(1 << p) - 1] - game[0]
