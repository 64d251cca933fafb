"""docs/deploy.md, followed literally: five machines as five folders, servers on own loopback addresses."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from tests.naive import shapley_cmi

pytestmark = pytest.mark.network

GUIDE = Path(__file__).parents[2] / "docs" / "deploy.md"
MACHINES = ("compute", "validate", "bank", "telco", "shop")
BLOCK = re.compile(r'^```bash title="([^"]+)"\n(.*?)^```$', re.M | re.S)


# The page's addresses may be in use: whoever follows it puts in their own, and so does the test.
NETWORK = f"127.{1 + os.getpid() // 250 % 250}.{os.getpid() % 250}."


def blocks() -> list[tuple[tuple[str, ...], str, str]]:
    """(machines, how, commands) of every command block, in the order of the page."""
    found = []
    for title, commands in BLOCK.findall(GUIDE.read_text().replace("127.0.0.", NETWORK)):
        names, _, how = title.partition(" (")
        found.append((tuple(names.split()), how.rstrip(")"), commands))
    return found


def write_tables(root: Path) -> dict[str, np.ndarray]:
    """300 customers; each party stores them in its own order."""
    rng = np.random.default_rng(11)
    label = rng.integers(0, 2, 300)
    codes = {"label": label, "bank": rng.integers(0, 3, 300)}
    codes["telco"] = np.where(rng.random(300) < 0.3, rng.integers(0, 3, 300), label)
    codes["shop"] = np.where(rng.random(300) < 0.5, rng.integers(0, 2, 300), label + codes["bank"] % 2)
    for k, party in enumerate(("bank", "telco", "shop")):
        lines = ["customer,x" + (",defaulted" if party == "bank" else "")]
        for i in np.random.default_rng(k).permutation(300):
            tail = f",{'yes' if label[i] else 'no'}" if party == "bank" else ""
            lines.append(f"C{i:04d},v{codes[party][i]}{tail}")
        (root / party / "customers.csv").write_text("\n".join(lines) + "\n")
    return codes


def test_the_guide_works_as_it_is_written(tmp_path):
    """Every command block runs without an error, and the run gives the centralised values."""
    for name in (*MACHINES, "exchange"):
        (tmp_path / name).mkdir()
    codes = write_tables(tmp_path)
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "fedvalue").write_text(f'#!/bin/sh\nexec {sys.executable} -m fedvalue "$@"\n')
    (tools / "fedvalue").chmod(0o755)
    env = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"}
    servers: list[subprocess.Popen[bytes]] = []
    together: list[tuple[str, subprocess.Popen[bytes]]] = []

    def start(machine: str, commands: str, log: str) -> subprocess.Popen[bytes]:
        with (tmp_path / machine / log).open("wb") as file:
            return subprocess.Popen(
                ["bash", "-euo", "pipefail", "-c", "exec " * (log == "serve.log") + commands.strip()],
                cwd=tmp_path / machine, env=env, stdout=file, stderr=subprocess.STDOUT,
            )  # fmt: skip

    def finish() -> None:
        for machine, process in together:
            assert process.wait(120) == 0, (machine, (tmp_path / machine / "together.log").read_text())
        together.clear()

    try:
        for machines, how, commands in blocks():
            if how != "together":
                finish()
            for machine in machines:
                if how == "keeps running":
                    servers.append(start(machine, commands, "serve.log"))
                    wait_for(tmp_path / machine / "serve.log", '"listening"')
                elif how == "together":
                    together.append((machine, start(machine, commands, "together.log")))
                else:
                    done = start(machine, commands, "step.log")
                    assert done.wait(120) == 0, (
                        machine,
                        commands,
                        (tmp_path / machine / "step.log").read_text(),
                    )
        finish()
    finally:
        for process in servers:
            process.send_signal(signal.SIGTERM)
        ends = [process.wait(30) for process in servers]
        for _, process in together:
            process.kill()
    assert ends == [0, 0]
    result = json.loads((tmp_path / "bank" / "result.json").read_bytes())
    expected = shapley_cmi(
        [codes["shop"].tolist(), codes["telco"].tolist()], codes["label"].tolist(), codes["bank"].tolist()
    )
    assert {one["name"]: one["value"] for one in result["parties"]} == pytest.approx(
        dict(zip(("shop", "telco"), expected, strict=True)), abs=1e-9
    )
    own = json.loads((tmp_path / "telco" / "result.json").read_bytes())
    assert own["parties"][0]["value"] == pytest.approx(expected[1], abs=1e-9)
    assert (tmp_path / "bank" / "report.html").stat().st_size > 1000
    assert "unbroken" in (tmp_path / "compute" / "step.log").read_text()
    listening = [
        json.loads(line)["address"]
        for m in MACHINES[:2]
        for line in serve_lines(tmp_path / m)
        if "address" in line
    ]
    assert listening == [f"{NETWORK}2:7101", f"{NETWORK}3:7102"]


def serve_lines(folder: Path) -> list[str]:
    return (folder / "serve.log").read_text().splitlines()


def wait_for(path: Path, words: str) -> None:
    end = time.monotonic() + 60
    while words not in path.read_text():
        assert time.monotonic() < end, path.read_text()
        time.sleep(0.1)


def test_the_guide_has_all_its_parts():
    text = GUIDE.read_text()
    for heading in ("systemd", "Container", "Ports", "Backup", "Upgrade", "New keys"):
        assert f"### {heading}" in text
    used = {machine for machines, _, _ in blocks() for machine in machines}
    assert used == set(MACHINES)
