"""All roles of a run in one process, driven round by round.

In every round each role handles the envelopes that were sent to it in the round before, in the order
of their senders, so a run is the same whatever the number of threads. Roles of one round may work in
threads: each is used by one thread at a time, and their heavy loops release the interpreter lock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TypeAlias

from fedvalue.errors import FedValueError, TransportError
from fedvalue.protocol import codec
from fedvalue.protocol.messages import Envelope
from fedvalue.protocol.role import Role
from fedvalue.protocol.transitions import State

Tap = Callable[[bytes], None]
"""Sees every envelope on the wire, as bytes."""

_Job: TypeAlias = tuple[Role, list[Envelope]]


class InProcessTransport:
    """Carries envelopes between roles of this process.

    Args:
        threads: Number of roles that may work at the same time.
        wire: Encode and decode every envelope, as a network would.
        tap: Called with every envelope's bytes (with `wire`): measures traffic, and finds leaks in tests.
    """

    def __init__(self, *, threads: int = 1, wire: bool = True, tap: Tap | None = None) -> None:
        self._threads = threads
        self._wire = wire
        self._tap = tap

    def run(self, roles: Iterable[Role]) -> None:
        """Drive the roles to their end.

        Raises:
            FedValueError: The first failure of any role, in the order of the roles; the others have
                been notified and have failed too.
        """
        by_name = {role.name: role for role in roles}
        if self._threads > 1:
            with ThreadPoolExecutor(self._threads) as pool:
                self._rounds(by_name, lambda jobs: list(pool.map(_handle, jobs)))
        else:
            self._rounds(by_name, lambda jobs: [_handle(job) for job in jobs])
        stuck = [role.name for role in by_name.values() if role.state is not State.DONE]
        if stuck:
            raise TransportError(f"the run is stuck: {', '.join(stuck)} wait for messages")

    def _rounds(self, roles: dict[str, Role], run: Callable[[list[_Job]], list[_Step]]) -> None:
        inboxes = self._deliver([envelope for role in roles.values() for envelope in role.start()])
        while inboxes:
            steps = run([(role, inboxes[name]) for name, role in roles.items() if name in inboxes])
            failures = [step.error for step in steps if step.error is not None]
            if failures:
                self._end(roles, steps)
                raise failures[0]
            inboxes = self._deliver([envelope for step in steps for envelope in step.sent])

    def _deliver(self, envelopes: list[Envelope]) -> dict[str, list[Envelope]]:
        inboxes: dict[str, list[Envelope]] = {}
        for envelope in envelopes:
            inboxes.setdefault(envelope.recipient, []).append(self._carry(envelope))
        return inboxes

    def _carry(self, envelope: Envelope) -> Envelope:
        if not self._wire:
            return envelope
        data = codec.encode(envelope)
        if self._tap is not None:
            self._tap(data)
        return codec.decode(data)

    def _end(self, roles: dict[str, Role], steps: list[_Step]) -> None:
        """Deliver the notices of the roles that failed, until everybody knows."""
        notices = [
            notice for step in steps if step.error is not None for notice in step.role.fail(step.error)
        ]
        while notices:
            notice = notices.pop(0)
            role = roles.get(notice.recipient)
            if role is None or role.state in (State.FAILED, State.DONE):
                continue
            try:
                role.receive(self._carry(notice))
            except FedValueError as error:
                notices += role.fail(error)


@dataclass(slots=True)
class _Step:
    """The messages of one role in one round, and the error that ended it."""

    role: Role
    sent: list[Envelope] = field(default_factory=list)
    error: FedValueError | None = None


def _handle(job: _Job) -> _Step:
    role, inbox = job
    step = _Step(role)
    for envelope in inbox:
        try:
            step.sent += role.receive(envelope)
        except FedValueError as error:
            step.error = error
            break
    return step
