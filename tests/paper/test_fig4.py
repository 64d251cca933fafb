"""Fig. 4 for real: the protocols with all their roles against the centralised values."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fedvalue.paper.experiments.experiment import Unit
from fedvalue.paper.experiments.fig4 import Fig4
from fedvalue.paper.experiments.runner import reproduce


class CutDown(Fig4):
    """All six sets and three protocols, 2 and 4 data parties; the per-query protocols on 300 rows."""

    def units(self, profile: str, seed: int) -> list[Unit]:
        return [
            replace(unit, settings={**unit.settings, "rows": 300 if unit.settings["rows"] else None})
            for unit in super().units(profile, seed)
            if unit.settings["n_parties"] in (2, 4)
        ]


@pytest.mark.data
def test_fig4_is_reproduced_to_1e_9_on_all_sets_with_every_protocol(tmp_path: Path) -> None:
    (document,) = reproduce([CutDown()], profile="quick", out=tmp_path, workers=0)
    runs = document["numbers"]["runs"]
    assert len(runs) == 6 * 3 * 2
    assert {run["dataset"] for run in runs if run["protocol"] == "mirror" and run["n_samples"] == 30_000} == {
        "credit"
    }
    for run in runs:
        assert run["largest_difference"] <= 1e-9, run
        assert run["correlation"] is None or run["correlation"] == pytest.approx(1, abs=1e-9), run
    assert document["verdict"] == "reproduced"
