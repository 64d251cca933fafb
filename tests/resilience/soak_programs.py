"""The processes of the soak: real servers and parties, on disks that may be slow and lines that repeat."""

from __future__ import annotations

import json
import random
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import fedvalue.deployment.network.rpc_server
import fedvalue.deployment.servers.relay_server  # noqa: F401  # loaded before the disk is made slow
from fedvalue.deployment.config import read_party_config, read_server_config
from fedvalue.deployment.network.rpc_client import ServerClient
from fedvalue.deployment.parties.party_process import take_part
from fedvalue.deployment.parties.party_run import NOT_FINAL
from fedvalue.deployment.servers.server_process import serve
from fedvalue.errors import FedValueError
from fedvalue.storage.database import Database
from fedvalue.storage.durable_files import write_durably

SLOW_SECONDS = 0.2
"""Longest wait of a commit on a slow disk."""
REPEATED = 0.1
"""Chance that a message is sent a second time."""
AGAIN = (*NOT_FINAL, "E_LOCKED")
"""Ends after which the same command is started again, as a person or a service manager does."""


def server(config: str, role: str, slow: str) -> None:
    """`fedvalue serve`."""
    _slow_disk(Path(slow))
    from fedvalue.deployment import process

    serve(read_server_config(Path(config)), role, stop=process.stop_on_signals())


def party(folder: str, role: str, runs: tuple[str, ...], ends: str, slow: str) -> None:
    """All runs of one party at once, each started again until it has ended; its end goes to a file."""
    _slow_disk(Path(slow))
    _repeat_packets()
    threads = [
        threading.Thread(target=_one_run, args=(Path(folder), role, run, Path(ends) / f"{run}.json"))
        for run in runs
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _one_run(folder: Path, role: str, run: str, end: Path) -> None:
    while not end.exists():
        try:
            valuation = take_part(read_party_config(folder / f"party-{run}.toml"), role)
            values = {} if valuation is None else {one.name: one.value for one in valuation.parties}
            found: dict[str, Any] = {"end": "value", "values": values}
        except FedValueError as error:
            if error.code in AGAIN:
                time.sleep(1.0)
                continue
            found = {"end": error.code, "reason": str(error)}
        except Exception as error:  # what the soak is looking for
            found = {"end": "UNTYPED", "reason": repr(error)}
        write_durably(end, json.dumps(found).encode())


def _slow_disk(mark: Path) -> None:
    commit = Database.transaction

    @contextmanager
    def slow(self: Database) -> Any:
        with commit(self) as db:
            yield db
            if mark.exists():
                time.sleep(random.random() * SLOW_SECONDS)

    Database.transaction = slow  # type: ignore[method-assign,assignment]


def _repeat_packets() -> None:
    post = ServerClient.post

    def twice(self: ServerClient, *arguments: Any) -> Any:
        if random.random() < REPEATED:
            post(self, *arguments)
        return post(self, *arguments)

    ServerClient.post = twice  # type: ignore[method-assign]
