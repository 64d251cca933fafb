"""Damaged, oversized, conflicting and endless input: items 17 to 20 and 36 of `docs/test-list.md`."""

from __future__ import annotations

import contextlib
import random
import socket
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import msgspec
import pytest
from msgspec.structs import replace

from fedvalue.agreement.manifest import Deadlines
from fedvalue.deployment.config import read_party_config
from fedvalue.deployment.network import rpc_server as network_server
from fedvalue.deployment.network import wire
from fedvalue.deployment.parties.party_process import take_part
from fedvalue.errors import FedValueError, InputError, TransportError
from fedvalue.identity.tls_certificates import pem_of, tls_name
from fedvalue.protocol import codec
from fedvalue.protocol import messages as m
from tests.support.databases import opened
from tests.support.processes import PATIENCE, Process, until
from tests.support.programs import server_program
from tests.support.roles import hello_body
from tests.support.town import TASK, Town, ended_well

pytestmark = pytest.mark.network


@pytest.fixture(scope="module")
def town(tmp_path_factory):
    found = Town(tmp_path_factory.mktemp("limits")).start()
    for server in ("compute", "validate"):
        found.client(TASK, server).submit(found.consortium.signed.to_json().encode())
    yield found
    found.stop()


@pytest.fixture
def fresh(tmp_path):
    found = Town(tmp_path).start()
    found.client(TASK).submit(found.consortium.signed.to_json().encode())
    yield found
    found.stop()


def chunk(town: Town, data: bytes, *, index: int = 0, total: int = 1, server: str = "compute") -> m.Envelope:
    digest = m.bulk_digest(index, total, bytes(16), data)
    message = m.Chunk(index=index, total=total, digest=digest, salt=bytes(16), data=memoryview(data))
    return m.Envelope(town.run_id, "telco", server, message)


def refused(call) -> FedValueError:
    with pytest.raises(FedValueError) as caught:
        call()
    return caught.value


def stored(town: Town, server: str) -> list[tuple[str, int]]:
    """Sender and number of every message in the server's journal, and every file in its spool."""
    state = town.member(server).folder / "state"
    with opened(state / "server.sqlite") as db:
        rows = db.execute("SELECT sender, number FROM inbox ORDER BY run_id, k").fetchall()
    return rows + [(path.name, -1) for path in (state / "spool").rglob("*") if path.is_file()]


def replaced(envelope: m.Envelope, **change: object) -> bytes:
    return codec.encode(
        msgspec.structs.replace(envelope, message=msgspec.structs.replace(envelope.message, **change))
    )


@pytest.mark.parametrize(
    "change",
    [{"data": b"x" * 799}, {"data": b"x" * 799 + b"y"}, {"index": 1}, {"total": 2}],
    ids=["truncated", "bit-flipped", "misnumbered", "overlapping"],
)
def test_a_damaged_chunk_is_refused_and_the_right_one_succeeds(fresh, change):
    """Item 17: E_DIGEST, state unchanged, resend succeeds."""
    client = fresh.client("telco")
    whole = chunk(fresh, b"x" * 800)
    assert refused(lambda: client.post(fresh.run_id, 0, replaced(whole, **change))).code == "E_DIGEST"
    assert client.status(fresh.run_id).next == 0
    assert client.status(fresh.run_id).state == "open"
    assert client.post(fresh.run_id, 0, codec.encode(whole)).next == 1


def test_messages_out_of_order_are_refused_without_harm(town):
    client = town.client("shop")
    body = codec.encode(
        m.Envelope(town.run_id, "shop", "compute", m.EphemeralKey("shop", bytes(32), bytes(64)))
    )
    assert refused(lambda: client.post(town.run_id, 5, body)).code == "E_ORDER"
    assert client.status(town.run_id).next == 0


def test_more_rows_than_the_manifest_allows_are_refused_at_the_declaration(town):
    """Item 18: declared rows against the manifest."""
    declaration = m.Declaration(
        121, 2, 1, bytes(32), (2, 2, 3, 3), ((),) * 4, bytes(32), bytes(64), m.NO_ROOT
    )
    body = codec.encode(m.Envelope(town.run_id, "telco", "compute", declaration))
    assert refused(lambda: town.client("telco").post(town.run_id, 0, body)).code == "E_SIZE"


