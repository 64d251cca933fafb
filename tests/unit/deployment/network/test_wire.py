"""Frames from a peer: refused by their first two bytes, or decoded within bounds."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from contextlib import ExitStack
from types import SimpleNamespace

import grpc
import msgspec
import pytest

from fedvalue.deployment.network import rpc_server as network_server
from fedvalue.deployment.network import wire
from fedvalue.deployment.network.retry import Retry
from fedvalue.deployment.network.rpc_client import ServerClient
from fedvalue.errors import RemoteProtocolError, TransportError
from tests.support import consortium

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
    handlers = network_server._Handlers(backend)
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
