"""Checks the heads of the servers' audit logs that come with every reply: a log may only grow.

A server that shows two histories, goes back behind what it has shown, or hides its head after it
accepted something is found out during the run, by the party it does this to.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING

from fedvalue.errors import VerificationError
from fedvalue.identity.audit_log import Receipt

if TYPE_CHECKING:
    from fedvalue.agreement.manifest import Manifest
    from fedvalue.deployment.network.wire import Standing


class ServerHeads:
    """What the servers of one run have shown to one party.

    Args:
        manifest: The run, and the servers' keys.
        known: Receipts from an earlier start.
    """

    def __init__(self, manifest: Manifest, known: Iterable[Receipt] = ()) -> None:
        self._manifest = manifest
        self._run = manifest.run_id.hex()
        self._lock = threading.Lock()
        self._seen: dict[tuple[str, int], str] = {}
        self._fresh: list[Receipt] = []
        # Replies to two threads may overtake each other; within one thread they may not.
        self._highest: dict[tuple[str, int], int] = {}
        self._floor: dict[str, int] = {}
        for receipt in known:
            self._seen[receipt.actor, receipt.seq] = receipt.head
            self._floor[receipt.actor] = max(receipt.seq, self._floor.get(receipt.actor, 0))

    def take(self, server: str, standing: Standing) -> None:
        """Check the head in a reply.

        Raises:
            VerificationError: E_AUDIT, or E_SIGNATURE for a head that is not the server's.
        """
        head = standing.head
        with self._lock:
            me = (server, threading.get_ident())
            before = self._highest.get(me, self._floor.get(server))
            if head is None:
                if standing.next or before is not None:
                    raise _broken(server, "shows no head of its audit log")
                return
            receipt = Receipt(server, self._run, head.seq, head.head.hex(), head.signature)
            receipt.check(self._manifest.participant(server).sign_key)
            known = self._seen.get((server, head.seq))
            if known != receipt.head:
                # A party that waits gets the same head with every poll, for hours or days.
                self._fresh.append(receipt)
                if known is not None:
                    raise _broken(server, f"has signed two different entries number {head.seq}")
                self._seen[server, head.seq] = receipt.head
            if before is not None and head.seq < before:
                raise _broken(server, f"has gone back from entry {before} to {head.seq}")
            self._highest[me] = head.seq

    def fresh(self) -> list[Receipt]:
        """Receipts since the last call, each once; both of a contradiction."""
        with self._lock:
            found = {(one.actor, one.seq, one.head): one for one in self._fresh}
            self._fresh = []
        return list(found.values())


def _broken(server: str, what: str) -> VerificationError:
    return VerificationError(f"server {server!r} {what}", code="E_AUDIT")
