"""`fedvalue --help` must start at once: CPU time over `python -c pass`."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Iterator

from harness import Row


def _cpu(argv: list[str]) -> float:
    best = float("inf")
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(argv, check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        best = min(best, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return best


def rows() -> Iterator[Row]:
    bare = _cpu([sys.executable, "-c", "pass"])
    help_text = _cpu([sys.executable, "-m", "fedvalue", "--help"])
    extra = help_text - bare
    yield Row(
        work="fedvalue --help",
        against="python -c pass",
        ratio=help_text / bare,
        target="at most 0.3 s of CPU more",
        met=extra <= 0.3,
        note=f"{extra:.3f} s of CPU more ({help_text:.3f} s against {bare:.3f} s)",
    )
