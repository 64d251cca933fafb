"""Frames from a peer: refused by their first two bytes, or decoded within bounds."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from types import SimpleNamespace

import grpc
import msgspec
import pytest

from fedvalue.deployment.network import rpc_server as network_server
from fedvalue.deployment.network import wire
from fedvalue.deployment.network.retry import Retry
from fedvalue.deployment.network.rpc_client import ServerClient, grpc_reason
from fedvalue.errors import RemoteProtocolError, TransportError
from tests.support import consortium
from tests.support.processes import PATIENCE, until

MANY = 1 << 20


def refused(data: bytes, kind: type[wire.Frame] = wire.Health) -> str:
    with pytest.raises(RemoteProtocolError) as caught:
        wire.decode(data, kind)
    return caught.value.code


def test_every_frame_begins_with_a_small_array_and_the_version():
    for frame in (
        wire.Submit(1, b"x" * 70_000),
        wire.Post(1, bytes(32), 7, memoryview(b"body")),
        wire.Mail(1, (b"a", b"b"), wire.Standing(1, "open", 0, 2)),
        wire.Alive(1, "compute", "1.0", 2, 1),
    ):
        assert wire.decode(wire.encode(frame), type(frame)) == frame


@pytest.mark.parametrize("data", [b"", b"\x91", b"\x91\xcc", b"\x80\x01", b"nonsense"])
def test_bytes_that_are_no_frame_are_malformed(data):
    assert refused(data) == "E_MALFORMED"


def test_another_version_is_named_whatever_follows():
    assert refused(msgspec.msgpack.encode([2, {"quite": "different"}])) == "E_VERSION"


@pytest.mark.parametrize(
    "data",
    [
        b"\xdd" + MANY.to_bytes(4, "big") + b"\x01" * MANY,
        b"\x92\x01\xdd" + MANY.to_bytes(4, "big") + b"\x01" * MANY,
        b"\x93\x01\xdd" + MANY.to_bytes(4, "big") + b"\xc4\x00" * MANY + b"\x01",
    ],
    ids=["large array", "more fields", "many bodies"],
)
def test_a_frame_of_a_million_items_costs_no_memory(data):
    """A mebibyte of small integers once became 64 MiB of objects before anything was refused."""
    kind = wire.Mail if data[0] == 0x93 else wire.Health
    tracemalloc.start()
    try:
        assert refused(data, kind) == "E_MALFORMED"
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_a_peers_words_cannot_command_a_terminal():
    error = wire.error_from("EngineError|E_STORAGE|all is well\x1b[2J\nrun finished")
    assert error is not None
    assert str(error) == r"all is well\x1b[2J\nrun finished"


def test_calls_of_a_peer_are_counted_before_its_bytes_are_looked_at(monkeypatch):
    """A peer with all its places taken is busy, whatever it has sent and for whichever run."""
    calls: list[str] = []
    backend = SimpleNamespace(
        **{name.lower(): lambda peer, request: None for name in network_server._REQUESTS},
        refused=lambda peer, method, error: calls.append(error.code),
    )
    handlers = network_server.Handlers(backend)
    peer = network_server.Peer(b"spki", b"certificate")
    monkeypatch.setattr(network_server, "peer_of", lambda auth: peer)

    def abort(status: object, text: str) -> None:
        raise TransportError(text)

    context = SimpleNamespace(auth_context=dict, abort=abort)
    handle = handlers._handler("Post")
    with ExitStack() as stack:
        for _ in range(network_server.CALLS_IN_ALL):
            stack.enter_context(handlers._slot((peer.spki, b""), network_server.CALLS_IN_ALL))
        with pytest.raises(TransportError):
            handle(iter([b"nonsense"]), context)
    with pytest.raises(TransportError):
        handle(iter([b"nonsense"]), context)
    assert calls == ["E_BUSY", "E_MALFORMED"]


def test_one_guest_of_a_lobby_cannot_keep_the_others_out(monkeypatch):
    """All guests show the invitation's certificate, so the old rule counted them as one caller.

    One guest holds as many calls as it can. By the old rule (no key is known to be shared) the next guest is
    busy before it has said a word; now it is served, and the first one still is not.
    """
    refused: list[str] = []
    backend = SimpleNamespace(
        **{name.lower(): lambda peer, request: wire.Notes(1, ()) for name in network_server._REQUESTS},
        refused=lambda peer, method, error: refused.append(error.code),
    )
    peer = network_server.Peer(b"lobby", b"certificate")
    monkeypatch.setattr(network_server, "peer_of", lambda auth: peer)

    def abort(status: object, text: str) -> None:
        raise TransportError(text)

    def guest(address: str) -> SimpleNamespace:
        return SimpleNamespace(auth_context=dict, abort=abort, peer=lambda: address)

    def outcome(handlers: network_server.Handlers, hog: str, address: str) -> str:
        """How a call ends while all that `hog` may hold are under way, waiting for their messages."""
        handle, gate = handlers._handler("Look"), threading.Event()
        message = wire.encode(wire.Look(1, bytes(32), 0))
        inside = threading.Semaphore(0)

        def slow() -> Iterator[bytes]:
            inside.release()
            gate.wait(PATIENCE)
            yield message

        def call() -> None:
            with contextlib.suppress(TransportError):
                handle(slow(), guest(hog))

        hogs = [threading.Thread(target=call) for _ in range(network_server.CALLS_IN_ALL + 1)]
        for one in hogs:
            one.start()
        most = (
            network_server.CALLS_PER_PEER if b"lobby" in handlers._guests else network_server.CALLS_ARRIVING
        )
        try:
            for _ in range(most):
                assert inside.acquire(timeout=600)
            until(lambda: len(refused) == len(hogs) - most, what="the refusal of the others")
            refused.clear()
            with contextlib.suppress(TransportError):
                handle(iter([message]), guest(address))
            return refused[0] if refused else "served"
        finally:
            gate.set()
            for one in hogs:
                one.join()
            refused.clear()

    old, new = network_server.Handlers(backend), network_server.Handlers(backend, frozenset([b"lobby"]))
    assert outcome(old, "ipv4:10.0.0.1:4000", "ipv4:10.0.0.2:4000") == "E_BUSY"
    assert outcome(new, "ipv4:10.0.0.1:4000", "ipv4:10.0.0.2:4000") == "served"
    assert outcome(new, "ipv6:%5B::1%5D:4000", "ipv6:%5B::1%5D:4001") == "E_BUSY"
    assert outcome(new, "ipv6:%5B2001:db8::1%5D:4000", "ipv6:%5B2001:db8::beef:2%5D:4000") == "E_BUSY"
    assert outcome(new, "ipv6:%5B2001:db8::1%5D:4000", "ipv6:%5B2001:db8:0:1::1%5D:4000") == "served"


@pytest.mark.parametrize(
    ("peer", "address"),
    [
        ("ipv4:10.0.0.1:4000", "10.0.0.1"),
        ("ipv6:%5B2001:db8:1:2:3:4:5:6%5D:4000", "2001:db8:1:2::/64"),
        ("ipv6:[2001:db8:1:2::9]:4001", "2001:db8:1:2::/64"),
        ("ipv6:%5Bfe80::1%25eth0%5D:4000", "fe80::/64"),
        ("ipv6:%5B::ffff:10.0.0.1%5D:4000", "10.0.0.1"),
        ("unix:/run/socket", "unix:"),
    ],
)
def test_guests_are_counted_by_ipv4_address_or_ipv6_network(peer, address):
    """IPv4 callers of a socket for both families would all be in one network otherwise."""
    assert network_server.guest_address(peer) == address


class Listening:
    """The service on loopback without TLS, with a backend that notes refusals."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.refused: list[str] = []
        peer = network_server.Peer(b"spki", b"certificate")
        monkeypatch.setattr(network_server, "peer_of", lambda auth: peer)
        backend = SimpleNamespace(
            **{name.lower(): lambda peer, request: wire.Notes(1, ()) for name in network_server._REQUESTS},
            refused=lambda peer, method, error: self.refused.append(error.code),
        )
        self._handlers = network_server.Handlers(backend)
        self._threads = ThreadPoolExecutor(40)
        self._server = grpc.server(self._threads)
        self._server.add_generic_rpc_handlers((self._handlers,))
        port = self._server.add_insecure_port("127.0.0.1:0")
        self._server.start()
        self.channel = grpc.insecure_channel(f"127.0.0.1:{port}")

    def held(self, n: int, done: threading.Event) -> list[grpc.Future]:
        """Calls that the server has begun to answer, whose message does not come before `done`."""

        def nothing() -> Iterator[bytes]:
            done.wait(PATIENCE)
            yield from ()

        method = self.channel.stream_unary(f"/{wire.SERVICE}/Look")
        calls = [method.future(nothing()) for _ in range(n)]
        until(lambda: len(self._handlers._arriving) == n, what="all calls")
        return calls

    def finish(self) -> list[str]:
        """The refusals, once every call has ended."""
        self.channel.close()
        self._server.stop(None).wait(PATIENCE)
        self._threads.shutdown()
        return self.refused


