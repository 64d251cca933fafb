"""The quickstart, followed literally."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from tests.cli.runner import fedvalue

ROOT = Path(__file__).resolve().parents[2]
BLOCKS = re.findall(
    r"^```(\w*)\n(.*?)^```", (ROOT / "docs" / "index.md").read_text(), re.MULTILINE | re.DOTALL
)
COMMANDS = [
    line
    for language, text in BLOCKS
    if not language
    for line in text.replace("\\\n", " ").splitlines()
    if line.startswith("fedvalue") and not line.startswith("fedvalue demo")  # has tests of its own
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("quickstart")
    (folder / "examples").symlink_to(ROOT / "examples")
    return folder


def test_every_command_runs(folder: Path) -> None:
    assert len(COMMANDS) == 4
    for command in COMMANDS:
        ran = fedvalue(*shlex.split(command)[1:], cwd=folder)
        assert ran.code == 0, f"{command}: {ran.err}"
    result = json.loads((folder / "result.json").read_text())
    utility = next(party for party in result["parties"] if party["name"] == "utility")
    assert utility["flags"]
    assert "<html" in (folder / "report.html").read_text()


def test_python_runs(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    (program,) = [text for language, text in BLOCKS if language == "python"]
    exec(compile(program, "quickstart", "exec"), {})
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
