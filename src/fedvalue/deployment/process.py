"""What every process of ours does first: hide its memory and files from other users."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import resource
from pathlib import Path

_PR_SET_DUMPABLE = 4
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_M_ARENA_MAX = -8


def harden() -> None:
    """No core dumps (they would hold keys), new files for the owner only, quiet gRPC.

    gRPC writes addresses and TLS errors to stderr on its own; our log says what matters.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # Linux ignores that limit where dumps go to a program instead of a file, as on most distributions.
    # Not dumpable holds there too, and keeps other processes of the same user from reading our memory.
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    os.umask(0o077)
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")


def reuse_memory() -> None:
    """Keep the memory of a large message for the next one. Servers, and runs of all roles in one process.

    glibc gives blocks of some megabytes back to the system as they are freed, and to fetch and clear
    their pages again costs more than what is then done with them. In return one arena serves all
    threads: with one for each, a server would grow by the number of threads times the size of a chunk.
    Elsewhere this does nothing.
    """
    with contextlib.suppress(OSError, AttributeError):
        libc = ctypes.CDLL("libc.so.6")
        libc.mallopt(_M_MMAP_THRESHOLD, 32 << 20)
        libc.mallopt(_M_TRIM_THRESHOLD, 128 << 20)
        libc.mallopt(_M_ARENA_MAX, 1)


def peak_memory() -> int:
    """The largest resident memory of this process so far, in bytes."""
    status = Path("/proc/self/status")
    if status.exists():  # getrusage would count what the parent held when it started us
        return int(re.findall(r"VmHWM:\s+(\d+) kB", status.read_text())[0]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
