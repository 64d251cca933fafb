"""More than 12 parties: advice by the game itself along one order of joining, and by pairs of parties."""

from __future__ import annotations

import numpy as np
import pytest

import fedvalue
from fedvalue.decisions.games import additive_game, game_of
from fedvalue.valuation.evidence.evidence_game import EvidenceGame, fit_evidences
from fedvalue.valuation.evidence.feature_table import FeatureTable

N = 4000


def fourteen_parties(seed: int) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Three informative columns with copies good and bad, an exclusive or of two parties, and noise."""
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 3, (N, 6))
    a, b = rng.integers(0, 2, (2, N))
    odds = 1.0 * (x[:, 0] - 1) + 0.8 * (x[:, 1] - 1) + 0.6 * (x[:, 2] - 1) + 1.2 * ((a ^ b) * 2 - 1)
    label = (rng.random(N) < 1 / (1 + np.exp(-odds))).astype(int)

    def worse(column: np.ndarray, part: float) -> np.ndarray:
        return np.where(rng.random(N) < part, rng.integers(0, 3, N), column)

    return label, {
        "zero": x[:, 0], "zero again": x[:, 0].copy(), "zero, 10% wrong": worse(x[:, 0], 0.1),
        "zero, 30% wrong": worse(x[:, 0], 0.3), "one": x[:, 1], "one, 20% wrong": worse(x[:, 1], 0.2),
        "two": x[:, 2], "two, 40% wrong": worse(x[:, 2], 0.4), "a": a, "b": b,
        "noise 1": x[:, 3], "noise 2": x[:, 4], "noise 3": x[:, 5], "noise 4": rng.integers(0, 50, N),
    }  # fmt: skip


@pytest.mark.slow
def test_copies_are_left_out_and_partners_invited():
    """The right answer is one of the two copies of zero, one, two, and both halves of the exclusive or."""
    label, columns = fourteen_parties(1)
    result = fedvalue.value(label=label, parties={name: {"x": own} for name, own in columns.items()})
    choice = fedvalue.select(result)
    assert choice.basis == "an order of joining"
    assert set(choice.parties) - {"zero", "zero again"} == {"one", "two", "a", "b"}
    assert len(choice.parties) == 5
    # Pairs alone, as with prices, are an approximation: better than sums, and they say how far they are off.
    game, sums = game_of(result), additive_game(tuple(columns), [p.learnable or 0.0 for p in result.parties])
    evidence = EvidenceGame.of(
        FeatureTable.from_columns(label=label, parties={name: [own] for name, own in columns.items()})
    )

    def likelihood(mask: int) -> float:
        start = np.full(evidence.arrays.n_evidences, 0.5)
        fit = fit_evidences(evidence, evidence.evidences_of(mask), start, compiled=True)
        return float(np.sum(evidence.arrays.count * fit.log_likelihood) / N)

    rng, errors = np.random.default_rng(0), []
    for _ in range(60):
        chosen = rng.choice(14, int(rng.integers(1, 14)), replace=False)
        names = [game.names[k] for k in chosen]
        truth = likelihood(sum(1 << evidence.parties.index(name) for name in names)) - likelihood(0)
        mask = sum(1 << int(k) for k in chosen)
        errors.append((game.value(mask) - truth, sums.value(mask) - truth))
    pairs, added = np.sqrt(np.mean(np.square(errors), axis=0))
    assert pairs < added / 4
    assert pairs < 1.5 * max(game.error)
