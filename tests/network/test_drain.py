"""A server that stops: at SIGTERM while a chunk is on its way (item 38), or because it cannot start."""

from __future__ import annotations

import socket
import threading

import pytest
from msgspec.structs import replace

from fedvalue.deployment.config import MetricsConfig, read_server_config
from fedvalue.deployment.network import wire
from fedvalue.deployment.servers.server_process import serve
from fedvalue.errors import EngineError, FedValueError
from fedvalue.protocol import codec
from fedvalue.protocol import messages as m
from fedvalue.storage.durable_files import exclusive_lock
from tests.support.databases import opened
from tests.support.fault_proxy import FaultProxy
from tests.support.processes import PATIENCE, Process, until
from tests.support.programs import server_program
from tests.support.town import TASK, Town

pytestmark = pytest.mark.network


@pytest.mark.parametrize("busy", ["port", "metrics"])
def test_a_server_that_cannot_start_is_at_rest_before_its_lock_is_free(tmp_path, busy):
    """It had taken up an unfinished run. The next process would have worked on the same one beside it."""
    town = Town(tmp_path, n=100, parties=("telco",)).start("compute")
    town.client(TASK).submit(town.consortium.signed.to_json().encode())
    town.stop()
    config = read_server_config(town.member("compute").folder / "server.toml")
    before = set(threading.enumerate())
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        host, _, port = config.listen.rpartition(":")
        taken.bind((host, int(port) if busy == "port" else 0))
        taken.listen()
        if busy == "metrics":
            config = replace(config, metrics=MetricsConfig(listen=f"{host}:{taken.getsockname()[1]}"))
        with pytest.raises(EngineError, match="cannot listen on"):
            serve(config)
    left = [thread.name for thread in set(threading.enumerate()) - before]
    assert not {name.split("_")[0] for name in left} & {"ticker", "courier", "worker", "cards"}, left
    with exclusive_lock(config.state / "server.lock"):
        pass


def test_a_server_whose_preparation_fails_ends_at_once(tmp_path):
    """Its page of metrics was never served, and waiting for that would have no end."""
    town = Town(tmp_path, n=100, parties=("telco",))
    config = read_server_config(town.member("compute").folder / "server.toml")
    config = replace(config, metrics=MetricsConfig(listen="127.0.0.1:0"))

    def fail() -> None:
        raise EngineError("not today")

    ended = threading.Event()

    def attempt() -> None:
        with pytest.raises(EngineError, match="not today"):
            serve(config, on_start=fail)
        ended.set()

    threading.Thread(target=attempt, daemon=True).start()
    assert ended.wait(PATIENCE)


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
