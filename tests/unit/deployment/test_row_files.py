"""Scratch files and rows dealt into buckets, against plain arrays."""

from __future__ import annotations

import os

import numpy as np
import pytest

from fedvalue.crypto import aes
from fedvalue.crypto.permute import row_order
from fedvalue.deployment.parties import row_files
from fedvalue.deployment.parties.row_files import Deal, RowFile
from fedvalue.deployment.parties.scratch import Scratch, ScratchError

KEY = bytes(range(16))


def raw(scratch: Scratch) -> bytes:
    size = os.fstat(scratch._file.fileno()).st_size
    return os.pread(scratch._file.fileno(), size, 0)


def test_a_scratch_file_gives_back_what_was_put(tmp_path):
    """Arrays of any length, in any order of reading."""
    scratch = Scratch(tmp_path)
    rng = np.random.default_rng(0)
    arrays = [rng.integers(0, 256, size, dtype=np.uint8) for size in (0, 1, 15, 16, 17, 1000)]
    places = [scratch.append(array) for array in arrays]
    for array, place in reversed(list(zip(arrays, places, strict=True))):
        assert scratch.read(place, len(array)).tobytes() == array.tobytes()


def test_a_scratch_file_shows_nothing_on_disk(tmp_path):
    """The same bytes written twice are different there, and neither is what was written."""
    scratch = Scratch(tmp_path)
    secret = np.frombuffer(b"person 4711 has " * 8, dtype=np.uint8)
    scratch.append(secret)
    scratch.append(secret)
    found = raw(scratch)
    blocks = [found[k : k + 16] for k in range(0, len(found), 16)]
    assert len(set(blocks)) == len(blocks) == 16
    assert b"person 4711" not in found
    assert list(tmp_path.iterdir()) == []
    other = Scratch(tmp_path)
    other.append(secret)
    assert raw(other) != found[: len(secret)]


def test_a_full_disk_is_a_storage_error(tmp_path, monkeypatch):
    scratch = Scratch(tmp_path)

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(ScratchError, match="No space left") as caught:
        scratch.append(np.zeros(4, dtype=np.uint8))
    assert caught.value.code == "E_STORAGE"
    monkeypatch.undo()
    assert scratch.append(np.zeros(4, dtype=np.uint8)) == 16, "a block of the key stream is used once"


def test_rows_come_back_in_their_pieces(tmp_path):
    rng = np.random.default_rng(1)
    hashes = rng.integers(0, 2**64, (100, 2), dtype=np.uint64)
    codes = rng.integers(0, 2**32, (2, 100), dtype=np.uint32)
    rows = RowFile(tmp_path, 2)
    extents = [rows.put(hashes[a:b], codes[:, a:b]) for a, b in ((0, 33), (33, 34), (34, 100))]
    part = rows.get(extents)
    np.testing.assert_array_equal(part.hashes, hashes)
    np.testing.assert_array_equal(part.codes, codes)
    np.testing.assert_array_equal(rows.get(extents[1:2]).hashes, hashes[33:34])


@pytest.mark.parametrize("room", [10_000, 4000, 900, 130, 7])
def test_buckets_sorted_one_by_one_are_the_whole_sorted(room, tmp_path):
    """The order of all rows is that of the buckets end to end, however small they are."""
    n = 5000
    rng = np.random.default_rng(2)
    hashes = rng.integers(0, 2**64, (n, 2), dtype=np.uint64)
    codes = np.arange(n, dtype=np.uint32)
    memory = room * (row_files.SORT_BYTES + row_files.COLUMN_BYTES)
    deal = Deal(tmp_path, n, 1, memory)
    for batch in np.array_split(np.arange(n), 9):
        deal.add(aes.encrypt(KEY, hashes[batch]), hashes[batch], [codes[batch]])
    found, sizes = [], []
    for part in deal.buckets():
        order = row_order(KEY, part.hashes)
        found.append((part.hashes[order], part.codes[0][order]))
        sizes.append(len(order))
    keys = aes.encrypt(KEY, hashes)
    expected = np.lexsort((keys[:, 1], keys[:, 0]))
    np.testing.assert_array_equal(np.concatenate([one[0] for one in found]), hashes[expected])
    np.testing.assert_array_equal(np.concatenate([one[1] for one in found]), expected)
    # Six standard deviations of a binomial bucket beyond its mean.
    assert max(sizes) <= room + 6 * room**0.5


def test_rows_that_become_wide_come_in_smaller_buckets(tmp_path):
    """What the caller makes of a bucket counts against the same memory."""
    n, memory = 20_000, 1 << 20
    hashes = np.random.default_rng(3).integers(0, 2**64, (n, 2), dtype=np.uint64)
    for row_bytes in (0, 8, 800):
        deal = Deal(tmp_path, n, 0, memory, row_bytes)
        deal.add(aes.encrypt(KEY, hashes), hashes)
        sizes = [len(part.hashes) for part in deal.buckets()]
        assert sum(sizes) == n
        assert max(sizes) * (row_files.SORT_BYTES + row_bytes) < memory * 1.1
        deal.close()


def test_short_reads_and_writes_are_continued(tmp_path, monkeypatch):
    """A disk may take or give less than was asked; a file that ends too soon is an error."""
    pread, pwrite = os.pread, os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, place: pwrite(fd, data[:7], place))
    monkeypatch.setattr(os, "pread", lambda fd, size, place: pread(fd, min(size, 5), place))
    scratch = Scratch(tmp_path)
    data = np.arange(100, dtype=np.uint8)
    place = scratch.append(data)
    assert scratch.read(place, 100).tobytes() == data.tobytes()
    with pytest.raises(ScratchError, match="is truncated"):
        scratch.read(place, 101)
