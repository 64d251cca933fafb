"""What a server holds in memory beside its files: the last messages, never more than its limit."""

import os

import pytest

from fedvalue.deployment.servers import upload_files
from fedvalue.deployment.servers.server_store import ServerStore
from fedvalue.deployment.servers.upload_files import FILE_FROM, RecentBodies

RUN, OTHER = bytes(32), b"\1" * 32


def test_the_first_are_dropped_first_and_the_limit_holds():
    recent = RecentBodies(100)
    for number in range(5):
        recent.put((RUN, "telco", number), bytes([number]) * 30)
    assert [recent.get((RUN, "telco", number)) is None for number in range(5)] == [True, True] + [False] * 3
    assert bytes(recent.get((RUN, "telco", 4))) == b"\4" * 30


def test_a_body_beyond_the_limit_is_not_kept_and_drops_nobody():
    recent = RecentBodies(100)
    recent.put((RUN, "telco", 0), bytes(60))
    recent.put((RUN, "telco", 1), bytes(101))
    assert recent.get((RUN, "telco", 0)) is not None
    assert recent.get((RUN, "telco", 1)) is None


def test_the_same_place_again_counts_once():
    recent = RecentBodies(100)
    for _ in range(9):
        recent.put((RUN, "telco", 0), bytes(40))
    recent.put((RUN, "telco", 1), bytes(60))
    assert recent.get((RUN, "telco", 0)) is not None


def test_a_dropped_run_makes_room_and_leaves_the_others():
    recent = RecentBodies(100)
    recent.put((RUN, "telco", 0), bytes(50))
    recent.put((OTHER, "telco", 0), bytes(50))
    recent.drop_run(RUN)
    recent.drop((RUN, "telco", 0))  # no longer there: harmless
    assert recent.get((RUN, "telco", 0)) is None
    recent.put((OTHER, "telco", 1), bytes(50))
    assert recent.get((OTHER, "telco", 0)) is not None


@pytest.mark.parametrize("limit", [0, FILE_FROM, 32 << 20])
def test_a_message_is_the_same_from_memory_and_from_disk(tmp_path, monkeypatch, limit):
    """With room for none, one or both of two large messages."""
    monkeypatch.setattr(upload_files, "RECENT_BYTES", limit)
    store = ServerStore(tmp_path)
    store.add_run(RUN, b"manifest", now=0.0, audit=())
    bodies = [os.urandom(FILE_FROM) for _ in range(2)]
    for number, body in enumerate(bodies):
        assert store.spool(RUN, "telco", number, memoryview(body))
        store.accept(RUN, number, "telco", number, os.urandom(32), None, len(body), ())
    for number, body in enumerate(bodies):
        assert bytes(store.message_of(RUN, "telco", number).body) == body
        assert bytes(store.message(RUN, number).body) == body
    store.forget_recent(RUN, "telco", 0)
    assert bytes(store.message_of(RUN, "telco", 0).body) == bodies[0]
    store.purge(RUN)
    assert store._uploads.recent((RUN, "telco", 1)) is None
    store.close()
