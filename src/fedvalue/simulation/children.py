"""Child processes of the demonstration, watched through their log files and always cleaned up."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fedvalue.errors import EngineError


@dataclass(slots=True)
class Child:
    """A process with its output in files."""

    name: str
    arguments: Sequence[str]
    folder: Path
    process: subprocess.Popen[bytes] | None = None
    _read: int = field(default=0)

    def start(self, cwd: Path | None = None) -> None:
        """Start, or start again, in `cwd` (the child's folder by default); output is appended."""
        # No secret is ever passed by argument or environment.
        with (self.folder / "out.log").open("ab") as out, (self.folder / "err.log").open("ab") as err:
            self.process = subprocess.Popen(  # noqa: S603  # our own interpreter and module
                [sys.executable, "-m", *self.arguments], stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                cwd=cwd or self.folder, env={**os.environ, "GRPC_VERBOSITY": "NONE"},
            )  # fmt: skip

    def kill(self) -> None:
        """Kill without a chance to clean up, as a power cut would."""
        if self.process is not None and self.running:
            self.process.kill()
            self.process.wait()

    def stop(self, seconds: float = 15.0) -> None:
        """Terminate, and kill after `seconds`."""
        if self.process is None or not self.running:
            return
        self.process.terminate()
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()

    @property
    def code(self) -> int | None:
        """The exit code; None before it starts and while it runs."""
        return None if self.process is None else self.process.poll()

    @property
    def running(self) -> bool:
        """Started, and not ended."""
        return self.process is not None and self.code is None

    def new_lines(self) -> list[str]:
        """Complete lines of stderr since the last call."""
        try:
            with (self.folder / "err.log").open("rb") as file:
                file.seek(self._read)
                data = file.read()
        except FileNotFoundError:
            return []
        whole = data[: data.rfind(b"\n") + 1]
        self._read += len(whole)
        return whole.decode(errors="replace").splitlines()

    def output(self) -> str:
        """Everything on stdout."""
        return (self.folder / "out.log").read_text(encoding="utf-8")

    def errors(self) -> str:
        """Everything on stderr."""
        return (self.folder / "err.log").read_text(encoding="utf-8")


class Children:
    """All processes of one demonstration; leaving the block stops them."""

    def __init__(self) -> None:
        self._children: list[Child] = []

    def add(self, child: Child) -> Child:
        """Stop this process at the end."""
        self._children.append(child)
        return child

    def __enter__(self) -> Children:
        return self

    def __exit__(self, *_: object) -> None:
        for child in self._children:
            if child.process is not None and child.running:
                child.process.terminate()
        for child in self._children:
            child.stop()


def wait_until(condition: Callable[[], bool], seconds: float, what: str) -> None:
    """Wait until a condition holds.

    Raises:
        EngineError: It did not hold within `seconds`.
    """
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise EngineError(f"{what} did not happen within {seconds:.0f} s")
        time.sleep(0.05)
