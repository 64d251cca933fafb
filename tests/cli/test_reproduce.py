"""`fedvalue reproduce` as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fedvalue.cli.research import progress_lines
from tests.cli.here import fedvalue_here
from tests.cli.runner import fedvalue


@pytest.mark.data
def test_table1_prints_a_verdict_and_leaves_a_page(tmp_path: Path) -> None:
    out = tmp_path / "out"
    ran = fedvalue("reproduce", "table1", "--out", out, "--workers", "0")
    assert ran.code == 0
    assert "reproduced" in ran.out
    assert f"results: {out / 'index.html'}" in ran.err
    assert {path.name for path in out.iterdir()} == {
        "run.json",
        "units",
        "table1.json",
        "table1.svg",
        "index.html",
    }

    again = fedvalue_here("reproduce", "table1", "--out", out, "--workers", "0", "--json", "-")
    (row,) = json.loads(again.out)
    assert set(row) == {"name", "claim", "measured", "verdict"}

    other = fedvalue_here("reproduce", "table1", "--out", out, "--seed", "5")
    assert other.code == 3
    assert "holds results of seed 0 (now 5)" in other.err
    assert "`--out OTHER` keeps both" in other.err


def test_unknown_experiment(tmp_path: Path) -> None:
    ran = fedvalue_here("reproduce", "fig9", "--out", tmp_path / "out")
    assert ran.code == 3
    assert "unknown experiment 'fig9'; choose from table1, table2, fig2" in ran.err
    assert not (tmp_path / "out").exists()


def test_unknown_profile(tmp_path: Path) -> None:
    ran = fedvalue_here("reproduce", "table1", "--profile", "fast", "--out", tmp_path / "out")
    assert ran.code == 3
    assert "profile must be one of quick, paper, got 'fast'" in ran.err


def test_a_folder_of_someone_else_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    ran = fedvalue_here("reproduce", "fig5", "--out", tmp_path, "--fresh")
    assert ran.code == 3
    assert "is not empty and holds no results" in ran.err
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_log_gets_a_line_now_and_then_with_an_estimate(capsys: pytest.CaptureFixture[str]) -> None:
    now = 0.0
    tell = progress_lines(lambda: now)
    for second in range(0, 101, 10):
        now = float(second)
        tell(second, 200, f"piece {second}")
    assert capsys.readouterr().err.splitlines() == [
        "reproduce: 15%, about 3 min left (piece 30)",
        "reproduce: 30%, about 2 min left (piece 60)",
        "reproduce: 45%, about 2 min left (piece 90)",
    ]
