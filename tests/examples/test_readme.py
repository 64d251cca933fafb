"""What the README shows is what happens: its example, its output, its commands and its numbers' commands."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest

from fedvalue.cli.app import PANELS
from tests.cli.here import fedvalue_here

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def test_the_example_prints_what_the_readme_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    (program,) = [text for language, text in BLOCKS if language == "python"]
    (output,) = [text for language, text in BLOCKS if language == "text"]
    exec(compile(program, "README", "exec"), {})
    assert capsys.readouterr().out == output
    assert "<html" in (tmp_path / "report.html").read_text()


def test_the_commands_run_in_their_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    (block,) = [text for language, text in BLOCKS if not language and "fedvalue value" in text]
    folder, *commands = [shlex.split(line, comments=True) for line in block.replace("\\\n", " ").splitlines()]
    assert folder[0] == "cd"
    monkeypatch.chdir(tmp_path / folder[1])
    for command in commands:
        ran = fedvalue_here(*command[1:])
        assert ran.code == 0, ran.err
    assert "<html" in Path("report.html").read_text()


def test_every_command_exists() -> None:
    known = {name for names in PANELS.values() for name in names}
    used = set(
        re.findall(r"fedvalue ([a-z]+)\b", " ".join(text for language, text in BLOCKS if not language))
    )
    used |= set(re.findall(r"`fedvalue ([a-z]+)\b", README))
    assert used
    assert used <= known


def test_every_measured_number_has_its_command() -> None:
    table = README.split("## Measured")[1].split("\n\n")[2].splitlines()[2:]
    assert len(table) >= 4
    for row in table:
        command = row.strip("| ").split("|")[-1]
        assert re.search(r"`(python|fedvalue|make|pytest) .+`|the same", command), row
