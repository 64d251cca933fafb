"""docs/deploy.md and docs/offline.md, followed literally: five or six machines as folders.

Servers listen on loopback addresses of their own. Where a command asks a person, the test answers yes, as
somebody does who has read the terms and compared the words.
"""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from fedvalue.information.pair_tables import pair_layout, tables_of_columns
from fedvalue.protocol.share_rounding import share_step
from fedvalue.valuation.low_order.low_order_valuation import value_tables
from tests.naive import shapley_cmi
from tests.support.processes import PATIENCE, until

pytestmark = pytest.mark.network

DOCS = Path(__file__).parents[2] / "docs"
INVITED, BY_HAND, THREE = "deploy.md", "offline.md", "deploy.md, three operators"
MACHINES = ("compute", "validate", "bank", "telco", "shop")
SECTION = re.compile(r"^### With three operators$.*?(?=^##)", re.M | re.S)
BLOCK = re.compile(r'^```bash title="([^"]+)"\n(.*?)^```$', re.M | re.S)


# The page's addresses may be in use: whoever follows it puts in their own, and so does the test.
NETWORK = f"127.{1 + os.getpid() // 250 % 250}.{os.getpid() % 250}."


def blocks(page: str) -> list[tuple[tuple[str, ...], str, str]]:
    """(machines, how, commands) of every command block, in the order of the page."""
    found = []
    for title, commands in BLOCK.findall(story(page).replace("127.0.0.", NETWORK)):
        names, _, how = title.partition(" (")
        found.append((tuple(names.split()), how.rstrip(")"), commands))
    return found


def story(page: str) -> str:
    """The text of a story; the section about three operators is one of its own."""
    text = (DOCS / page.partition(",")[0]).read_text()
    if page == THREE:
        (section,) = SECTION.findall(text)
        return section
    return SECTION.sub("", text)


def write_tables(root: Path, n: int = 300) -> dict[str, np.ndarray]:
    """n customers; each party stores them in its own order."""
    rng = np.random.default_rng(11)
    label = rng.integers(0, 2, n)
    codes = {"label": label, "bank": rng.integers(0, 3, n)}
    codes["telco"] = np.where(rng.random(n) < 0.3, rng.integers(0, 3, n), label)
    codes["shop"] = np.where(rng.random(n) < 0.5, rng.integers(0, 2, n), label + codes["bank"] % 2)
    for k, party in enumerate(("bank", "telco", "shop")):
        lines = ["customer,x" + (",defaulted" if party == "bank" else "")]
        for i in np.random.default_rng(k).permutation(n):
            tail = f",{'yes' if label[i] else 'no'}" if party == "bank" else ""
            lines.append(f"C{i:05d},v{codes[party][i]}{tail}")
        (root / party / "customers.csv").write_text("\n".join(lines) + "\n")
    return codes


@pytest.mark.parametrize("page", [INVITED, pytest.param(BY_HAND, marks=pytest.mark.slow)])
def test_the_guide_works_as_it_is_written(tmp_path, page):
    """Every command block runs without an error, and the run gives the centralised values."""
    for name in (*MACHINES, "exchange", "mail"):
        (tmp_path / name).mkdir()
    codes = write_tables(tmp_path)
    assert followed(tmp_path, page) == [0, 0]
    results = {name: next((tmp_path / name).rglob("result.json")) for name in ("bank", "telco")}
    result = json.loads(results["bank"].read_bytes())
    expected = shapley_cmi(
        [codes["shop"].tolist(), codes["telco"].tolist()], codes["label"].tolist(), codes["bank"].tolist()
    )
    assert {one["name"]: one["value"] for one in result["parties"]} == pytest.approx(
        dict(zip(("shop", "telco"), expected, strict=True)), abs=0.5e-4 + 1e-9
    )
    own = json.loads(results["telco"].read_bytes())
    (telco,) = (one for one in result["parties"] if one["name"] == "telco")
    step = float(share_step(Fraction(1, 10_000), result["n_samples"]))
    assert own["parties"][0]["learnable"] == pytest.approx(telco["learnable"], abs=step)
    assert "value" not in own["parties"][0]
    assert results["bank"].with_name("report.html").stat().st_size > 1000
    if page == INVITED:
        check_words(tmp_path)
        assert "unbroken" in (tmp_path / "compute" / "step.log").read_text()
    listening = [
        json.loads(line)["address"]
        for m in MACHINES[:2]
        for line in serve_lines(tmp_path / m)
        if '"address"' in line
    ]
    assert listening == [f"{NETWORK}2:7101", f"{NETWORK}3:7102"]


