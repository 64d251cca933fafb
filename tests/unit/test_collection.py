"""Collecting the tests does no work, so that running one of them starts at once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_collecting_all_tests_compiles_no_kernel(tmp_path: Path) -> None:
    """A protocol run or a valuation at import time would leave compiled kernels behind."""
    outer = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", "tests"]
    collected = subprocess.run(
        command, cwd=ROOT, env=outer | {"NUMBA_CACHE_DIR": str(tmp_path)}, capture_output=True, text=True,
        timeout=600, check=False,
    )  # fmt: skip
    assert collected.returncode == 0, collected.stdout[-2000:]
    assert f"{Path(__file__).relative_to(ROOT)}::" in collected.stdout
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
