"""Response time of a command: its help, and a valuation with an empty and a full kernel cache."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from harness import Row

FIRST_ANSWER, WARM_ANSWER = 4.0, 0.8
"""CPU seconds of `fedvalue value` on Wine: with an empty kernel cache, and later."""


def _cpu(argv: list[str], repeat: int = 10, **environment: str) -> float:
    best = float("inf")
    for _ in range(repeat):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(argv, check=True, capture_output=True, env={**os.environ, **environment})
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
        target="at most 0.15 s of CPU more",
        met=extra <= 0.15,
        note=f"{extra:.3f} s of CPU more ({help_text:.3f} s against {bare:.3f} s)",
    )
    with tempfile.TemporaryDirectory() as folder:
        command = _wine_command(Path(folder))
        cache = {"NUMBA_CACHE_DIR": str(Path(folder) / "kernels")}
        first = _cpu(command, 1, **cache)
        warm = _cpu(command, 5, **cache)
    for what, took, limit in (
        ("first fedvalue value, empty kernel cache", first, FIRST_ANSWER),
        ("fedvalue value, warm", warm, WARM_ANSWER),
    ):
        yield Row(
            work=f"{what}: Wine, 3 parties, all statistics",
            against="python -c pass",
            ratio=took / bare,
            target=f"at most {limit:g} s of CPU",
            met=took <= limit,
            note=f"{took:.2f} s of CPU",
        )


def _wine_command(folder: Path) -> list[str]:
    """`fedvalue value` on Wine: 13 features, three parties."""
    from sklearn.datasets import load_wine

    frame = load_wine(as_frame=True).frame
    features = [name for name in frame if name != "target"]
    path = folder / "wine.csv"
    frame.to_csv(path, index=False)
    parties = (f"--party={name}={','.join(features[k::3])}" for k, name in enumerate(("a", "b", "c")))
    command = [sys.executable, "-m", "fedvalue", "value", str(path)]
    return [*command, "--label", "target", *parties, "--json", "-"]