def test_a_party_with_another_number_of_rows_is_refused_before_any_upload(tmp_path):
    """Items 15 and 18: the run ends with E_POPULATION, at the party itself, before a byte leaves."""
    town = Town(tmp_path).start()
    try:
        table = town.member("telco").folder / "table.csv"
        table.write_text("".join(table.read_text().splitlines(keepends=True)[:-1]))
        end = town.join("telco")["telco"]
        assert end.code == "E_POPULATION"
        assert refused(lambda: town.client("telco").status(town.run_id)).code == "E_RUN"
    finally:
        town.stop()


def test_a_party_with_another_number_of_rows_ends_the_run_of_those_who_wait_for_it(tmp_path):
    """They ended at a deadline. With its table corrected, the run is repeated."""
    town = Town(tmp_path, n=100, parties=("telco", "shop")).start()
    try:
        table = town.member("telco").folder / "table.csv"
        whole = table.read_text()
        table.write_text("".join(whole.splitlines(keepends=True)[:-1]))
        with ThreadPoolExecutor() as pool:
            waiting = pool.submit(town.join, TASK, "shop")
            until(lambda: town.awaited() == ("telco",), what="bank and shop")
            end = town.join("telco")["telco"]
            others = waiting.result(PATIENCE)
        assert end.code == "E_POPULATION"
        assert (
            "has 99 rows, the agreement asks for 100; compare the extracts, or agree on terms with --align"
            in (str(end))
        )
        for other in others.values():
            assert other.code == "E_POPULATION"
            assert "'telco' has ended the run: its rows are not the agreed ones" in str(other)
        table.write_text(whole)
        assert ended_well(town.join(again=(TASK, "shop")))
    finally:
        town.stop()


def test_a_party_that_cannot_use_its_table_ends_the_run_of_those_who_wait_for_it(tmp_path):
    """Whatever is wrong with it, also when they wait in a later run. A wrong column name ends nothing."""
    town = Town(tmp_path, n=100, parties=("telco", "shop")).start()
    try:
        table = town.member("telco").folder / "table.csv"
        config = read_party_config(town.member("telco").folder / "party.toml")
        misspelt = replace(config, table=replace(config.table, features=("z",)))
        whole = table.read_text()
        header, first, *rows = whole.splitlines(keepends=True)
        for run, lines in enumerate(([rows[0], *rows], ["," + first.partition(",")[2], *rows]), start=1):
            table.write_text("".join([header, *lines]))  # a repeated id, and an empty one
            with ThreadPoolExecutor() as pool:
                waiting = pool.submit(town.join, TASK, "shop", again=(TASK, "shop") if run > 1 else ())
                until(lambda run=run: town.awaited(run) == ("telco",), what="bank and shop")
                with pytest.raises(InputError, match="column 'z' not found"):
                    take_part(misspelt, "data")
                assert town.awaited(run) == ("telco",)
                end = town.join("telco")["telco"]
                others = waiting.result(PATIENCE)
            assert end.code == "E_INPUT"
            for other in others.values():
                assert other.code == "E_INPUT"
                assert "'telco' has ended the run: its table cannot be used" in str(other)
        table.write_text(whole)
        assert ended_well(town.join(again=(TASK, "shop")))
    finally:
        town.stop()


def test_a_party_cannot_send_more_than_the_manifest_allows(tmp_path, monkeypatch):
    """Protocol.md 4.3: byte budgets. Well-formed messages, accepted and not yet handled, just too many."""
    from fedvalue.deployment.servers.run_host import RunHost

    monkeypatch.setattr(RunHost, "wake", lambda self: None)
    town = Town(tmp_path, n=100, max_bytes=1 << 20).start("compute")
    try:
        client = town.client("telco")
        client.submit(town.consortium.signed.to_json().encode())
        data = bytes(750 << 10)
        bodies = [codec.encode(chunk(town, data, index=index, total=9)) for index in range(3)]
        assert client.post(town.run_id, 0, bodies[0]).next == 1
        assert client.post(town.run_id, 1, bodies[1]).next == 2
        assert refused(lambda: client.post(town.run_id, 2, bodies[2])).code == "E_SIZE"
        assert client.status(town.run_id).next == 2
    finally:
        town.stop()


def test_a_message_of_nine_mebibytes_is_refused_by_grpc(town):
    """Item 18: RESOURCE_EXHAUSTED while reading; the server goes on."""
    client = town.client("telco")
    error = refused(lambda: client._once("Post", b"z" * (9 << 20), PATIENCE))
    assert isinstance(error, TransportError)
    assert error.code == "E_SIZE"
    assert client.health().name == "compute"


