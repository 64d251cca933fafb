"""Where work runs: one seam, `concurrent.futures.Executor`.

Everything that repeats (blocks of the walk, permutations, bootstrap draws, files) is a list of
tasks that goes through `map_in_order`. Threads of this machine are the default, because the
kernels release the interpreter lock: no start-up and no copies. A process pool and a Dask cluster
are other executors; results do not depend on the choice.
"""

from __future__ import annotations

from fedvalue.engines.local import ProcessEngine, n_cores, thread_engine
from fedvalue.engines.ordered import map_in_order, n_workers, share, using
from fedvalue.engines.stop import Stop

__all__ = [
    "ProcessEngine",
    "Stop",
    "map_in_order",
    "n_cores",
    "n_workers",
    "share",
    "thread_engine",
    "using",
]
