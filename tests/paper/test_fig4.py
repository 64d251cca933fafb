"""Fig. 4 for real: the protocols with all their roles against the centralised values."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fedvalue.paper.experiments import fig4
from fedvalue.paper.experiments.base import Unit
from fedvalue.paper.experiments.runner import reproduce


def cut_down(profile: str, seed: int) -> list[Unit]:
    """All six sets and three protocols, 2 and 4 data parties; the per-query protocols on 300 rows."""
    return [
        replace(unit, settings={**unit.settings, "rows": 300 if unit.settings["rows"] else None})
        for unit in fig4.units(profile, seed)
        if unit.settings["n_parties"] in (2, 4)
    ]


@pytest.mark.data
def test_fig4_is_reproduced_to_1e_9_on_all_sets_with_every_protocol(tmp_path: Path) -> None:
    experiment = replace(fig4.EXPERIMENT, units=cut_down)
    (document,) = reproduce([experiment], profile="quick", out=tmp_path, workers=0)
    runs = document["numbers"]["runs"]
    assert len(runs) == 6 * 3 * 2
    assert {run["dataset"] for run in runs if run["protocol"] == "mirror" and run["n_samples"] == 30_000} == {
        "credit"
    }
    for run in runs:
        assert run["largest_difference"] <= 1e-9, run
        assert run["correlation"] is None or run["correlation"] == pytest.approx(1, abs=1e-9), run
    assert document["verdict"] == "reproduced"
