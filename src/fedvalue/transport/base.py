"""What carries envelopes between roles, and what every carrier must keep.

1. FIFO per pair: envelopes of one sender to one recipient are delivered in the order sent. A resend
   of an earlier envelope is allowed at any time (roles recognise it).
2. At least once: an envelope is sent again until it is acknowledged, and acknowledged only after
   the recipient has stored it together with the role's answer.
3. `sender` is compared with the authenticated identity of the peer before a role sees the envelope.
4. Bytes that do not decode go to `Role.fail`, or are refused so that the peer sends them again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from fedvalue.protocol.messages import Envelope
from fedvalue.protocol.role import Role


class Transport(Protocol):
    """Runs roles against each other until each of them has ended."""

    def run(self, roles: Iterable[Role]) -> None:
        """Drive the roles to their end.

        Raises:
            FedValueError: The first failure of any role; every other role has been told and has
                failed too, and nothing is released.
        """


class Endpoint(Protocol):
    """One participant's connection to the others, for a role that runs in its own process."""

    def send(self, envelope: Envelope) -> None:
        """Deliver, or keep until delivered."""

    def receive(self, timeout: float) -> Envelope | None:
        """The next envelope for us, or None after `timeout` seconds."""
