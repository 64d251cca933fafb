"""A Dask cluster as an executor: `with connect("tcp://host:8786") as executor: ...`.

Dask schedules; nothing here does. Before any work starts, the scheduler must answer and every worker must
have the same versions as this process: another fedvalue or NumPy could silently give other values.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from importlib import import_module, metadata
from typing import Any

from fedvalue.errors import EngineError


@contextmanager
def connect(address: str, *, timeout: float = 10.0) -> Iterator[Executor]:
    """An executor over a running Dask cluster, whose scheduler must answer within `timeout` seconds.

    Raises:
        EngineError: The extra is not installed, the scheduler cannot be reached or has no workers, or a
            worker has other versions.
    """
    try:
        distributed = import_module("distributed")
    except ImportError as error:
        raise EngineError(
            "a cluster needs Dask, which is not installed: pip install 'fedvalue[cluster]'"
        ) from error
    try:
        # A client with a malformed address would wait all the same, and print a traceback when deleted.
        distributed.comm.resolve_address(address)
    except (OSError, ValueError) as error:
        raise EngineError(
            f"cannot reach a Dask scheduler at {address}: expected an address such as tcp://host:8786"
        ) from error
    try:
        client = distributed.Client(address, timeout=timeout, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        raise EngineError(f"cannot reach a Dask scheduler at {address} within {timeout:g} s") from error
    try:
        check_workers(client, address)
        with client.get_executor(pure=False) as executor:
            yield executor
    finally:
        client.close()


def check_workers(client: Any, address: str = "the scheduler") -> None:
    """Refuse a cluster without workers, or with a worker that has other versions.

    Raises:
        EngineError: Naming the worker, its version and the expected one.
    """
    here = versions()
    # A module-level function travels by reference: a worker without fedvalue cannot load it, and says so.
    by_worker = client.run(versions, on_error="return")
    if not by_worker:
        raise EngineError(f"the cluster at {address} has no workers")
    for worker, there in sorted(by_worker.items()):
        if not isinstance(there, dict):
            raise EngineError(f"worker {worker} cannot run fedvalue: {there}")
        for name, expected in here.items():
            if there.get(name) != expected:
                raise EngineError(
                    f"worker {worker} has {name} {there.get(name)}, expected {expected} as on this machine"
                )


def versions() -> dict[str, str]:
    """Versions that a result depends on."""
    packages = {name: metadata.version(name) for name in ("fedvalue", "numpy", "numba")}
    return {"python": ".".join(platform.python_version_tuple()[:2]), **packages}
