"""The engine: which method it takes and why, and what does not depend on names, order or machine."""

from __future__ import annotations

import numpy as np
import pytest

from fedvalue.errors import InputError
from fedvalue.information.contingency import JointCounts
from fedvalue.valuation import shapley_cmi
from fedvalue.valuation.cubes import cube_sum
from fedvalue.valuation.engine import value_counts
from fedvalue.valuation.settings import ValuationSettings
from fedvalue.valuation.walk import exact as walk


def table(n_parties: int = 3, n: int = 60, seed: int = 0) -> JointCounts:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    parties = {f"d{k}": (y + rng.integers(0, 2 + k, n)) % 4 for k in range(n_parties)}
    return JointCounts.from_columns(label=y, task=rng.integers(0, 2, n), parties=parties)


def relabelled(counts: JointCounts, seed: int) -> JointCounts:
    """The same table as another server sees it: codes renamed, items in another order."""
    rng = np.random.default_rng(seed)

    def rename(codes: np.ndarray) -> np.ndarray:
        return rng.permutation(int(codes.max()) + 1)[codes]

    order = rng.permutation(counts.n_items)
    return JointCounts(
        task=rename(counts.task)[order],
        parties=np.column_stack([rename(c) for c in counts.parties.T])[order],
        label=rename(counts.label)[order],
        count=counts.count[order],
        names=counts.names,
        n_codes=counts.n_codes,
    )


@pytest.mark.parametrize("n_parties", [3, 9], ids=["small", "compiled"])
@pytest.mark.parametrize("method", ["auto", "exact", "sampled"])
def test_two_servers_that_see_other_names_and_another_order_agree(method: str, n_parties: int) -> None:
    """Both servers' answers compare to 1e-9 under policy `valuation`."""
    counts = table(n_parties)
    first, second = (
        value_counts(
            relabelled(counts, seed),
            ValuationSettings(method=method, n_permutations=100, seed=5),
            reproducible=True,
        )
        for seed in (1, 2)
    )
    assert (first.method, first.n_permutations) == (second.method, second.n_permutations)
    for a, b in zip(first.parties, second.parties, strict=True):
        for key in ("value", "se_sampling", "se_data", "learnable", "se_learnable", "alone", "last"):
            assert getattr(a, key) == pytest.approx(getattr(b, key), abs=1e-9), key
        assert a.flags == b.flags
    assert np.allclose(first.interactions, second.interactions, rtol=0, atol=1e-9)


@pytest.mark.parametrize("method", ["exact", "sampled"])
def test_servers_agree_where_label_and_parties_are_independent(method: str) -> None:
    """Values are then rounding errors, and a share would be one divided by another: all are exactly zero."""
    label, a, b = np.meshgrid(np.arange(3), np.arange(7), np.arange(2), indexing="ij")
    counts = JointCounts.from_columns(
        label=label.ravel(), parties={"a": a.ravel(), "b": b.ravel()}, count=np.full(label.size, 37)
    )
    request = ValuationSettings(method=method, n_permutations=50, statistics=False)
    for seed in range(3):
        result = value_counts(relabelled(counts, seed), request, reproducible=True)
        assert result.total == 0.0
        for party in result.parties:
            assert (party.value, party.share, party.alone, party.last) == (0.0, 0.0, 0.0, 0.0)


def test_every_coalition_of_a_small_table_is_counted() -> None:
    result = value_counts(table(), ValuationSettings(statistics=False))
    assert result.method == "exact"
    assert "every coalition was counted" in result.method_reason


def test_auto_computes_exact_values_when_they_are_cheap_and_says_why() -> None:
    result = value_counts(table(n_parties=9), ValuationSettings(statistics=False))
    assert result.method == "exact"
    assert "predicted" in result.method_reason


def test_auto_samples_when_exact_values_take_too_long_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shapley_cmi, "AFFORDABLE_SECONDS", -1.0)
    result = value_counts(table(n_parties=9), ValuationSettings(statistics=False, n_permutations=50))
    assert result.method == "sampled"
    assert "more than" in result.method_reason


def test_reproducible_auto_looks_at_sizes_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shapley_cmi, "AFFORDABLE_SECONDS", -1.0)
    assert (
        value_counts(table(n_parties=9), ValuationSettings(statistics=False), reproducible=True).method
        == "exact"
    )
    limited = value_counts(
        table(n_parties=9), ValuationSettings(statistics=False), reproducible=True, work_limit=1000
    )
    assert (limited.method, "above the work limit" in limited.method_reason) == ("sampled", True)


@pytest.mark.parametrize("way", ["cubes", "walk"])
def test_stopped_exact_values_say_so_and_carry_their_error(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways to exact values, in pieces so small that the first does not end the work."""
    monkeypatch.setattr(walk, "FIRST_BLOCKS", 100)
    monkeypatch.setattr(cube_sum, "TASK_SECONDS", 1e-12)
    if way == "walk":
        monkeypatch.setattr(cube_sum, "cube_table", lambda items: None)
    counts = table(n_parties=12, n=400)
    exact = value_counts(counts, ValuationSettings(method="exact", statistics=False))
    stopped = value_counts(counts, ValuationSettings(method="exact", statistics=False, time_limit=1e-9))
    assert stopped.method == "sampled"
    assert "stopped" in stopped.method_reason
    assert any(party.se_sampling > 0 for party in stopped.parties)
    for a, b in zip(exact.parties, stopped.parties, strict=True):
        assert abs(a.value - b.value) <= 5 * b.se_sampling + 1e-12


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"time_limit": 0}, "time_limit must be a positive number of seconds, got 0"),
        ({"time_limit": float("nan")}, "got nan"),
        ({"time_limit": "5"}, "got '5'"),
        ({"time_limit": 5.0, "reproducible": True}, "time_limit cannot bound a reproducible valuation"),
        ({"time_limit": 5.0, "method": "sampled"}, "time_limit bounds exact values"),
        ({"n_permutations": 10.5}, "n_permutations must be a whole number, got 10.5"),
        ({"seed": None}, "seed must be a whole number, got None"),
        ({"precision": "high"}, "between 0 and 1, got 'high'"),
    ],
)
def test_impossible_settings_are_named(settings: dict[str, object], message: str) -> None:
    reproducible = bool(settings.pop("reproducible", False))
    with pytest.raises(InputError, match=message):
        value_counts(table(), ValuationSettings(**settings), reproducible=reproducible)  # type: ignore


def test_settings_may_be_numpy_integers() -> None:
    settings = {"n_permutations": np.int32(20), "seed": np.int64(3), "method": "sampled"}
    result = value_counts(table(), ValuationSettings(statistics=False, **settings))  # type: ignore[arg-type]
    assert '"seed": 3' in result.to_json()