@pytest.mark.parametrize("how", ["closes its channel", "cancels its calls"])
def test_a_caller_that_goes_away_before_its_message_is_not_refused(monkeypatch, how):
    """At the end of a run callers hang up; the operator's log is no place for that."""
    monkeypatch.setattr(network_server, "HANG_UP_SECONDS", PATIENCE)
    server, done = Listening(monkeypatch), threading.Event()
    calls = server.held(12, done)
    if how == "closes its channel":
        server.channel.close()
    for call in calls:
        call.cancel()
    assert server.finish() == []
    done.set()


def test_a_caller_that_stays_and_sends_no_message_is_refused(monkeypatch):
    server, done = Listening(monkeypatch), threading.Event()
    calls = server.held(3, done)
    done.set()
    assert [call.code() for call in calls] == [grpc.StatusCode.INVALID_ARGUMENT] * 3
    assert server.finish() == ["E_MALFORMED"] * 3


def test_a_caller_whose_message_comes_too_late_is_refused(monkeypatch):
    monkeypatch.setattr(network_server, "ARRIVAL_SECONDS", 0.0)
    server, done = Listening(monkeypatch), threading.Event()
    (late,) = server.held(1, done)
    look = wire.encode(wire.Look(1, bytes(32), 0))
    monkeypatch.setattr(network_server, "ARRIVAL_SECONDS", PATIENCE)
    assert server.channel.unary_unary(f"/{wire.SERVICE}/Look")(look, timeout=PATIENCE)
    assert late.code() is grpc.StatusCode.CANCELLED
    assert server.finish() == ["E_MALFORMED"]
    done.set()


