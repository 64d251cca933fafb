"""Compiled kernels find a place also where the installation and the home cannot be written."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest

from fedvalue.cli import kernels


@pytest.fixture
def environment():
    with mock.patch.dict(os.environ):
        os.environ.pop("NUMBA_CACHE_DIR", None)
        yield os.environ


def test_a_process_that_can_write_nowhere_gets_a_folder_of_its_own(tmp_path, monkeypatch, environment):
    file = tmp_path / "file"
    file.touch()
    monkeypatch.setattr(kernels, "_usual_folders", lambda: (file, file / "numba"))
    kernels.keep_kernels()
    folder = Path(environment["NUMBA_CACHE_DIR"])
    assert folder.is_dir()
    assert folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("usual", [".", "cache/numba"])
def test_a_usual_folder_is_left_to_numba(tmp_path, monkeypatch, environment, usual):
    """One that exists, and one that can be made."""
    file = tmp_path / "file"
    file.touch()
    monkeypatch.setattr(kernels, "_usual_folders", lambda: (file, tmp_path / usual))
    kernels.keep_kernels()
    assert "NUMBA_CACHE_DIR" not in environment


def test_the_operators_folder_stands(environment):
    environment["NUMBA_CACHE_DIR"] = "/var/cache/fedvalue"
    kernels.keep_kernels()
    assert environment["NUMBA_CACHE_DIR"] == "/var/cache/fedvalue"


def test_a_first_valuation_loads_neither_the_compiler_nor_pandas(tmp_path):
    """Both take half a second, and a small table needs neither."""
    table = tmp_path / "table.csv"
    table.write_text(
        "x,y,label\n" + "".join(f"{k % 3},{k % 5},{k % 2}\n" for k in range(200)), encoding="utf-8"
    )
    program = (
        "import sys\nfrom fedvalue.cli import main\n"
        f"sys.argv = 'fedvalue value {table} --label label --party a=x --party b=y'.split()\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code\n"
        "print('loaded:', *[name for name in ('numba', 'pandas', 'scipy') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "loaded:"
