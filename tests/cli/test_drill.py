"""`fedvalue drill` as a user runs it."""

from __future__ import annotations

import json
from pathlib import Path

from fedvalue.simulation.drill import gram_drill, scenarios
from tests.cli.here import fedvalue_here
from tests.cli.runner import fedvalue

PROTOCOLS = ("paper", "mirror", "gram", "vpsic")


def test_json_alone_on_stdout() -> None:
    ran = fedvalue("drill", "--protocol", "mirror", "--trials", "1", "--json", "-")
    assert ran.code == 0
    rows = json.loads(ran.out)
    assert {"protocol", "hardened", "behaviour", "trials", "detected", "predicted"} <= set(rows[0])
    caught = [row for row in rows if row["behaviour"] != "both servers share one lie"]
    assert all(row["detected"] == row["trials"] == 1 for row in caught)


def test_table_and_file(tmp_path: Path) -> None:
    ran = fedvalue_here("drill", "--trials", "1", "--json", tmp_path / "drill.json")
    assert ran.code == 0
    assert "paper as published" in ran.out
    assert "vpsic as published" in ran.out
    assert "marginal-preserving" in ran.out
    assert "No protocol here detects two servers that share one lie" in ran.err
    rows = json.loads((tmp_path / "drill.json").read_text())
    drilled = {
        protocol: {r["behaviour"] for r in rows if r["protocol"] == protocol} for protocol in PROTOCOLS
    }
    assert drilled["paper"] == {s.behaviour for s in scenarios.SCENARIOS if s.paper is not None}
    assert drilled["mirror"] == {s.behaviour for s in scenarios.SCENARIOS if s.mirror is not None}
    assert drilled["gram"] == {s.behaviour for s in gram_drill.SCENARIOS}
    assert drilled["vpsic"] == {
        "move rows between two cells, guessing q",
        "move a row between two cells, reading q",
        "move rows round a rectangle, reading q",
        "move a row between two cells, knowing n",
        "move rows round a rectangle, knowing n",
    }


def test_advice() -> None:
    ran = fedvalue_here("drill", "--advise", "--cells", "128")
    assert ran.code == 0
    assert "128 cells" in ran.out
    assert "66.6667%" in ran.out
    rows = json.loads(fedvalue_here("drill", "--advise", "--cells", "128", "--json", "-").out)
    assert {"q", "n_r", "detection", "n_bytes"} <= set(rows[0])


def test_wrong_usage_is_told_in_a_line() -> None:
    for arguments in (("--advise",), ("--cells", "9"), ("--trials", "0"), ("--protocol", "single")):
        ran = fedvalue_here("drill", *arguments)
        assert ran.code in (2, 3)
        assert ran.err


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    ran = fedvalue_here(
        "drill", "--advise", "--cells", "9", "--json", tmp_path / "no" / "such" / "folder.json"
    )
    assert ran.code == 3
