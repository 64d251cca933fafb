"""The bridges in integrations/, each against the real package where it is installed.

The framework may live in another environment: FEDVALUE_TEST_NVFLARE, FEDVALUE_TEST_FLOWER and
FEDVALUE_TEST_VANTAGE6 name a Python that has it. A test without its framework is skipped.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.processes import PATIENCE
from tests.support.town import TASK, Town, values_of

pytestmark = pytest.mark.network
BRIDGES = Path(__file__).parents[2] / "integrations"
SITES = (TASK, "telco", "shop")


def python_with(module: str, variable: str) -> str:
    """A Python that has a framework; skips the test where there is none."""
    program = os.environ.get(variable, sys.executable)
    found = subprocess.run([program, "-c", f"import {module}"], capture_output=True, check=False, cwd="/")
    if found.returncode:
        pytest.skip(f"{module} is not installed; {variable} may name a Python that has it")
    return program


@pytest.fixture
def town(tmp_path: Path) -> Iterator[Town]:
    """Both servers run; every site has its folder, as an operator would set it up."""
    found = Town(tmp_path / "sites").start()
    folder = found.member(TASK).folder
    (folder / "party.toml").rename(folder / "task.toml")
    yield found
    found.stop()


def environment(town: Town, **more: str) -> dict[str, str]:
    own = {"FEDVALUE_SITE": str(town.root), "FEDVALUE_COMMAND": f"{sys.executable} -m fedvalue"}
    return {**os.environ, **own, **more}


def check_values(town: Town) -> None:
    logs = [(town.member(name).folder / "fedvalue.log").read_text()[-1500:] for name in SITES]
    assert values_of(town.result()) == pytest.approx(town.values, abs=1e-9), logs


def test_the_launcher_runs_every_role_and_tells_only_how_it_ended(town: Town) -> None:
    """What the bridges share, without any framework."""
    code = "import sys; sys.path.insert(0, sys.argv[1]); import json, fedvalue_site as s; "
    code += "print(json.dumps(s.take_part(sys.argv[2])))"
    started = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(BRIDGES), name],
            env=environment(town),
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in SITES
    ]
    ends = [json.loads(one.communicate(timeout=PATIENCE)[0]) for one in started]
    assert [one["exit_code"] for one in ends] == [0, 0, 0]
    assert [one["role"] for one in ends] == ["run", "join", "join"]
    assert {key for one in ends for key in one} == {"site", "role", "exit_code"}
    check_values(town)


def test_every_bridge_carries_the_same_launcher() -> None:
    shared = (BRIDGES / "fedvalue_site.py").read_bytes()
    for copy in ("flower/fedvalue_app", "vantage6/v6_fedvalue"):
        assert (BRIDGES / copy / "fedvalue_site.py").read_bytes() == shared


def test_a_site_without_a_configuration_is_named(tmp_path: Path) -> None:
    code = "import sys; sys.path.insert(0, sys.argv[1]); import fedvalue_site as s; s.take_part('x')"
    done = subprocess.run(
        [sys.executable, "-c", code, str(BRIDGES)], env={**os.environ, "FEDVALUE_SITE": str(tmp_path)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "neither task.toml nor party.toml" in done.stderr


def test_nvflare_in_its_simulator(town: Town, tmp_path: Path) -> None:
    program = python_with("nvflare", "FEDVALUE_TEST_NVFLARE")
    done = subprocess.run(
        [program, BRIDGES / "nvflare" / "job.py", *SITES, "--workspace", tmp_path / "nvflare"],
        env=environment(town), capture_output=True, text=True, timeout=300, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    check_values(town)


def test_flower_in_its_simulation(town: Town, tmp_path: Path) -> None:
    program = python_with("flwr.simulation, ray", "FEDVALUE_TEST_FLOWER")
    code = (
        "from flwr.simulation import run_simulation\n"
        "from fedvalue_app.client import app as client\n"
        "from fedvalue_app.server import app as server\n"
        "run_simulation(server, client, num_supernodes=3,"
        " backend_config={'client_resources': {'num_cpus': 0.5, 'num_gpus': 0.0}})\n"
    )
    app = BRIDGES / "flower"
    done = subprocess.run(
        [program, "-c", code], env=environment(town, PYTHONPATH=str(app)),
        capture_output=True, text=True, timeout=300, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    check_values(town)


def test_flower_builds_the_app(tmp_path: Path) -> None:
    """`flwr build` validates the configuration of FAB format 1 and packs every file that the app needs."""
    program = python_with("flwr", "FEDVALUE_TEST_FLOWER")
    shutil.copytree(BRIDGES / "flower", tmp_path / "app")
    command = [Path(program).parent / "flwr", "build", "--app", "app"]
    subprocess.run(command, capture_output=True, check=True, cwd=tmp_path)
    (packed,) = tmp_path.glob("*.fab")
    with zipfile.ZipFile(packed) as files:
        assert {"fedvalue_app/client.py", "fedvalue_app/server.py", "fedvalue_app/fedvalue_site.py"} <= set(
            files.namelist()
        )


def test_vantage6s_wrapper_starts_every_node(town: Town, tmp_path: Path) -> None:
    """The files and variables that a node gives to an algorithm container."""
    program = python_with("vantage6.algorithm.tools.wrap", "FEDVALUE_TEST_VANTAGE6")
    (tmp_path / "input").write_text(json.dumps({"method": "value"}))
    started = []
    for name in SITES:
        given = {
            "INPUT_FILE": str(tmp_path / "input"), "OUTPUT_FILE": str(tmp_path / f"{name}.out"),
            "FEDVALUE_DATABASE_URI": str(town.member(name).folder), "NODE_NAME": name,
        }  # fmt: skip
        own = environment(town, PKG_NAME="v6_fedvalue", PYTHONPATH=str(BRIDGES / "vantage6"), **given)
        code = "from vantage6.algorithm.tools.wrap import wrap_algorithm; wrap_algorithm()"
        started.append(subprocess.Popen([program, "-c", code], env=own, cwd=tmp_path))
    assert [one.wait(PATIENCE) for one in started] == [0, 0, 0]
    for name in SITES:
        assert json.loads((tmp_path / f"{name}.out").read_text())["exit_code"] == 0
    check_values(town)
