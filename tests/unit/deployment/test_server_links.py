"""A party's connections end when the party does, whatever its servers still have for it."""

from __future__ import annotations

import pytest

from fedvalue.deployment.network import wire
from fedvalue.deployment.parties import server_links
from fedvalue.deployment.parties.server_links import ServerLinks
from tests.support.processes import PATIENCE, until


class Talkative:
    """A server that always has mail."""

    name = "compute"

    def submit(self, manifest: bytes) -> wire.Standing:
        return wire.Standing(wire.VERSION, "running", 0, 0)

    def poll(self, run_id: bytes, number: int, wait: float, patience: float) -> wire.Mail:
        return wire.Mail(wire.VERSION, (b"message",) * 10, self.submit(b""))

    def close(self) -> None: ...


def test_mail_that_nobody_reads_keeps_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """The queue is full when the party ends: its thread waited for a reader for ever."""
    monkeypatch.setattr(server_links, "_THREAD_END_SECONDS", PATIENCE)
    links = ServerLinks(bytes(32), b"{}", {"compute": Talkative()}, until=0.0)  # type: ignore[dict-item]
    links.start({"compute": 0})
    until(links._events.full, what="more mail than the queue holds")
    links.close()
    assert not any(thread.is_alive() for thread in links._threads)