def _tls_socket(town: Town, tmp_path) -> socket.socket:
    import ssl

    identity = town.member("telco").identity
    pem = tmp_path / "both.pem"
    pem.write_bytes(identity.tls_key + identity.card.pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.load_cert_chain(pem)
    context.set_alpn_protocols(["h2"])
    host, _, port = town.consortium.signed.manifest.compute.endpoint.rpartition(":")
    return context.wrap_socket(socket.create_connection((host, int(port)), PATIENCE))


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def _opened(town: Town, tmp_path) -> socket.socket:
    """A hand-written gRPC call whose body has not begun."""

    def literal(name: bytes, value: bytes) -> bytes:
        return b"\x00" + bytes([len(name)]) + name + bytes([len(value)]) + value

    headers = b"".join(
        literal(*pair)
        for pair in (
            (b":method", b"POST"), (b":scheme", b"https"), (b":path", f"/{wire.SERVICE}/Post".encode()),
            (b":authority", b"x"), (b"content-type", b"application/grpc"), (b"te", b"trailers"),
        )
    )  # fmt: skip
    tls = _tls_socket(town, tmp_path)
    tls.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + _frame(4, 0, 0, b"") + _frame(1, 4, 1, headers))
    return tls


def test_an_endless_message_is_cut_off(town, tmp_path):
    """Item 18: a length of 4 GiB is announced and data keeps coming; it is refused at once."""
    with _opened(town, tmp_path) as tls:
        tls.settimeout(PATIENCE)
        tls.sendall(_frame(0, 0, 1, b"\x00" + (0xFFFFFFF0).to_bytes(4, "big") + b"z" * 1000))
        answer = b""
        try:
            while len(answer) < 1 << 20:
                tls.sendall(_frame(0, 0, 1, b"z" * 16000))
                part = tls.recv(65536)
                if not part:
                    break
                answer += part
                if b"larger than max" in answer:
                    break
        except (OSError, TimeoutError):
            pass
    assert b"larger than max" in answer
    assert town.client("telco").health().name == "compute"


def test_slow_senders_do_not_keep_others_out(town, tmp_path):
    """Item 18: slow-loris. Forty connections that drip bytes; an honest caller is answered."""
    sockets = [_opened(town, tmp_path) for _ in range(40)]
    try:
        for tls in sockets:
            tls.sendall(_frame(0, 0, 1, b"\x00\x00\x00\x10\x00z"))
        for _ in range(5):  # each call has its own deadline and would raise
            assert town.client("shop").status(town.run_id).state == "open"
        for tls in sockets:
            tls.sendall(_frame(0, 0, 1, b"z"))
    finally:
        for tls in sockets:
            tls.close()


def memory(process: Process, what: str) -> int:
    """VmRSS or VmHWM of a process, in bytes."""
    line = next(
        line for line in Path(f"/proc/{process.pid}/status").read_text().splitlines() if line.startswith(what)
    )
    return int(line.split()[1]) * 1024


@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells the memory of another process")
def test_hostile_traffic_costs_a_server_no_memory_and_a_dripping_party_its_run(tmp_path):
    """Item 18 on a real process: large messages, endless streams, slow senders; RSS bounded; E_DEADLINE.

    What is offered: 80 messages of 9 MiB, 10 streams of 8 MiB each that announced 4 GiB, 40 senders that
    announced 8 MiB and drip. In all 1,120 MiB; 64 are allowed (a few messages of 8 MiB in different threads).
    The run ends when the stage's time is up, and names the party that drips, while it still does.
    """
    town = Town(tmp_path)
    config = str(town.member("compute").folder / "server.toml")
    leap = tmp_path / "leap"
    server = Process(server_program, config, "compute", None, str(leap), log=tmp_path / "compute.log")
    sockets: list[socket.socket] = []
    try:
        until(lambda: '"listening"' in server.text(), what="the server's start")
        client = town.client("telco", patience=PATIENCE)
        client.submit(town.consortium.signed.to_json().encode())
        for party in (TASK, "shop"):
            town.client(party).post(town.run_id, 0, hello_body(town.member(party).identity, town.run_id))
        settled = [-1, 0]

        def still() -> bool:  # the kernels are loaded in a thread of their own after the start
            settled[:] = [settled[1], memory(server, "VmRSS")]
            time.sleep(0.3)
            return settled[0] == settled[1]

        until(still, what="the end of the start")
        before = memory(server, "VmHWM")
        for _ in range(80):
            assert refused(lambda: client._once("Post", b"z" * (9 << 20), PATIENCE)).code == "E_SIZE"
        for _ in range(10):
            sockets.append(_opened(town, tmp_path))
            sockets[-1].settimeout(0.5)
            with contextlib.suppress(OSError):
                sockets[-1].sendall(_frame(0, 0, 1, b"\x00" + (0xFFFFFFF0).to_bytes(4, "big")))
                for _ in range(512):
                    sockets[-1].sendall(_frame(0, 0, 1, b"z" * 16_384))
        drip = [_opened(town, tmp_path) for _ in range(40)]
        sockets += drip
        for tls in drip:
            tls.sendall(_frame(0, 0, 1, b"\x00" + (8 << 20).to_bytes(4, "big") + b"z"))

        def ended() -> bool:
            for tls in drip:
                with contextlib.suppress(OSError):  # the server may give one up at any time
                    tls.sendall(_frame(0, 0, 1, b"z"))
            time.sleep(0.2)
            return town.client("shop").status(town.run_id).state == "failed"

        leap.touch()
        until(ended, what="the deadline")
        standing = town.client("shop").status(town.run_id)
        assert standing.code == "E_DEADLINE"
        assert standing.reason.endswith("missing: telco")
        assert memory(server, "VmHWM") - before < 64 << 20
        assert server.alive
    finally:
        for tls in sockets:
            tls.close()
        server.kill()


