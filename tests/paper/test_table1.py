"""Table 1 for real."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fedvalue.paper.experiments.paper_tables import Table1
from fedvalue.paper.experiments.runner import reproduce


@pytest.mark.data
def test_table1_is_reproduced_and_a_wrong_number_changes_the_verdict(tmp_path: Path) -> None:
    (document,) = reproduce([Table1()], profile="quick", out=tmp_path, workers=0)
    assert document["verdict"] == "reproduced"
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert "Table 1" in page
    assert "30,000" in page

    stored = tmp_path / "units/sizes.breast.json"
    record = json.loads(stored.read_text())
    record["result"]["features"] = 31
    stored.write_text(json.dumps(record))
    (document,) = reproduce([Table1()], profile="quick", out=tmp_path, workers=0)
    assert document["verdict"] == "partly"
    assert "5 of 6" in document["measured"]
