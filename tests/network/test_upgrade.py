"""Two minor versions in one run, side by side and one after the other (decision 0416). Real processes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from fedvalue._version import PROTOCOL_VERSION, VALUES_VERSION, __version__
from tests.support.processes import PATIENCE, until
from tests.support.releases import release
from tests.support.town import TASK, Town

pytestmark = pytest.mark.network

NEXT = "0.3.0"


class Fleet:
    """Processes of `fedvalue`, each of the release that is asked for; ended with the test."""

    def __init__(self, town: Town) -> None:
        self.town = town
        self._running: list[subprocess.Popen[bytes]] = []

    def start(
        self, name: str, *command: str, env: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        folder = self.town.member(name).folder
        with (folder / "log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "fedvalue", *command], cwd=folder, env=env, stdout=log, stderr=log
            )
        self._running.append(process)
        return process

    def serve(self, role: str, env: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
        before = self.log(role).count('"listening"')
        process = self.start(role, "serve", role, "--config", "server.toml", env=env)
        until(lambda: self.log(role).count('"listening"') > before, what=f"the start of {role}")
        return process

    def log(self, name: str) -> str:
        path = self.town.member(name).folder / "log"
        return path.read_text() if path.exists() else ""

    def close(self) -> None:
        for process in self._running:
            process.kill()
            process.wait(PATIENCE)


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    made = Fleet(Town(tmp_path / "town", parties=("telco",)))
    yield made
    made.close()


def test_two_minor_versions_finish_a_run_together_and_a_server_is_upgraded_within_it(
    fleet: Fleet, tmp_path: Path
) -> None:
    """bank and validate are old, telco is new; compute starts old and goes on as the new release."""
    newer = release(tmp_path / "newer", __version__=NEXT)
    fleet.serve("validate")
    old = fleet.serve("compute")
    telco = fleet.start("telco", "join", "--config", "party.toml", env=newer)
    until(lambda: '"joined"' in fleet.log("compute"), what="telco in the run")
    old.send_signal(signal.SIGTERM)
    assert old.wait(PATIENCE) == 0
    fleet.serve("compute", env=newer)
    bank = fleet.start(TASK, "run", "--config", "party.toml")
    assert bank.wait(PATIENCE) == 0, fleet.log(TASK)
    assert telco.wait(PATIENCE) == 0, fleet.log("telco")
    starts = [json.loads(line) for line in fleet.log("compute").splitlines() if '"listening"' in line]
    assert [one["version"] for one in starts] == [__version__, NEXT]
    result = json.loads((fleet.town.member(TASK).folder / "result.json").read_bytes())
    values = {one["name"]: one["value"] for one in result["parties"]}
    assert values == pytest.approx(fleet.town.values, abs=1e-9)


@pytest.mark.parametrize(
    "raised", [{"PROTOCOL_VERSION": PROTOCOL_VERSION + 1}, {"VALUES_VERSION": VALUES_VERSION + 1}], ids=str
)
def test_a_release_with_another_protocol_or_other_values_takes_no_part(
    fleet: Fleet, tmp_path: Path, raised: dict[str, int]
) -> None:
    """Before anything is sent; the message names both releases and the remedy."""
    newer = release(tmp_path / "newer", __version__=NEXT, **raised)
    telco = fleet.start("telco", "join", "--config", "party.toml", env=newer)
    assert telco.wait(PATIENCE) == 4
    words = fleet.log("telco")
    assert words.endswith("[E_VERSION]\n")
    assert f"as in FedValue {__version__}; this is FedValue {NEXT} with" in words
    assert "Every participant needs a release with the agreed versions" in words
