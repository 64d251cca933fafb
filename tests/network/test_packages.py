"""The files in deploy/: parsed, compared with the program, and their commands run as they are written.

Nothing here builds an image or talks to a cluster: the notes in docs/operate.md say what was not run.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import yaml

from fedvalue.deployment.servers.observability import Metrics
from fedvalue.simulation.local_consortium import reserve_port
from tests.support.processes import PATIENCE

DEPLOY = Path(__file__).parents[2] / "deploy"
CHART = DEPLOY / "helm" / "fedvalue-server"


def load(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


def instructions(text: str) -> list[tuple[str, str]]:
    lines = re.sub(r"\\\n\s*", "", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE)).splitlines()
    return [(line.split(" ", 1)[0], line.split(" ", 1)[1]) for line in lines if line.strip()]


def test_the_image_is_non_root_warm_checked_and_copies_what_exists() -> None:
    steps = instructions((DEPLOY / "Containerfile").read_text())
    kinds = [kind for kind, _ in steps]
    assert kinds[0] == "FROM"
    assert set(kinds) <= {"FROM", "WORKDIR", "COPY", "RUN", "ENV", "USER", "VOLUME", "EXPOSE", "HEALTHCHECK",
                          "ENTRYPOINT", "CMD"}  # fmt: skip
    assert ("USER", "10001:10001") in steps
    assert any(kind == "RUN" and "fedvalue warm-up" in rest for kind, rest in steps)
    for kind, rest in steps:
        if kind == "COPY" and "--from" not in rest:
            for source in [part for part in rest.split()[:-1] if not part.startswith("--")]:
                assert (DEPLOY.parent / source).exists(), source
    check = next(rest for kind, rest in steps if kind == "HEALTHCHECK")
    command = json.loads(check[check.index("CMD ") + 4 :])
    compile(command[2], "healthcheck", "exec")
    assert json.loads(steps[-1][1]) == ["serve", "compute"]


@pytest.mark.parametrize("name", ["compose.yaml", "compose.demo.yaml"])
def test_containers_have_no_rights_and_a_read_only_root(name: str) -> None:
    found = load(DEPLOY / name)
    base = load(DEPLOY / "compose.yaml")["services"]
    for service, settings in found["services"].items():
        merged = {**base.get(service, {}), **settings}
        assert merged["read_only"] is True
        assert merged["cap_drop"] == ["ALL"]
        assert merged["security_opt"] == ["no-new-privileges:true"]
        volume = merged["volumes"][0].split(":")[0]
        assert volume in {**load(DEPLOY / "compose.yaml")["volumes"], **found.get("volumes", {})}


@pytest.mark.network
@pytest.mark.slow
def test_the_demonstration_of_compose_runs(tmp_path: Path) -> None:
    """Every command of both files, in processes: what a container adds is paths and names, replaced here."""
    ports = {name: reserve_port() for name in ("compute", "validate", "metrics-compute", "metrics-validate")}
    exchange = tmp_path / "exchange"
    exchange.mkdir()
    shutil.copy(DEPLOY.parent / "examples" / "customers.csv", exchange)
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "entrypoint.sh").symlink_to(DEPLOY / "entrypoint.sh")
    (tools / "fedvalue").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m fedvalue "$@"\n')
    (tools / "fedvalue").chmod(0o755)
    running = {}
    demo = load(DEPLOY / "compose.demo.yaml")["services"]
    assert set(demo) == {"compute", "validate", "bank", "telco", "shop"}
    for name, service in demo.items():
        (line,) = service["command"]
        for old, new in {
            "/exchange/": f"{exchange}/",
            "0.0.0.0:7101": f"127.0.0.1:{ports['compute'][0]}",
            "0.0.0.0:7102": f"127.0.0.1:{ports['validate'][0]}",
            "compute:7101": f"127.0.0.1:{ports['compute'][0]}",
            "validate:7102": f"127.0.0.1:{ports['validate'][0]}",
        }.items():
            line = line.replace(old, new)
        environment = {
            **os.environ,
            "PATH": f"{tools}:{os.environ['PATH']}",
            "FEDVALUE_HOME": str(tmp_path / name),
        }
        if name in ("compute", "validate"):
            environment["FEDVALUE_METRICS"] = f"127.0.0.1:{ports[f'metrics-{name}'][0]}"
        with (tmp_path / f"{name}.log").open("w") as log:
            running[name] = subprocess.Popen(
                ["sh", "-c", line],
                env=environment,
                stdout=log,
                stderr=log,
                cwd=tmp_path,
                start_new_session=True,
            )
    try:
        for name in ("bank", "telco", "shop"):
            assert running[name].wait(PATIENCE) == 0, (tmp_path / f"{name}.log").read_text()[-3000:]
        url = f"http://127.0.0.1:{ports['metrics-compute'][0]}"
        with urllib.request.urlopen(f"{url}/healthz", timeout=PATIENCE) as reply:
            assert reply.status == 200
        with urllib.request.urlopen(f"{url}/status.json", timeout=PATIENCE) as reply:
            (run,) = json.load(reply)["runs"]
        assert (run["state"], run["purpose"]) == ("done", "A demonstration")
        shown = subprocess.check_output(
            [tools / "fedvalue", "status", "--home", tmp_path / "telco"], text=True
        )
        assert "A demonstration" in shown
        assert "next      Nothing: the run has ended with a result." in shown
        healthy = [tools / "fedvalue", "doctor", "--home", tmp_path / "shop"]
        assert "agreement        " in subprocess.check_output(healthy, text=True)
    finally:
        for process in running.values():
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
        for process in running.values():
            process.wait(PATIENCE)
        for _, reservation in ports.values():
            reservation.close()
    (result,) = (tmp_path / "bank").rglob("result.json")
    parties = {one["name"]: one["value"] for one in json.loads(result.read_bytes())["parties"]}
    assert set(parties) == {"telco", "shop"}
    assert all(value > 0 for value in parties.values())


def test_the_entry_point_gives_numba_a_writable_copy(tmp_path: Path) -> None:
    warm = tmp_path / "warm"
    warm.mkdir()
    (warm / "kernel").write_text("k")
    (tmp_path / "fedvalue").write_text('#!/bin/sh\necho "$@" "$(cat "$NUMBA_CACHE_DIR/kernel")"\n')
    (tmp_path / "fedvalue").chmod(0o755)
    environment = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "FEDVALUE_WARM_KERNELS": str(warm),
        "NUMBA_CACHE_DIR": str(tmp_path / "cache"),
    }
    for _ in range(2):
        done = subprocess.run(
            [DEPLOY / "entrypoint.sh", "serve", "compute"],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout == "serve compute k\n"


def rendered(text: str, values: dict[str, Any]) -> str:
    """The few things of Helm that the chart uses: a value, quoted or not."""

    def value(match: re.Match[str]) -> str:
        path, quote = match[1], match[2]
        found: Any = {"Values": values, "Release": {"Name": "demo"}}
        for key in path.strip(".").split("."):
            found = found[key]
        return json.dumps(found) if quote else str(found)

    done = re.sub(r"\{\{ (\.[\w.]+)( \| quote)? \}\}", value, text)
    assert "{{" not in done, "the chart uses more of Helm than this test renders"
    return done


def test_the_chart_renders_to_a_locked_down_server() -> None:
    values = load(CHART / "values.yaml")
    service, server = yaml.safe_load_all(rendered((CHART / "templates" / "server.yaml").read_text(), values))
    assert load(CHART / "Chart.yaml")["apiVersion"] == "v2"
    pod = server["spec"]["template"]["spec"]
    assert server["spec"]["replicas"] == 1
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["fsGroupChangePolicy"] == "OnRootMismatch"
    for container in (*pod["containers"], *pod["initContainers"]):
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        mounted = {one["name"] for one in container["volumeMounts"]}
        claims = {one["metadata"]["name"] for one in server["spec"]["volumeClaimTemplates"]}
        assert mounted <= claims | {one["name"] for one in pod["volumes"]}
    (container,) = pod["containers"]
    assert container["args"] == ["serve", "compute", "--listen", "0.0.0.0:7101"]
    assert container["ports"][0]["containerPort"] == service["spec"]["ports"][0]["port"] == 7101
    compile(container["readinessProbe"]["exec"]["command"][2], "probe", "exec")
    labels = server["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"] == server["spec"]["selector"]["matchLabels"] == labels


def test_the_systemd_units_are_valid() -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("needs systemd-analyze")
    units = sorted((DEPLOY / "systemd").iterdir())
    done = subprocess.run(
        ["systemd-analyze", "verify", *units], capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    complaints = [
        line
        for line in done.stderr.splitlines()
        if "fedvalue" in line and "is not executable" not in line  # /opt/fedvalue is not on this machine
    ]
    assert complaints == []
    service = (DEPLOY / "systemd" / "fedvalue-server@.service").read_text()
    assert "Type=notify" in service
    assert "WatchdogSec=" in service


@pytest.mark.parametrize("unit", ["fedvalue-server@.service", "fedvalue-backup@.service"])
def test_the_commands_of_the_units_exist(unit: str) -> None:
    text = (DEPLOY / "systemd" / unit).read_text()
    command = re.search(r"^ExecStart=\S+/fedvalue (.*)$", text, re.MULTILINE)
    assert command is not None
    words = command[1].replace("%i", "compute").split()
    names = [word for word in words if not word.startswith(("-", "/")) and not word.isdigit()]
    done = subprocess.run(
        [sys.executable, "-m", "fedvalue", *names, "--help"], capture_output=True, text=True, check=True
    )
    for option in [word for word in words if word.startswith("--")]:
        assert option in done.stdout


def test_the_dashboard_asks_for_metrics_that_exist() -> None:
    board = json.loads((DEPLOY / "grafana" / "fedvalue-servers.json").read_text())
    known = {family.name for family in Metrics().registry.collect()} | {"fedvalue_server"}
    asked = {
        name
        for panel in board["panels"]
        for target in panel["targets"]
        for name in re.findall(r"fedvalue_\w+", target["expr"])
    }
    assert asked
    assert {name.removesuffix("_total") for name in asked} <= known
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])


@pytest.mark.network
def test_systemd_hears_that_the_server_is_ready_and_alive(tmp_path: Path) -> None:
    from tests.support.town import Town

    town = Town(tmp_path / "town")
    folder = town.member("compute").folder
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as heard:
        heard.bind(str(tmp_path / "notify"))
        heard.settimeout(PATIENCE)
        process = subprocess.Popen(
            [sys.executable, "-m", "fedvalue", "serve", "compute", "--config", "server.toml"],
            cwd=folder, stderr=subprocess.DEVNULL,
            env={**os.environ, "NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "400000"},
        )  # fmt: skip
        try:
            assert heard.recv(200).startswith(b"READY=1")
            assert heard.recv(200) == b"WATCHDOG=1"
            process.terminate()
            # Read on: a socket that nobody reads is soon full, and keeps the server from ending.
            while heard.recv(200) != b"STOPPING=1":
                pass
            assert process.wait(PATIENCE) == 0
        finally:
            process.kill()
            process.wait(PATIENCE)


GUIDES = [DEPLOY.parent / "docs" / name for name in ("operate.md", "integrations.md")]


def guide_commands() -> list[list[str]]:
    blocks = [
        block for page in GUIDES for block in re.findall(r"```sh\n(.*?)```", page.read_text(), re.DOTALL)
    ]
    lines = [line.split("#")[0].split() for block in blocks for line in block.splitlines()]
    return [line[1:] for line in lines if line[:1] == ["fedvalue"]]


def test_the_guide_names_commands_and_options_that_exist() -> None:
    pages: dict[tuple[str, ...], str] = {}
    groups = {"audit": 2, "backup": 2}
    for words in guide_commands():
        name = tuple(words[: groups.get(words[0], 1)])
        if name not in pages:
            command = [sys.executable, "-m", "fedvalue", *name, "--help"]
            wide = {**os.environ, "COLUMNS": "200"}
            pages[name] = subprocess.check_output(command, text=True, env=wide)
        for option in [word for word in words if word.startswith("--")]:
            assert option in pages[name], (name, option)
    assert {("status",), ("doctor",), ("audit", "sign"), ("backup", "restore")} <= set(pages)


def test_the_guide_names_every_metric() -> None:
    families = {
        family.name + ("_total" if family.type == "counter" else "")
        for family in Metrics().registry.collect()
    }
    named = set(re.findall(r"`(fedvalue_\w+)`", GUIDES[0].read_text()))
    assert families | {"fedvalue_server_info"} - {"fedvalue_server"} <= named | {"fedvalue_server"}
    assert named <= families | {"fedvalue_server_info"}
