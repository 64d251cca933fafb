"""A TCP proxy that misbehaves: delays, resets, half-open connections, partitions.

It sees TLS records only and cannot read or change a message; it can do what a bad network does.
"""

from __future__ import annotations

import math
import random
import socket
import struct
import threading
import time


class FaultProxy:
    """Stands before one address. Its faults can be changed while it runs.

    Args:
        target: host:port behind it.
        delay: Seconds by which every piece is held back.
        reset: Chance per piece that the connection is reset.
        jitter: Every piece is held back by a random time up to this, so that what is sent over one
            connection overtakes what was sent earlier over another.
        seed: Of the chances.

    It counts: `resets`, connections `refused` in a partition, pieces `held` in silence, bytes `passed`.
    """

    def __init__(
        self, target: str, *, delay: float = 0.0, reset: float = 0.0, jitter: float = 0.0, seed: int = 0
    ) -> None:
        host, _, port = target.rpartition(":")
        self._target = (host, int(port))
        self._rng = random.Random(seed)
        self.delay, self.reset, self.jitter = delay, reset, jitter
        self.partitioned = False
        self.silent = False
        self.silent_after = math.inf
        self.resets = 0
        self.refused = 0
        self.passed = 0
        self.held = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._open: set[socket.socket] = set()
        self._frozen: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._closed = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Reset every connection that is open now."""
        with self._lock:
            for one in list(self._open):
                _abort(one)

    def freeze(self) -> int:
        """Half-open for good: what is open now carries neither data nor an end any more. How many."""
        with self._lock:
            self._frozen |= self._open
            return len(self._open)

    def close(self) -> None:
        self._closed.set()
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        while not self._closed.is_set():
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            if self.partitioned:
                self.refused += 1
                _abort(near)
                continue
            try:
                far = socket.create_connection(self._target)
            except OSError:
                _abort(near)
                continue
            with self._lock:
                self._open |= {near, far}
            for a, b in ((near, far), (far, near)):
                threading.Thread(target=self._pump, args=(a, b), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        try:
            while data := source.recv(65536):
                if self.delay or self.jitter:
                    time.sleep(self.delay + self.jitter * self._rng.random())
                with self._lock:  # one thread alone: a second one would silence the line once more, for good
                    if self.passed > self.silent_after:
                        self.silent, self.silent_after = True, math.inf
                self.held += self.silent
                while (self.silent or source in self._frozen) and not self._closed.is_set():
                    time.sleep(0.05)  # half open: neither data nor an end
                if self.partitioned or self._rng.random() < self.reset:
                    self.resets += 1
                    break
                sink.sendall(data)
                self.passed += len(data)
        except OSError:
            pass
        finally:
            for one in (source, sink):
                _abort(one)
                with self._lock:
                    self._open.discard(one)


def _abort(one: socket.socket) -> None:
    """End a connection with a reset instead of a polite close."""
    try:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        one.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
    one.close()