def test_a_connection_that_never_begins_tls_does_no_harm(town):
    host, _, port = town.consortium.signed.manifest.compute.endpoint.rpartition(":")
    sockets = [socket.create_connection((host, int(port)), PATIENCE) for _ in range(20)]
    try:
        assert town.client("shop").health().name == "compute"
    finally:
        for one in sockets:
            one.close()


def test_more_than_eight_calls_at_once_of_one_peer_are_refused(fresh, monkeypatch):
    """Protocol.md 4.4: the ninth long poll of one party in one run is sent away; others are served."""
    client = fresh.client("telco")
    over = threading.Event()
    journal = fresh.servers["compute"][0]._host(fresh.run_id).journal
    monkeypatch.setattr(journal, "wait_for_mail", lambda *_: over.wait(PATIENCE))  # none ends before the rest
    poll = wire.encode(wire.Poll(wire.VERSION, fresh.run_id, 0, wire.MAX_WAIT_MS))
    ends: list[object] = []

    def wait() -> None:
        try:
            ends.append(client._once("Poll", poll, PATIENCE))
        except Exception as error:
            ends.append(error)

    threads = [threading.Thread(target=wait) for _ in range(12)]
    for thread in threads:
        thread.start()
    until(lambda: len(ends) >= 4, what="the refusal of four calls")
    assert fresh.client("shop").status(fresh.run_id).state == "open"
    over.set()  # the others are answered now
    for thread in threads:
        thread.join()
    busy = [end for end in ends if isinstance(end, Exception)]
    assert len(busy) == 4
    assert {end.cause.code for end in busy} == {"E_BUSY"}


def test_unknown_runs_and_other_servers_messages_are_refused(town):
    """Item 19: E_RUN, nothing stored."""
    client = town.client("telco")
    before = stored(town, "compute")
    body = codec.encode(chunk(town, b"x" * 80))
    assert refused(lambda: client.post(bytes(32), 0, body)).code == "E_RUN"
    for_other = codec.encode(chunk(town, b"x" * 80, server="validate"))
    assert refused(lambda: client.post(town.run_id, 0, for_other)).code == "E_RUN"
    envelope = chunk(town, b"x" * 80)
    other_run = codec.encode(msgspec.structs.replace(envelope, run_id=bytes(32)))
    assert refused(lambda: client.post(town.run_id, 0, other_run)).code == "E_RUN"
    assert client.status(town.run_id).next == 0
    assert stored(town, "compute") == before


def test_an_expired_run_takes_nothing_more(tmp_path):
    """Item 19: expired run, E_RUN and nothing stored. Item 30: an hour of skew is nothing, two days are."""
    now = [time.time()]
    days = 4 * 86400  # so that no stage's deadline comes before the expiry
    town = Town(tmp_path, deadlines=Deadlines(keying=days, upload=days, compute=days)).start(
        clock=lambda: now[0]
    )
    try:
        client = town.client("telco")
        client.submit(town.consortium.signed.to_json().encode())
        body = codec.encode(chunk(town, b"x" * 80))
        for skew in (3600, -3600):
            now[0] = time.time() + skew
            assert client.status(town.run_id).state == "open"
        now[0] = time.time() + 2 * 86400
        assert refused(lambda: client.post(town.run_id, 0, body)).code == "E_RUN"
        now[0] = time.time()
        assert client.status(town.run_id).next == 0
        assert stored(town, "compute") == []
    finally:
        town.stop()


