"""What a server holds in memory beside its files: the latest messages, never more than its limit."""

import os

import pytest

from fedvalue.deployment.servers import upload_files
from fedvalue.deployment.servers.server_store import Arrival, ServerStore
from fedvalue.deployment.servers.upload_files import FILE_FROM, OVERHEAD, RecentMessages
from fedvalue.protocol import codec
from fedvalue.protocol import messages as m

RUN, OTHER = bytes(32), b"\1" * 32


def chunk(index: int, size: int = 8) -> m.Envelope:
    data = os.urandom(size)
    message = m.Chunk(index, 9, b"", bytes(16), memoryview(data)).with_digest()
    return m.Envelope(RUN, "telco", "compute", message)


def put(recent: RecentMessages, run_id: bytes, number: int, n_bytes: int) -> None:
    recent.put((run_id, "telco", number), chunk(number), n_bytes)


def limited(n_bytes: int, n_messages: int) -> RecentMessages:
    return RecentMessages(n_bytes + n_messages * OVERHEAD)


def test_the_first_are_dropped_first_and_the_limit_holds():
    recent = limited(100, 3)
    for number in range(5):
        put(recent, RUN, number, 30)
    assert [recent.get((RUN, "telco", number)) is None for number in range(5)] == [True, True] + [False] * 3
    last = recent.get((RUN, "telco", 4))
    assert last is not None
    assert last.message.index == 4


def test_a_message_beyond_the_limit_is_not_kept_and_drops_nobody():
    recent = limited(100, 1)
    put(recent, RUN, 0, 60)
    put(recent, RUN, 1, 101)
    assert recent.get((RUN, "telco", 0)) is not None
    assert recent.get((RUN, "telco", 1)) is None


def test_the_same_place_again_counts_once():
    recent = limited(100, 2)
    for _ in range(9):
        put(recent, RUN, 0, 40)
    put(recent, RUN, 1, 60)
    assert recent.get((RUN, "telco", 0)) is not None


def test_a_dropped_run_makes_room_and_leaves_the_others():
    recent = limited(100, 2)
    put(recent, RUN, 0, 50)
    put(recent, OTHER, 0, 50)
    recent.drop_run(RUN)
    recent.drop((RUN, "telco", 0))  # no longer there: harmless
    assert recent.get((RUN, "telco", 0)) is None
    put(recent, OTHER, 1, 50)
    assert recent.get((OTHER, "telco", 0)) is not None


@pytest.mark.parametrize("limit", [0, FILE_FROM + 2048, 32 << 20])
def test_a_message_is_the_same_from_memory_and_from_disk(tmp_path, monkeypatch, limit):
    """With room for none, one or both of two large messages."""
    monkeypatch.setattr(upload_files, "RECENT_BYTES", limit)
    store = ServerStore(tmp_path)
    store.add_run(RUN, b"manifest", now=0.0, audit=())
    sent = [chunk(number, FILE_FROM) for number in range(2)]
    for number, envelope in enumerate(sent):
        body = codec.encode(envelope)
        assert store.spool(RUN, "telco", number, memoryview(body))
        store.accept(RUN, number, [Arrival(number, envelope, None, len(body))], ())
    for number, envelope in enumerate(sent):
        assert store.message_of(RUN, "telco", number).envelope == envelope
        assert store.message(RUN, number).envelope == envelope
    store.forget_recent(RUN, "telco", 0)
    assert store.message_of(RUN, "telco", 0).envelope == sent[0]
    store.purge(RUN)
    assert store._uploads._recent.get((RUN, "telco", 1)) is None
    store.close()


def test_an_accepted_chunk_is_decoded_once(tmp_path, monkeypatch):
    """At admission; afterwards it comes out of memory, for the role and for the count."""
    store = ServerStore(tmp_path)
    store.add_run(RUN, b"manifest", now=0.0, audit=())
    envelope = chunk(0)
    store.accept(RUN, 0, [Arrival(0, envelope, codec.encode(envelope), 100)], ())
    monkeypatch.setattr(codec, "decode", lambda data: pytest.fail("decoded again"))
    assert store.message(RUN, 0).envelope is envelope
    assert store.message_of(RUN, "telco", 0).envelope is envelope
    store.close()
