"""`fedvalue demo`: the whole thing, as a newcomer starts it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fedvalue.simulation.demonstration import Demonstration
from fedvalue.valuation.result import PartyValue, Valuation
from tests.cli.here import fedvalue_here
from tests.cli.runner import fedvalue
from tests.support.processes import until

pytestmark = pytest.mark.network


def running(folder: Path) -> bool:
    """Whether a process has the folder in its command."""
    return subprocess.run(["pgrep", "-f", str(folder)], capture_output=True, check=False).returncode == 0


def test_demo_shows_the_centralised_values_and_cleans_up(tmp_path, monkeypatch):
    """Two servers, a bank, four data parties, certificate and logs checked, report written."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    done = fedvalue("demo", "--output", tmp_path / "out", timeout=600)
    assert done.code == 0, done.err
    for name in ("telco", "shop", "insurer", "utility"):
        assert any(line.split()[:1] == [name] for line in done.out.splitlines())
    assert "ok  the centralised values of the joined table are the same on the grid of " in done.out
    assert "ok  server 'validate' computed and signed these values" in done.out
    assert "audit log of compute:" in done.out
    assert "started 2 servers and 5 parties" in done.err
    result = json.loads((tmp_path / "out" / "result.json").read_bytes())
    assert result["protocol"] == "mirror"
    assert (tmp_path / "out" / "report.html").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    until(lambda: not running(tmp_path), what="the end of all processes")


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["kill-party", "kill-server"])
def test_demo_survives_a_kill(tmp_path, fault):
    done = fedvalue("demo", "--fault", fault, "--output", tmp_path / "out", "--json", "-", timeout=600)
    assert done.code == 0, done.err
    assert "kill -9" in done.err
    assert len(json.loads(done.out)["parties"]) == 4


@pytest.mark.slow
def test_demo_detects_a_cheat(tmp_path):
    done = fedvalue("demo", "--fault", "cheat", "--output", tmp_path / "out", timeout=600)
    assert done.code == 0, done.err
    assert "No value was released" in done.out
    assert done.out.count("E_MIRROR") == 5
    assert not (tmp_path / "out" / "result.json").exists()


@pytest.mark.slow
def test_demo_of_gram_has_three_servers_and_values_near_those_without_noise(tmp_path):
    done = fedvalue("demo", "--protocol", "gram", "--output", tmp_path / "out", timeout=600)
    assert done.code == 0, done.err
    assert "started 3 servers and 5 parties" in done.err
    assert "parties, and none is far off" in done.out
    assert "ok  the values follow from these sums" in done.out
    assert "audit log of assist:" in done.out


@pytest.mark.slow
def test_demo_of_gram_detects_a_shifted_sum(tmp_path):
    done = fedvalue(
        "demo", "--protocol", "gram", "--fault", "cheat", "--output", tmp_path / "out", timeout=600
    )
    assert done.code == 0, done.err
    assert done.out.count("E_SUMS") == 5
    assert not (tmp_path / "out" / "result.json").exists()


def test_demo_does_not_overwrite_a_folder(tmp_path):
    (tmp_path / "keep").mkdir()
    (tmp_path / "keep" / "something").write_text("mine")
    done = fedvalue("demo", "--keep", tmp_path / "keep")
    assert done.code == 4
    assert "must be a new or an empty folder" in done.err


def test_the_example_tables_are_those_of_the_committed_script(tmp_path):
    from importlib import resources

    from fedvalue.simulation.example.generate import write

    write(tmp_path)
    for name in ("bank", "telco", "shop", "insurer", "utility"):
        committed = resources.files("fedvalue.simulation.example") / f"{name}.csv"
        assert committed.read_bytes() == (tmp_path / f"{name}.csv").read_bytes()


def test_a_demo_that_is_told_to_end_takes_its_processes_and_files_along(tmp_path):
    """As a supervisor, a shutdown or `timeout` does."""
    demo = subprocess.Popen(
        [sys.executable, "-m", "fedvalue", "demo"], cwd=tmp_path, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )  # fmt: skip
    assert demo.stderr is not None
    next(line for line in demo.stderr if "started 2 servers" in line)
    demo.terminate()
    demo.communicate(timeout=600)
    assert demo.returncode == 130
    assert list(tmp_path.iterdir()) == []
    until(lambda: not running(tmp_path), what="the end of all processes")


@pytest.mark.parametrize(
    ("option", "words"), [("--keep", "must be a new or an empty folder"), ("--output", "must be a folder")]
)
def test_a_file_in_the_place_of_a_folder_is_named_before_anything_starts(tmp_path, option, words):
    file = tmp_path / "file"
    file.touch()
    refused = fedvalue("demo", option, file)
    assert refused.code == 4
    assert f"{file} {words}" in refused.err


def test_the_result_goes_to_a_file_too(tmp_path, monkeypatch):
    """--json FILE beside the table, as with the other commands."""
    party = PartyValue(name="telco", value=0.1, share=1.0, alone=0.1, last=0.1, n_codes=3)
    result = Valuation(n_samples=100, method="exact", total=0.1, label_entropy=0.5, parties=(party,))
    ended = Demonstration(result, checks=("all is well",))
    monkeypatch.setattr("fedvalue.simulation.demonstration.demonstrate", lambda *_, **__: ended)
    done = fedvalue_here("demo", "--json", "all.json", cwd=tmp_path)
    assert "result written to all.json" in done.err
    assert "telco" in done.out
    assert "ok  all is well" in done.out
    assert json.loads((tmp_path / "all.json").read_bytes()) == result.to_dict()
