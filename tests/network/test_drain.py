"""Item 38: SIGTERM while a chunk is on its way. It is stored whole, or sent again, and counts once."""

from __future__ import annotations

import threading

import pytest

from fedvalue.deployment.network import wire
from fedvalue.errors import FedValueError
from fedvalue.protocol import codec
from fedvalue.protocol import messages as m
from tests.support.databases import opened
from tests.support.fault_proxy import FaultProxy
from tests.support.processes import PATIENCE, Process, until
from tests.support.programs import server_program
from tests.support.town import TASK, Town

pytestmark = pytest.mark.network


@pytest.mark.slow
@pytest.mark.parametrize("piece", [0.005, 0.5], ids=["a fast line", "a slow line"])
def test_a_chunk_that_is_on_its_way_at_sigterm_finishes_or_is_sent_again(tmp_path, piece):
    """4 MiB through a line that delivers 64 KiB every `piece` seconds: 0.3 s, or more than the grace time."""
    town = Town(tmp_path, n=120, max_bytes=8 << 20)
    endpoint = town.consortium.signed.manifest.compute.endpoint
    config = str(town.member("compute").folder / "server.toml")

    def start() -> Process:
        process = Process(server_program, config, "compute", log=tmp_path / "compute.log")
        until(lambda: process.text().count('"listening"') > starts, what="the server's start")
        return process

    starts = 0
    server = start()
    proxy = FaultProxy(endpoint)
    data = bytes(4 << 20)
    chunk = m.Chunk(0, 1, m.bulk_digest(0, 1, bytes(16), data), bytes(16), data)
    body = codec.encode(m.Envelope(town.run_id, "telco", "compute", chunk))
    ends: list[wire.Standing | FedValueError] = []

    def post() -> None:
        try:
            ends.append(
                town.client("telco", address=proxy.address, patience=PATIENCE).post(town.run_id, 0, body)
            )
        except FedValueError as error:
            ends.append(error)

    try:
        town.client(TASK).submit(town.consortium.signed.to_json().encode())
        town.client("telco", address=proxy.address).health()
        proxy.delay = piece
        passed = proxy.passed
        sender = threading.Thread(target=post, daemon=True)
        sender.start()
        until(lambda: proxy.passed > passed + (64 << 10), what="the first piece")
        assert not ends  # it is on its way
        server.terminate()
        assert server.wait() == 0
        proxy.delay = 0.0
        starts = 1
        server = start()
        sender.join(PATIENCE)
        (end,) = ends
        # Either the promise, or the word of the run: the chunk came before its time, and ended it (E_STATE).
        assert isinstance(end, wire.Standing) or end.code in ("E_STATE", "E_CONFLICT"), end
        with opened(town.member("compute").folder / "state" / "server.sqlite") as db:
            rows = db.execute("SELECT sender, number, size FROM inbox").fetchall()
        assert rows == [("telco", 0, len(body))]
    finally:
        proxy.close()
        server.kill()
