"""Files written past the page cache: the same bytes everywhere, and no part of a file on a full disk."""

import errno
import fcntl
import os

import pytest

from fedvalue.errors import EngineError
from fedvalue.storage.database import write_whole
from fedvalue.storage.direct_write import DirectWriter

SIZES = [1, 4095, 4096, 4097, 8192, 8193, 30_000]


@pytest.mark.parametrize("size", SIZES)
def test_a_file_has_exactly_its_bytes(tmp_path, size):
    """Shorter and longer than the buffer of two blocks, at and around the borders of blocks."""
    writer = DirectWriter(8192)
    for number in range(2):  # the second one meets a buffer that holds the rest of the first
        data = os.urandom(size)
        write_whole(tmp_path / f"{number}", data, write=writer.write)
        assert (tmp_path / f"{number}").read_bytes() == data


def test_nothing_of_another_message_is_written_beyond_the_end(tmp_path, monkeypatch):
    seen = []
    pwrite = os.pwrite

    def watched(handle, data, place):
        seen.append(bytes(data))
        return pwrite(handle, data, place)

    monkeypatch.setattr(os, "pwrite", watched)
    writer = DirectWriter(8192)
    write_whole(tmp_path / "a", b"a" * 8192, write=writer.write)
    write_whole(tmp_path / "b", b"b" * 10, write=writer.write)
    assert seen[-1].strip(b"b") in (b"", bytes(4086))
    assert not any(b"a" in piece for piece in seen[1:])
    assert not any(writer._buffer)


@pytest.mark.parametrize("where", ["flags", "write"])
@pytest.mark.parametrize("code", [errno.EINVAL, errno.EOPNOTSUPP])
def test_a_file_system_that_cannot_do_it_gets_a_usual_write(tmp_path, monkeypatch, where, code):
    refuse = OSError(code, os.strerror(code))
    pwrite, control = os.pwrite, fcntl.fcntl
    direct = []

    def no_flag(handle, command, value=0):
        if command == fcntl.F_SETFL and value & os.O_DIRECT:
            direct.append(handle)
            raise refuse
        return control(handle, command, value)

    def no_write(handle, data, place):
        if control(handle, fcntl.F_GETFL) & os.O_DIRECT:
            direct.append(handle)
            raise refuse
        return pwrite(handle, data, place)

    monkeypatch.setattr(*((fcntl, "fcntl", no_flag) if where == "flags" else (os, "pwrite", no_write)))
    data = os.urandom(5000)
    write_whole(tmp_path / "file", data, write=DirectWriter(4096).write)
    assert (tmp_path / "file").read_bytes() == data
    assert direct


def test_a_short_write_is_continued_in_whole_blocks(tmp_path, monkeypatch):
    pwrite = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda handle, data, place: pwrite(handle, data[:4096], place))
    data = os.urandom(30_000)
    write_whole(tmp_path / "file", data, write=DirectWriter(16_384).write)
    assert (tmp_path / "file").read_bytes() == data


def test_a_full_disk_leaves_no_file(tmp_path, monkeypatch):
    def full(handle, data, place):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(EngineError, match="No space left") as refused:
        write_whole(tmp_path / "file", bytes(5000), write=DirectWriter(4096).write)
    assert refused.value.code == "E_STORAGE"
    assert not list(tmp_path.iterdir())
