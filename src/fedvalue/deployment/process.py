"""How our commands prepare their process. Library functions do not change the process they run in."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import re
import resource
import signal
import threading
from pathlib import Path

_PR_SET_DUMPABLE = 4
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_M_ARENA_MAX = -8


def harden() -> None:
    """No core dumps (they would hold keys), new files for the owner only, no gRPC messages.

    gRPC writes addresses and TLS errors to stderr on its own; our log has what matters.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # Linux ignores that limit where dumps go to a program instead of a file, as on most distributions.
    # "Not dumpable" holds there too, and keeps other processes of the same user from reading our memory.
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    os.umask(0o077)
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")


def reuse_memory() -> None:
    """Keep the memory of a large message for the next one. For processes that handle many of them.

    glibc returns freed blocks of some megabytes to the system, and fetching and clearing their pages again
    costs more than the work on them. One arena then serves all threads: with one each, a server would grow
    by the number of threads times the size of a chunk. No effect without glibc.
    """
    with contextlib.suppress(OSError, AttributeError):
        libc = ctypes.CDLL("libc.so.6")
        libc.mallopt(_M_MMAP_THRESHOLD, 32 << 20)
        libc.mallopt(_M_TRIM_THRESHOLD, 128 << 20)
        libc.mallopt(_M_ARENA_MAX, 1)


def skip_loaded_objects() -> None:
    """Exempt everything loaded so far from garbage collection: it stays, and each pass would scan it."""
    gc.freeze()


def stop_on_signals() -> threading.Event:
    """An event that SIGTERM and SIGINT set."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    return stop


def peak_memory() -> int:
    """The largest resident memory of this process so far, in bytes."""
    status = Path("/proc/self/status")
    if status.exists():  # getrusage would count what the parent held when it started us
        return int(re.findall(r"VmHWM:\s+(\d+) kB", status.read_text())[0]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
