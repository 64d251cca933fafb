"""Retries: exponential backoff with jitter, within a deadline.

Clock, sleep and randomness are parameters, so that tests do not wait.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from fedvalue.errors import TransportError

T = TypeVar("T")


class Retry(Exception):  # noqa: N818
    """Raised by a call that may be tried again; `cause` is reported when time is up."""

    def __init__(self, cause: TransportError) -> None:
        super().__init__(str(cause))
        self.cause = cause


@dataclass(frozen=True, slots=True)
class Backoff:
    """How long to wait between attempts.

    Args:
        first: Seconds before the second attempt.
        factor: Growth from attempt to attempt.
        longest: No wait is longer.
        rng: Source of the jitter, which spreads clients that failed together; not secret.
        sleep: Waits.
        clock: Monotonic seconds.
    """

    first: float = 0.05
    factor: float = 2.0
    longest: float = 5.0
    rng: random.Random = field(default_factory=random.Random, repr=False)
    sleep: Callable[[float], object] = field(default=time.sleep, repr=False)
    clock: Callable[[], float] = field(default=time.monotonic, repr=False)

    def call(self, attempt: Callable[[], T], *, seconds: float) -> T:
        """The first result of `attempt` that does not raise `Retry`.

        Args:
            attempt: Does the work once.
            seconds: No new attempt starts after this time; the first one always happens.

        Raises:
            TransportError: The cause of the last `Retry`, when time is up.
        """
        end = self.clock() + seconds
        wait = self.first
        while True:
            try:
                return attempt()
            except Retry as again:
                # "Full jitter" between half and the whole wait.
                pause = wait * (0.5 + self.rng.random() / 2)
                if self.clock() + pause > end:
                    raise again.cause from None
                self.sleep(pause)
                wait = min(wait * self.factor, self.longest)
