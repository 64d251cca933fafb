"""The committed benchmark holds what issue and documents claim of it."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def published() -> dict[str, Any]:
    document: dict[str, Any] = json.loads((ROOT / "docs/benchmark/benchmark.json").read_text())
    return document


def mean(published: dict[str, Any], method: str, score: str) -> float:
    """The mean over scored settings, computed here from the estimates and the truth."""
    total = []
    for problem in published["problems"]:
        if not problem["scored"]:
            continue
        truth, estimate = problem["parties"], published["estimates"][method][problem["name"]]
        shares = []
        for values in (truth, estimate):
            positive = {name: max(value, 0.0) for name, value in values.items()}
            whole = sum(positive.values())
            shares.append(
                {name: value / whole if whole else 1 / len(values) for name, value in positive.items()}
            )
        if score == "tv":
            total.append(sum(abs(shares[0][name] - shares[1][name]) for name in truth) / 2)
        else:
            total.append(shares[1][problem["noise"]])
    return fmean(total)


def test_learnable_sends_little_to_the_wrong_party(published: dict[str, Any]) -> None:
    """At most 11%, and at least five points less than SHAP on an ensemble of trained models."""
    learnable, shap = mean(published, "learnable", "tv"), mean(published, "shap-ensemble", "tv")
    assert learnable <= 0.11
    assert learnable <= shap - 0.05
    assert mean(published, "learnable", "noise") <= 0.01


@pytest.mark.parametrize("score", ["tv", "noise"])
def test_the_published_means_follow_from_the_published_estimates(
    published: dict[str, Any], score: str
) -> None:
    for row in published["real"]:
        assert row["means"][score]["value"] == pytest.approx(mean(published, row["name"], score), abs=1e-9)