def test_the_same_upload_twice_is_harmless_and_another_one_ends_the_run(fresh):
    """Item 20: idempotent OK, then E_CONFLICT and this run is over for everybody; the next one is not."""
    client = fresh.client("telco")
    first, other = (
        hello_body(fresh.member("telco").identity, fresh.run_id, seed) for seed in (bytes(32), b"x" * 32)
    )
    assert client.post(fresh.run_id, 0, first).next == 1
    assert client.post(fresh.run_id, 0, first).next == 1
    assert refused(lambda: client.post(fresh.run_id, 0, other)).code == "E_CONFLICT"
    standing = fresh.client("shop").status(fresh.run_id)
    assert (standing.state, standing.code) == ("failed", "E_CONFLICT")
    assert ended_well(fresh.join())
    assert fresh.client("shop").status(fresh.run_id).code == "E_CONFLICT"


def test_random_bytes_in_every_call_end_in_a_typed_error(town):
    """Item 36: frames and envelopes from outside; the server goes on."""
    rng = random.Random(1)
    client = town.client("telco")
    valid = [
        wire.encode(wire.Status(wire.VERSION, town.run_id)),
        wire.encode(wire.Poll(wire.VERSION, town.run_id, 0, 0)),
        wire.encode(wire.Submit(wire.VERSION, town.consortium.signed.to_json().encode())),
        wire.encode(
            wire.Post(wire.VERSION, town.run_id, 0, memoryview(codec.encode(chunk(town, b"x" * 80))))
        ),
    ]
    for round_ in range(300):
        data = bytearray(rng.choice(valid)) if round_ % 3 else bytearray(rng.randbytes(rng.randrange(80)))
        for _ in range(rng.randrange(1, 4)):
            if data:
                data[rng.randrange(len(data))] = rng.randrange(256)
        method = rng.choice(["Submit", "Post", "Poll", "Status", "Health"])
        with contextlib.suppress(FedValueError):
            client._once(method, bytes(data), PATIENCE)
    # An error of our own inside would have been answered, and logged, as E_ENGINE.
    assert {line["code"] for line in town.log("compute") if "code" in line}.isdisjoint({"E_ENGINE"})
    assert client.health().name == "compute"


def test_an_unknown_method_is_not_implemented(town):
    participant = town.consortium.signed.manifest.compute
    identity = town.member("telco").identity
    credentials = grpc.ssl_channel_credentials(
        pem_of(participant.certificate), identity.tls_key, identity.card.pem
    )
    name = tls_name("demo", "compute", "compute")
    options = [("grpc.ssl_target_name_override", name)]
    with (
        grpc.secure_channel(participant.endpoint, credentials, options=options) as channel,
        pytest.raises(grpc.RpcError) as caught,
    ):
        channel.unary_unary(f"/{wire.SERVICE}/Shutdown")(b"", timeout=PATIENCE)
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


def held_calls(town: Town, party: str, n: int, done: threading.Event) -> list[grpc.Future]:
    """Calls of one party, over one connection, whose message does not come before `done`."""

    def nothing():
        done.wait()
        yield from ()

    channel = town.client(party)._channel
    return [channel.stream_unary(f"/{wire.SERVICE}/Post").future(nothing()) for _ in range(n)]


@pytest.mark.parametrize("n", [200, 400])
def test_calls_without_a_message_do_not_keep_others_out(town, n, monkeypatch):
    """Item 18: one connection opens more calls than the server has threads, and sends nothing in them."""
    monkeypatch.setattr(network_server, "ARRIVAL_SECONDS", PATIENCE)
    done = threading.Event()
    calls = held_calls(town, "telco", n, done)
    try:
        for _ in range(5):
            assert town.client("shop", patience=PATIENCE).status(town.run_id).state == "open"
        until(
            lambda: sum(not call.done() for call in calls) == network_server.CALLS_ARRIVING,
            what="the refusal of all others",
        )
        assert town.client("shop").status(town.run_id).state == "open"
    finally:
        done.set()
        until(lambda: all(call.done() for call in calls), what="the end of the calls")  # for the next test


def test_a_call_whose_message_does_not_come_is_ended(town, monkeypatch):
    monkeypatch.setattr(network_server, "ARRIVAL_SECONDS", 0.2)
    done = threading.Event()
    calls = held_calls(town, "telco", 3, done)
    try:

        def ended() -> bool:
            assert town.client("shop").health().name == "compute"
            return all(call.done() for call in calls)

        until(ended, what="the end of the calls")
    finally:
        done.set()
