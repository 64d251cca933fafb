"""Shared by all tests: the hypothesis profile, what is skipped where something is missing, a database."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from tests.support.postgres import PostgresServer

# Derandomised: a red build is red again on the next machine. Numba compiles inside the first
# example, so hypothesis' own deadline says nothing about our code.
settings.register_profile(
    "fedvalue", deadline=None, derandomize=True, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile(
    "explore", parent=settings.get_profile("fedvalue"), derandomize=False, max_examples=2000
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fedvalue"))


def pytest_sessionstart(session: pytest.Session) -> None:
    """Compile once before tests run side by side, and not in every process that they start at once.

    All kernels: a server that finds some missing compiles all of them in a process beside it, and the tests
    start dozens of servers.
    """
    if getattr(session.config.option, "numprocesses", None):
        from fedvalue.federated.warm_up import compile_everything, is_compiled, warm_up

        if is_compiled():
            warm_up(values=True)
        else:
            compile_everything(lambda done, total, note="": None)


def data_folder() -> Path | None:
    """The folder with the paper's six data sets, where there is one."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ["FEDVALUE_DATA"]) if "FEDVALUE_DATA" in os.environ else beside
    return folder if (folder / "spect.csv").is_file() else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    no_data = pytest.mark.skip(reason="the data sets that no package ships are not here; set FEDVALUE_DATA")
    no_browser = pytest.mark.skip(reason="no chromium on this machine")
    for item in items:
        if "data" in item.keywords and data_folder() is None:
            item.add_marker(no_data)
        if "browser" in item.keywords and not (shutil.which("chromium") or shutil.which("chromium-browser")):
            item.add_marker(no_browser)


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A running PostgreSQL server, or a skip where none is installed."""
    pytest.importorskip("adbc_driver_postgresql")
    from tests.support.postgres import postgres_server, server_binaries

    binaries = server_binaries()
    if binaries is None:
        pytest.skip("no PostgreSQL server on this machine: install the package `postgresql`")
    with postgres_server(binaries) as server:
        yield server