def test_the_story_of_three_operators_works_as_it_is_written(tmp_path):
    """`invite` chooses gram and says why; the values with noise are near those of the joined columns."""
    for name in (*MACHINES, "assist", "mail"):
        (tmp_path / name).mkdir()
    codes = write_tables(tmp_path, 12_000)
    assert followed(tmp_path, THREE) == [0, 0, 0]
    certificate = json.loads(next((tmp_path / "bank").rglob("certificate.json")).read_bytes())
    agreed, result = certificate["manifest"]["manifest"], certificate["result"]
    assert (agreed["protocol"], agreed["epsilon"], len(certificate["servers"])) == ("gram", "1", 3)
    layout = pair_layout(("shop", "telco"), [[3], [3]], 2, task=(3,))
    columns = [codes["bank"], codes["shop"], codes["telco"]]
    exact = value_tables(tables_of_columns(layout, columns, codes["label"]))
    for one in result["parties"]:
        low, high = one["learnable_interval"]
        # Four standard errors: the interval has 1.96 on either side.
        assert abs(one["learnable"] - (exact[one["name"]].learnable or 0.0)) < 4 * (high - low) / (2 * 1.96)
    assert "ok  the values follow from these sums" in (tmp_path / "bank" / "step.log").read_text()
    check_words(tmp_path)


def followed(tmp_path: Path, page: str) -> list[int]:
    """Run every command block of a story; how the servers ended."""
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "fedvalue").write_text(f'#!/bin/sh\nexec {sys.executable} -m fedvalue "$@"\n')
    (tools / "fedvalue").chmod(0o755)
    env = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"}
    servers: list[subprocess.Popen[bytes]] = []
    together: list[tuple[str, subprocess.Popen[bytes]]] = []
    people: list[int] = []

    def start(machine: str, commands: str, log: str) -> subprocess.Popen[bytes]:
        person, terminal = pty.openpty()
        os.write(person, b"y\n" * 3)
        people.append(person)
        try:
            with (tmp_path / machine / log).open("wb") as file:
                return subprocess.Popen(
                    ["bash", "-euo", "pipefail", "-c", "exec " * (log == "serve.log") + commands.strip()],
                    cwd=tmp_path / machine, env=env, stdin=terminal, stdout=file, stderr=subprocess.STDOUT,
                )  # fmt: skip
        finally:
            os.close(terminal)

    def finish() -> None:
        for machine, process in together:
            assert process.wait(PATIENCE) == 0, (machine, (tmp_path / machine / "together.log").read_text())
        together.clear()

    try:
        for machines, how, commands in blocks(page):
            if how != "together":
                finish()
            for machine in machines:
                if how == "keeps running":
                    servers.append(start(machine, commands, "serve.log"))
                    log = tmp_path / machine / "serve.log"
                    until(lambda log=log: '"listening"' in log.read_text(), what="the server's start")
                elif how == "together":
                    together.append((machine, start(machine, commands, "together.log")))
                else:
                    done = start(machine, commands, "step.log")
                    assert done.wait(PATIENCE) == 0, (
                        machine,
                        commands,
                        (tmp_path / machine / "step.log").read_text(),
                    )
        finish()
    finally:
        for process in servers:
            process.send_signal(signal.SIGTERM)
        ends = [process.wait(PATIENCE) for process in servers]
        for _, process in together:
            process.kill()
        for person in people:
            os.close(person)
    return ends


def serve_lines(folder: Path) -> list[str]:
    return (folder / "serve.log").read_text().splitlines()


def check_words(root: Path) -> None:
    """The phone call: all parties saw the same words, servers logged them, the certificate has it."""
    logs = [(root / name / "together.log").read_text() for name in MACHINES[2:]]
    words = {re.search(r"^words: (.*)$", log, re.M)[1] for log in logs}
    assert len(words) == 1
    assert words.pop() in (root / "compute" / "serve.log").read_text()
    agreed = json.loads(next((root / "bank").rglob("certificate.json")).read_bytes())["manifest"]
    assert {name: said["compared"] for name, said in agreed["words"].items()} == dict.fromkeys(
        ("bank", "shop", "telco"), True
    )


def test_nobody_writes_a_file_or_compares_fingerprints():
    """Problem 18 of the first review was 104 commands, hand-written files and 30 comparisons.

    Two commands per participant, and one more for each server's operator at most; no editor.
    """
    commands_of_all = [commands for _, _, commands in blocks(INVITED)]
    text = story(INVITED)
    before_checking = text[: text.index("## 6. Check and keep")]
    commands = re.findall(r"^fedvalue ", "".join(one for _, one in BLOCK.findall(before_checking)), re.M)
    assert len(commands) <= 9  # of five participants, with `join` written once for two of them
    assert not any("cat >" in one or "audit card" in one or "self.json" in one for one in commands_of_all)


def test_the_guide_has_all_its_parts():
    own = ("## Run a server", "## Back up and restore", "## Keep and delete", "## Upgrade")
    parts = {INVITED: ("### Ports", "### New keys"), "operate.md": own}
    for page, headings in parts.items():
        text = (DOCS / page).read_text()
        assert all(f"{heading}\n" in text for heading in headings)
    used = {machine for machines, _, _ in blocks(INVITED) for machine in machines}
    assert used == set(MACHINES)
