"""Where work runs: one seam, `concurrent.futures.Executor`.

Long work (regions of the walk, permutations, subtrees of coalitions, files) is a list of tasks that
`map_in_order` hands to an executor. Threads of this machine are the default, because the kernels release the
interpreter lock: no start-up and no copies. A process pool and a Dask cluster are other executors. Tasks are
cut and merged in a fixed order, so results do not depend on the choice.
"""

from __future__ import annotations

from fedvalue.engines.executors import (
    HERE,
    Execution,
    ProcessEngine,
    Stop,
    map_in_order,
    n_cores,
    n_workers,
    plain_interrupts,
    share,
    thread_engine,
    using,
)

__all__ = [
    "HERE",
    "Execution",
    "ProcessEngine",
    "Stop",
    "map_in_order",
    "n_cores",
    "n_workers",
    "plain_interrupts",
    "share",
    "thread_engine",
    "using",
]
