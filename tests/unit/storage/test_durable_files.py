"""Files are whole or absent, private unless asked otherwise, and one process at a time holds a lock."""

from __future__ import annotations

import errno
import os

import pytest

from fedvalue.errors import EngineError
from fedvalue.storage.durable_files import atomic_write, exclusive_lock, write_durably, write_unread


def test_a_file_is_whole_or_absent(tmp_path):
    write_durably(tmp_path / "a" / "file", b"content")
    assert (tmp_path / "a" / "file").read_bytes() == b"content"
    assert (tmp_path / "a" / "file").stat().st_mode & 0o777 == 0o600
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["file"]


def test_a_temporary_file_is_new_and_follows_no_link(tmp_path):
    """Whatever lies in the folder beforehand, the file's bytes go nowhere else."""
    outside = tmp_path / "outside"
    outside.write_text("untouched")
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "x").symlink_to(outside)
    write_durably(folder / "x", b"new")
    assert outside.read_text() == "untouched"
    assert (folder / "x").read_bytes() == b"new"
    assert not (folder / "x").is_symlink()
    assert (folder / "x").stat().st_mode & 0o777 == 0o600
    write_durably(folder / "y", b"new", mode=0o644)
    assert (folder / "y").stat().st_mode & 0o777 == 0o644
    assert sorted(path.name for path in folder.iterdir()) == ["x", "y"]


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o077, 0o600)])
def test_permissions_follow_the_umask_unless_given(tmp_path, mask, mode):
    before = os.umask(mask)
    try:
        atomic_write(tmp_path / "file", b"new")
    finally:
        os.umask(before)
    assert (tmp_path / "file").stat().st_mode & 0o777 == mode


def test_a_short_write_is_continued(tmp_path, monkeypatch):
    write = os.write
    monkeypatch.setattr(os, "write", lambda handle, data: write(handle, data[:4096]))
    data = os.urandom(30_000)
    atomic_write(tmp_path / "file", data)
    assert (tmp_path / "file").read_bytes() == data


def test_a_full_disk_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    def full(handle, data):
        raise OSError(errno.ENOSPC, "No space left on device")

    write_durably(tmp_path / "file", b"old")
    monkeypatch.setattr(os, "write", full)
    with pytest.raises(EngineError, match="No space left") as refused:
        write_durably(tmp_path / "file", bytes(5000))
    assert refused.value.code == "E_STORAGE"
    assert (tmp_path / "file").read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_file_written_in_place_is_private_and_replaces_what_an_interrupted_write_left(tmp_path):
    path = tmp_path / "run" / "bank" / "0.msg"
    write_unread(path, os.urandom(9000))
    write_unread(path, b"content")
    assert path.read_bytes() == b"content"
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_a_file_written_in_place_follows_no_link(tmp_path):
    outside = tmp_path / "outside"
    outside.write_text("untouched")
    (tmp_path / "x").symlink_to(outside)
    with pytest.raises(EngineError) as refused:
        write_unread(tmp_path / "x", b"new")
    assert refused.value.code == "E_STORAGE"
    assert outside.read_text() == "untouched"


def test_a_full_disk_leaves_no_part_of_a_file_written_in_place(tmp_path, monkeypatch):
    write = os.write

    def full(handle, data):
        if len(data) < 5000:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(handle, data[:1000])

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(EngineError, match="No space left") as refused:
        write_unread(tmp_path / "file", bytes(5500))
    assert refused.value.code == "E_STORAGE"
    assert list(tmp_path.iterdir()) == []


def test_a_second_process_keeps_away_and_a_later_one_may_come(tmp_path):
    """Two servers on one state folder would each believe that they alone write the journal."""
    lock = tmp_path / "state" / "server.lock"
    with exclusive_lock(lock):
        with pytest.raises(EngineError, match="another process is using") as caught, exclusive_lock(lock):
            pytest.fail("both hold the lock")
        assert caught.value.code == "E_LOCKED"
    with exclusive_lock(lock):
        pass
