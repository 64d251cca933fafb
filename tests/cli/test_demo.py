"""`fedvalue demo`: the whole thing, as a newcomer starts it."""

from __future__ import annotations

import json
import subprocess

import pytest

from tests.cli.runner import fedvalue

pytestmark = pytest.mark.network


def test_demo_shows_federated_next_to_centralised_values_and_cleans_up(tmp_path):
    """Two servers, a bank, four data parties, certificate and logs checked, report written."""
    done = fedvalue("demo", "--output", tmp_path / "out", timeout=600)
    assert done.code == 0, done.err
    rows = [line.split() for line in done.out.splitlines()[1:5]]
    assert {row[0] for row in rows} == {"telco", "shop", "insurer", "utility"}
    for row in rows:
        assert row[1] == row[2]  # nine digits of the federated and of the centralised value
    assert "ok  server 'validate' computed and signed these values" in done.out
    assert "audit log of compute:" in done.out
    assert "started 2 servers and 5 parties" in done.err
    result = json.loads((tmp_path / "out" / "result.json").read_bytes())
    assert result["protocol"] == "mirror"
    assert (tmp_path / "out" / "report.html").exists()
    left = subprocess.run(["pgrep", "-f", "fedvalue-demo-"], capture_output=True, text=True, check=False)
    assert left.stdout.strip() == ""


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


def test_demo_does_not_overwrite_a_folder(tmp_path):
    (tmp_path / "keep").mkdir()
    (tmp_path / "keep" / "something").write_text("mine")
    done = fedvalue("demo", "--keep", tmp_path / "keep")
    assert done.code == 4
    assert "not empty" in done.err


def test_the_example_tables_are_those_of_the_committed_script(tmp_path):
    from importlib import resources

    from fedvalue.deployment.demonstration.example.generate import write

    write(tmp_path)
    for name in ("bank", "telco", "shop", "insurer", "utility"):
        committed = resources.files("fedvalue.deployment.demonstration.example") / f"{name}.csv"
        assert committed.read_bytes() == (tmp_path / f"{name}.csv").read_bytes()
