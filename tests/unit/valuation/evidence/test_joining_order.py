"""The order of joining: copies leave, parties that need each other stay, few sets are valued."""

from __future__ import annotations

import numpy as np
import pytest

from fedvalue.valuation.evidence import evidence_values as module
from fedvalue.valuation.evidence.evidence_values import EvidenceSettings, evidence_values
from fedvalue.valuation.evidence.feature_table import FeatureTable
from fedvalue.valuation.evidence.joining_order import joining_order
from tests.unit.decisions.results import random_monotone_game


def value_of(mask: int) -> float:
    """0 and 1 need each other (0.5), 2 and 3 are copies (0.3), 4 adds 0.1, 5 nothing."""
    return 0.5 * (mask & 3 == 3) + 0.3 * bool(mask & 12) + 0.1 * bool(mask & 16)


def test_useless_parties_and_copies_come_last_and_partners_stay_together():
    chain = joining_order(6, value_of, {})
    order = [k for k, _ in chain]
    assert set(order[:2]) == {0, 1}
    assert order[2] in (2, 3)
    assert order[3] == 4
    assert set(order[4:]) == {5, 2, 3} - {order[2]}
    masks = np.cumsum([1 << k for k in order])
    assert [value for _, value in chain] == [value_of(int(mask)) for mask in masks]


def test_of_independent_parties_few_sets_are_valued_and_known_ones_not_at_all():
    """Losses do not change: everybody, all but each, and one set per step."""
    asked: list[int] = []
    gains = np.arange(1, 21) / 100

    def value(mask: int) -> float:
        asked.append(mask)
        return float(sum(gain for k, gain in enumerate(gains) if mask >> k & 1))

    everybody = (1 << 20) - 1
    known = {everybody ^ 1 << k: value(everybody ^ 1 << k) for k in range(20)}
    known[everybody] = value(everybody)
    asked.clear()
    chain = joining_order(20, value, known)
    assert [k for k, _ in chain] == list(range(19, -1, -1))
    assert len(asked) <= 20


@pytest.mark.parametrize("seed", range(5))
def test_every_party_comes_once_and_values_are_those_of_the_game(seed):
    table = random_monotone_game(np.random.default_rng(seed), 7)
    chain = joining_order(7, lambda mask: float(table[mask]), {})
    assert sorted(k for k, _ in chain) == list(range(7))
    assert chain[-1][1] == table[-1]


@pytest.mark.parametrize("method", ["exact", "sampled"])
def test_a_copy_is_found_among_many_parties(method, monkeypatch):
    """Column a twice, an exclusive or of b and c, and noise: the chain is the game's own, with its uplift."""
    monkeypatch.setattr(module, "MAX_PARTIES_LISTED", 3)
    rng = np.random.default_rng(3)
    a, b, c, d = rng.integers(0, 2, (4, 1500))
    odds = 1.2 * (2 * a - 1) + 1.2 * (2 * (b ^ c) - 1)
    label = (rng.random(1500) < 1 / (1 + np.exp(-odds))).astype(int)
    table = FeatureTable.from_columns(
        label=label, parties={"a": [a], "copy": [a], "b": [b], "c": [c], "noise": [d]}
    )
    found = evidence_values(table, EvidenceSettings(method=method, order=True, max_orders=8))
    names = [found.parties[k] for k, _ in found.joining]
    assert set(names[:3]) in ({"a", "b", "c"}, {"copy", "b", "c"})
    assert found.joining[-1][1] == pytest.approx(found.total, abs=1e-12)
    values = dict(zip(names, (value for _, value in found.joining), strict=True))
    assert values[names[2]] == pytest.approx(found.total, abs=0.002)
    chain = {frozenset(names[:2]), frozenset(names[:3])}
    assert chain == {frozenset(one.parties) for one in found.uplift.sets}
    for one in found.uplift.sets:
        assert -one.log_loss.gain == pytest.approx(values[names[len(one.parties) - 1]], abs=1e-9)
    assert evidence_values(table, EvidenceSettings(method=method, max_orders=8)).joining == ()
