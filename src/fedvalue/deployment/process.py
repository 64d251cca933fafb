"""How our commands prepare their process. Library functions do not change the process they run in."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import re
import resource
import signal
import socket
import sys
import threading
from collections.abc import Callable
from pathlib import Path

_PR_SET_DUMPABLE = 4
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_MMAP_BYTES, _TRIM_BYTES = 32 << 20, 128 << 20
_M_ARENA_MAX = -8
_HANDSHAKE = re.compile(r"Handshake failed with error (?:SSL_ERROR_\w+: )?(.*)")
_GRPC_LINE = re.compile(r"[IWEF]\d{4} |(?:WARNING|E0000|I0000): ")


def harden() -> None:
    """No core dumps (they would hold keys), new files readable by the owner only, no gRPC messages.

    gRPC writes addresses and TLS errors to stderr; our log has the ones that matter.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # Linux ignores that limit where dumps go to a program instead of a file, as on most distributions. "Not
    # dumpable" works there too, and keeps other processes of the same user from reading our memory.
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    os.umask(0o077)
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")


def reuse_memory() -> None:
    """Reuse the memory of large messages, in processes that handle many of them.

    glibc returns freed blocks of some megabytes to the system, and fetching and clearing their pages again
    costs more than the work on them. One arena then serves all threads: with one each, a server would grow by
    the number of threads times the size of a chunk. No effect without glibc.
    """
    with contextlib.suppress(OSError, AttributeError):
        libc = ctypes.CDLL("libc.so.6")
        libc.mallopt(_M_MMAP_THRESHOLD, _MMAP_BYTES)
        libc.mallopt(_M_TRIM_THRESHOLD, _TRIM_BYTES)
        libc.mallopt(_M_ARENA_MAX, 1)


def page_in(n_bytes: int) -> None:
    """Fetch memory from the system ahead of time, in a process that keeps it (`reuse_memory`).

    A party does so while it waits for the others: the first touch of its work's memory costs nearly half as
    much as the work. Does nothing for amounts that glibc would not keep.
    """
    import numpy as np

    if n_bytes < _TRIM_BYTES:
        blocks = [np.ones(_MMAP_BYTES // 2, dtype=np.uint8) for _ in range(2 * n_bytes // _MMAP_BYTES)]
        del blocks


def multiply_in_one_thread() -> None:
    """One thread per matrix product, unless the operator asks for more. Call it before NumPy is loaded.

    The products of `gram` are small and many: threads of one product would mostly wait for each other, on
    processors that other runs need.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def skip_loaded_objects() -> None:
    """Exempt all objects loaded so far from garbage collection: they stay, and each pass would scan them."""
    gc.freeze()


class HandshakeWatch:
    """Reads gRPC's messages about failed handshakes, which never reach our code.

    As a context manager around a server: file descriptor 2 becomes a pipe. Failures are passed to `notify`,
    and everything that gRPC did not write goes on to stderr. Python's own stderr is not affected. Enter it
    before gRPC is loaded.
    """

    def __init__(self) -> None:
        self.notify: Callable[[str], object] = lambda reason: None

    def __enter__(self) -> HandshakeWatch:
        os.environ["GRPC_VERBOSITY"] = "INFO"
        sys.stderr.flush()
        self._original, self._stderr = os.dup(2), sys.stderr
        sys.stderr = os.fdopen(os.dup(2), "w", buffering=1, errors="backslashreplace")
        reading, writing = os.pipe()
        os.dup2(writing, 2)
        os.close(writing)
        self._thread = threading.Thread(target=self._read, args=(reading,), name="grpc log", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        os.dup2(self._original, 2)  # closes the pipe's last writing end
        self._thread.join(2.0)
        sys.stderr.flush()
        sys.stderr = self._stderr
        os.close(self._original)

    def _read(self, reading: int) -> None:
        with os.fdopen(reading, "r", errors="backslashreplace") as lines:
            for line in lines:
                if failure := _HANDSHAKE.search(line):
                    self.notify(failure[1].strip())
                elif not _GRPC_LINE.match(line):
                    with contextlib.suppress(OSError):
                        os.write(self._original, line.encode())


def stop_on_signals() -> threading.Event:
    """An event that SIGTERM and SIGINT set.

    A thread of its own reads the signals from a pipe and sets the event. Handlers could not do it: Python
    runs them in the main thread, which waits on if the system interrupts another thread with the signal. And
    one that interrupts `stop.wait()` while that holds the event's lock would wait for the lock for ever.
    """
    stop = threading.Event()
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)

    def set_on_signal() -> None:
        os.read(reading, 1)
        stop.set()

    threading.Thread(target=set_on_signal, name="signals", daemon=True).start()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    return stop


def tell_systemd(message: str) -> bool:
    """Send a state (`READY=1`, `WATCHDOG=1`) to systemd; False where it did not start us."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return False
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.sendto(message.encode(), "\0" + address[1:] if address.startswith("@") else address)
        return True
    return False


def watchdog_seconds() -> float | None:
    """Seconds between signs of life to systemd's watchdog: half its time-out; None without a watchdog."""
    if os.environ.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return None
    try:
        return int(os.environ["WATCHDOG_USEC"]) / 2e6
    except (KeyError, ValueError):
        return None


def peak_memory() -> int:
    """The largest resident memory of this process so far, in bytes."""
    status = Path("/proc/self/status")
    if status.exists():  # getrusage would include the parent's memory at the time of the fork
        return int(re.findall(r"VmHWM:\s+(\d+) kB", status.read_text())[0]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