def test_every_frame_has_its_decoder_before_a_second_thread_can_ask():
    """msgspec crashes when two threads are the first to decode a type: none may be new at run time."""
    assert set(wire._decoders) == set(wire.Frame.__subclasses__())


def test_many_threads_may_be_the_first_to_decode():
    """Eight fresh interpreters; with decoders made on first use one in six crashed."""
    program = """
import sys, threading
from fedvalue.deployment.network import wire
sys.setswitchinterval(1e-6)
standing = wire.Standing(1, "open", 0, 0, "", "", wire.SignedHead("compute", 1, bytes(32), bytes(64)))
frames = [standing, wire.Mail(1, (b"x",), standing)]
gate = threading.Barrier(16)
def first(frame):
    gate.wait()
    assert wire.decode(wire.encode(frame), type(frame)) == frame
threads = [threading.Thread(target=first, args=(frames[k % 2],)) for k in range(16)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
"""
    for _ in range(8):
        assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


@pytest.mark.parametrize(
    ("details", "code"),
    [
        ("Concurrent RPC limit exceeded!", "E_BUSY"),
        ("CLIENT: Received message larger than max (9000000 vs. 8388608)", "E_SIZE"),
    ],
)
def test_a_server_whose_calls_are_taken_is_busy_and_has_not_refused_a_message(details, code):
    """Other people's calls may take all of gRPC's places; that must not end anybody's run."""
    identities = consortium.identities()
    manifest = consortium.manifest()
    client = ServerClient(identities["telco"], manifest.compute, manifest)
    failure = SimpleNamespace(code=lambda: grpc.StatusCode.RESOURCE_EXHAUSTED, details=lambda: details)
    try:
        found = client._translated(failure)
    finally:
        client.close()
    assert isinstance(found, Retry) == (code == "E_BUSY")
    assert (found.cause if isinstance(found, Retry) else found).code == code


@pytest.mark.parametrize(
    ("details", "words"),
    [
        (
            "failed to connect to all addresses; last error: UNKNOWN: ipv4:127.0.0.1:1: OK",
            "it has not answered yet",
        ),
        ("UNAVAILABLE", "it has not answered yet"),
        ("", "it has not answered yet"),
        ("last error: UNKNOWN: ipv4:127.0.0.1:1: Connection refused", "Connection refused"),
    ],
)
def test_a_status_is_not_shown_as_a_reason(details: str, words: str) -> None:
    """Problem 19: "server 'compute' cannot be reached: OK"."""
    assert grpc_reason(details, {status.name for status in grpc.StatusCode}) == words
