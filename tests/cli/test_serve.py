"""`fedvalue serve` as a process: what must hold before it serves anybody."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

WATCHED = """
import importlib.abc, os, sys

class Watch(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "numpy":
            print("threads:", os.environ.get("OPENBLAS_NUM_THREADS"))

sys.meta_path.insert(0, Watch())
sys.argv = ["fedvalue", "serve", "compute", "--config", sys.argv[1]]
from fedvalue.cli import main
main()
"""


def test_a_server_multiplies_in_one_thread_from_the_moment_numpy_is_loaded(tmp_path: Path) -> None:
    """OpenBLAS reads the variable when it is loaded; set later, `gram` takes five times the CPU."""
    config = tmp_path / "server.toml"
    config.write_text('listen = "127.0.0.1:0"\nidentity = "identity"\npeers = "peers"\nstate = "state"\n')
    ran = subprocess.run(
        [sys.executable, "-c", WATCHED, str(config)],
        capture_output=True, text=True, check=False, timeout=60, env={"PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    assert ran.stdout.splitlines()[:1] == ["threads: 1"], ran.stderr
    assert "cannot read" in ran.stderr  # the identity, which a server reads next
