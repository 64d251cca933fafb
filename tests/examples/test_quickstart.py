"""The quickstart and the tutorial, followed literally."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest

from tests.cli.runner import fedvalue

ROOT = Path(__file__).resolve().parents[2]
PAGES = {"index": 4, "tutorial": 6}
"""Pages, and how many commands each must have."""


def blocks(page: str) -> list[tuple[str, str]]:
    text = (ROOT / "docs" / f"{page}.md").read_text()
    return re.findall(r"^```(\w*)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


@pytest.fixture(params=PAGES)
def page(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def folder(page: str, tmp_path: Path) -> Path:
    """Where a reader is: beside the examples, or in the folder that the tutorial changes to."""
    if page == "tutorial":
        shutil.copytree(ROOT / "examples" / "lending", tmp_path / "lending")
        return tmp_path / "lending"
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    return tmp_path


def lines(text: str) -> set[str]:
    """Lines of output, without spaces around cells and without rules."""
    return {" ".join(line.split()) for line in text.splitlines() if line.strip(" ─")}


def test_every_command_runs_and_prints_what_the_page_shows(page: str, folder: Path) -> None:
    commands = [
        line
        for language, text in blocks(page)
        if not language
        for line in text.replace("\\\n", " ").splitlines()
        if line.startswith("fedvalue") and not line.startswith("fedvalue demo")  # has tests of its own
    ]
    assert len(commands) == PAGES[page]
    printed: set[str] = set()
    for command in commands:
        ran = fedvalue(*shlex.split(command, comments=True)[1:], cwd=folder)
        assert ran.code == 0, f"{command}: {ran.err}"
        printed |= lines(ran.out)
    shown = lines("".join(text for language, text in blocks(page) if language == "text"))
    assert shown
    assert shown <= printed
    result = json.loads((folder / "result.json").read_text())
    utility = next(party for party in result["parties"] if party["name"] == "utility")
    low, high = utility["learnable_interval"]
    assert low <= 0 <= high
    assert "<html" in (folder / "report.html").read_text()


def test_python_runs(
    page: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import matplotlib

    matplotlib.use("agg")
    monkeypatch.chdir(folder)
    (program,) = [text for language, text in blocks(page) if language == "python"]
    exec(compile(program, page, "exec"), {})
    assert "telco" in capsys.readouterr().out


def test_the_example_table_joins_the_demonstrations_tables() -> None:
    import pandas as pd

    example = ROOT / "src" / "fedvalue" / "simulation" / "example"
    joined = pd.read_csv(ROOT / "examples" / "customers.csv", dtype=str)
    for party in ("bank", "telco", "shop", "insurer", "utility"):
        own = pd.read_csv(example / f"{party}.csv", dtype=str)
        both = own.merge(joined, on="customer", suffixes=("", "_joined"), validate="1:1")
        assert len(both) == len(own) == len(joined)
        for column in own.columns[1:]:
            assert (both[column] == both[f"{column}_joined"]).all()
