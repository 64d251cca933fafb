"""The program of a `ValuationProcess`: values jobs until its server closes the socket or is gone.

    python -m fedvalue.deployment.servers.valuation_worker SOCKET|compile

With `compile` it fills the cache of compiled kernels at low priority and ends.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING

from fedvalue.deployment import process
from fedvalue.deployment.servers.server_role import valuer_of
from fedvalue.deployment.servers.valuation_process import Failure
from fedvalue.errors import FedValueError

if TYPE_CHECKING:
    from fedvalue.deployment.servers.valuation_process import Job
    from fedvalue.protocol.outcome import Answer

_PARENT_SECONDS = 1.0
"""How often to look whether the server is still there."""


def main() -> None:
    """Value jobs. Signals to stop are for the server, which ends us or is gone soon.

    A service manager sends them to all processes of a service. A valuation that died of one would end a run
    that the next start of the server continues.
    """
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    process.harden()
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    if sys.argv[1] == "compile":
        from fedvalue.federated.warm_up import compile_everything

        os.nice(15)
        compile_everything(lambda done, total, note="": None)
        return
    connection = Connection(int(sys.argv[1]))
    while True:
        try:
            job = connection.recv()
        except EOFError:
            return
        connection.send(_reply(job))


def _reply(job: Job) -> Answer | Failure:
    try:
        return valuer_of(job.manifest)(job.counts, job.run)
    except FedValueError as error:
        return Failure(type(error).__name__, str(error), error.code)
    except MemoryError:
        return Failure("EngineError", "the valuation needs more memory than there is", "E_ENGINE")
    except Exception as error:  # noqa: BLE001  # a bug of ours ends one run, not the server
        return Failure("EngineError", f"an error inside the valuation: {type(error).__name__}", "E_ENGINE")


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_PARENT_SECONDS)
    os._exit(1)


if __name__ == "__main__":
    main()
