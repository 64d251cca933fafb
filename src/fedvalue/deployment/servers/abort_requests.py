"""Requests of an operator to end a run: files in the state folder, because the server is another process."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterator
from pathlib import Path

from fedvalue.deployment.servers.server_store import ServerStore
from fedvalue.errors import ConfigError, InputError, TransportError
from fedvalue.storage.durable_files import write_durably

_FOLDER = "abort"
_LEAST_DIGITS = 6


def aborted_by_operator() -> TransportError:
    """The error of a run that an operator has ended."""
    return TransportError("the operator of this server has ended the run", code="E_ABORTED")


def requests(state: Path) -> Iterator[tuple[bytes, Path]]:
    """The runs to end, each with the file that asks for it."""
    for path in (state / _FOLDER).glob("*"):
        if re.fullmatch("[0-9a-f]{64}", path.name):
            yield bytes.fromhex(path.name), path


def abort_run(state: Path, wanted: str, *, patience: float = 10.0) -> tuple[bytes, str]:
    """Ask the server of this state folder to end a run.

    Args:
        state: The server's state folder.
        wanted: The run's id, hex, or its first digits.
        patience: Seconds to wait for the server.

    Returns:
        The run, and its state: "failed" or "done" when it is over; otherwise the server is not running, and
        ends the run when it starts.

    Raises:
        ConfigError: Not a server's state folder.
        InputError: No such run, or more than one.
    """
    if not (state / "server.sqlite").is_file():
        raise ConfigError(f"{state} is not the state folder of a server: it has not been started yet")
    store = ServerStore(state)
    try:
        run_id = _find(store, wanted)
        end = time.monotonic() + patience
        if _state(store, run_id) not in ("done", "failed"):
            write_durably(state / _FOLDER / run_id.hex(), b"")
        while (reached := _state(store, run_id)) not in ("done", "failed") and time.monotonic() < end:
            time.sleep(0.1)
        return run_id, reached
    finally:
        store.close()


def _state(store: ServerStore, run_id: bytes) -> str:
    row = store.run(run_id)
    assert row is not None
    return row.state


def _find(store: ServerStore, wanted: str) -> bytes:
    if not re.fullmatch(f"[0-9a-f]{{{_LEAST_DIGITS},64}}", wanted):
        raise InputError(f"a run is named by at least {_LEAST_DIGITS} hex digits of its id, got {wanted!r}")
    found = [row.run_id for row in store.runs() if row.run_id.hex().startswith(wanted)]
    if len(found) == 1:
        return found[0]
    active = ", ".join(row.run_id.hex()[:12] for row in store.runs("open", "running")) or "none"
    what = "more than one run" if found else "no run"
    raise InputError(f"{what} here begins with {wanted}; active runs: {active}", code="E_RUN")


def forget(request: Path) -> None:
    """Remove a request that was carried out."""
    with contextlib.suppress(OSError):
        request.unlink()
