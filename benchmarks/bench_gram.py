"""`gram` over mutual TLS on loopback against `mirror`: three servers, six parties, each its own process.

Times are from the first declaration of an upload, by the computation server's log, until the task party
has written its values: under `gram` it computes them itself.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench_deployment import DATA, federated, make_tables
from harness import Row, at_most

GRAM = {"protocol": "gram", "epsilon": "1"}


def rows() -> Iterator[Row]:
    """One row per claim."""
    with tempfile.TemporaryDirectory(prefix="fedvalue-bench-") as folder:
        yield from _one_feature(Path(folder))
    with tempfile.TemporaryDirectory(prefix="fedvalue-bench-") as folder:
        yield _five_features(Path(folder))


def _one_feature(root: Path, small: int = 100_000, large: int = 1_000_000) -> Iterator[Row]:
    for n in (small, large):
        make_tables(root / str(n), n)
    (mirror,) = federated(root / str(large) / "mirror", large)
    before, after = (federated(root / str(n) / "gram", n, **GRAM)[0] for n in (small, large))
    size = f"{len(DATA) + 1} parties x 1 feature x {large:,} rows"
    note = (
        f"{size}: {after.values:.1f} s against {mirror.values:.1f} s; "
        f"{after.upload_cpu:.1f} against {mirror.upload_cpu:.1f} s of CPU until the servers are done"
    )
    yield at_most("gram over mTLS, upload to values", "mirror", after.values / mirror.values, 15, note)
    note = f"{before.resident / 2**20:.0f} MiB at {small:,} rows, {after.resident / 2**20:.0f} at {large:,}"
    memory = after.resident / before.resident
    yield at_most("gram, server memory, 10^5 to 10^6 rows", "the smaller run", memory, 1.2, note)


def _five_features(root: Path, n: int = 100_000) -> Row:
    make_tables(root, n, features=5)
    (run,) = federated(root / "run", n, **GRAM)
    size = f"{len(DATA) + 1} parties x 5 features x {n:,} rows"
    note = f"{size}: {run.values:.1f} s, {run.upload_cpu:.1f} s of CPU until the servers are done"
    return at_most("gram over mTLS, upload to values", "60 seconds", run.values / 60, 1, note)
