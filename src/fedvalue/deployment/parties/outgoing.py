"""Messages of a party on their way to one server."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from fedvalue.errors import RemoteProtocolError

if TYPE_CHECKING:
    from fedvalue.deployment.parties.driver import Parcel


class Outgoing:
    """Messages to one server, in order. What the server has acknowledged is let go."""

    def __init__(self) -> None:
        self._parcels: list[Parcel | None] = []
        self._released = 0
        self._delivered = 0
        self._abandoned = False
        self._changed = threading.Condition()

    def __len__(self) -> int:
        return len(self._parcels)

    def append(self, parcel: Parcel) -> None:
        """One more; it may not leave before `release`."""
        self._parcels.append(parcel)

    def release(self) -> None:
        """Everything so far is on disk by fingerprint and may leave."""
        with self._changed:
            self._released = len(self._parcels)
            self._changed.notify_all()

    def skip(self, number: int) -> None:
        """The server has the first `number` messages from an earlier start."""
        with self._changed:
            self._changed.wait_for(lambda: self._released >= number, timeout=60.0)
        self.delivered(number)

    def get(self, number: int, seconds: float) -> Parcel | None:
        """Message `number`, or None when it is not there within `seconds`."""
        with self._changed:
            self._changed.wait_for(lambda: self._released > number, timeout=seconds)
            return self._parcels[number] if self._released > number else None

    def delivered(self, number: int) -> None:
        """The server has the first `number` messages.

        Raises:
            RemoteProtocolError: E_STATE: it claims more than has left.
        """
        with self._changed:
            if number > self._released:
                raise RemoteProtocolError(
                    f"a server claims {number} messages of ours, {self._released} have left", code="E_STATE"
                )
            for k in range(self._delivered, number):
                self._parcels[k] = None
            self._delivered = number
            self._changed.notify_all()

    def abandon(self) -> None:
        """Nobody delivers any more."""
        with self._changed:
            self._abandoned = True
            self._changed.notify_all()

    def wait_empty(self, seconds: float) -> None:
        """Return when everything is delivered, or nobody delivers any more, or time is up."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._abandoned or self._delivered >= self._released, timeout=max(seconds, 0)
            )
