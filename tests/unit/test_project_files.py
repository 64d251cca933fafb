"""Files around the package agree with each other."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_ci_runs_make_check_on_every_python_that_the_metadata_claims() -> None:
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    (matrix,) = re.findall(r"^ +python: \[(.+)\]$", workflow, flags=re.MULTILINE)
    claimed = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["project"]["classifiers"]))
    assert re.findall(r"3\.\d+", matrix) == claimed
    assert f">={claimed[0]}" == PROJECT["project"]["requires-python"]
    assert "run: make check\n" in workflow


def test_make_lock_writes_every_lock_that_is_kept() -> None:
    written = re.findall(r"-o (requirements/\w+\.txt)", (ROOT / "Makefile").read_text())
    assert sorted(written) == sorted(f"requirements/{path.name}" for path in ROOT.glob("requirements/*.txt"))


def test_shared_packages_have_one_version_in_all_locks() -> None:
    """docs.txt and release.txt are installed on top of dev.txt; the runtime lock is what was tested."""
    pins = {
        path.name: dict(re.findall(r"^([a-z0-9.-]+)==(\S+)", path.read_text(), flags=re.MULTILINE))
        for path in ROOT.glob("requirements/*.txt")
    }
    dev = pins.pop("dev.txt")
    assert len(dev) > 100
    for name, lock in pins.items():
        assert lock, name
        shared = lock.keys() & dev.keys()
        assert {package: lock[package] for package in shared} == {package: dev[package] for package in shared}
    assert pins["runtime.txt"].keys() <= dev.keys()
