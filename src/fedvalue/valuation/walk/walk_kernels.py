"""The compiled heart of the exact walk: all blocks of one region, each split once by every party.

See `exact.py` for the theory. A block is known by its key (the sum of its items' random 64-bit hashes: among
the 10^6 blocks of a region two share a key with probability 3·10^-8), its masses, one item of it (the
*witness*) and the set of columns that made it (the *generator*): its items are those that agree with the
witness on the generator. So a block takes a few words, however many items it has.

Blocks are found by key in an open hash table whose slots hold the key and the masses side by side, one cache
line per look-up. The blocks of one rank, the number of walked columns on which they are constant, form a
linked list; parts have a larger rank, so that going through the lists by rising rank meets every block after
it has received all its mass.

`walk_blocks` returns when the parts of the next block might not fit: its caller then enlarges the `BlockSet`.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,no-any-return,arg-type,assignment,call-arg"
# numba infers the types of compiled functions from their arguments.

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fedvalue.compiled import add_compensated, bit_index, inlined_kernel, inner_kernel, kernel
from fedvalue.valuation.frozen_random import GOLDEN
from fedvalue.valuation.walk.block_kernels import block_items, count_cells, is_constant, label_runs
from fedvalue.valuation.walk.split_kernels import split_narrow, split_two, split_wide

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fedvalue.typing import Floats

SMALL_BLOCK = 128
"""Up to this number of items, comparing them one by one is faster than intersecting bit sets."""

COUNT, DONE, WORK, RANK = range(4)
"""Places in `BlockSet.counters`: blocks found, blocks split, items times columns of those, rank in hand."""

WITNESS, SLOT, NEXT, GENERATOR = range(4)
"""Columns of `BlockSet.entries`: one item, the slot of key and masses, the next entry of the same rank
(counted from 1; 0 ends the list), and from there on the generator. An entry of up to 63 columns is half a
cache line."""

# Fibonacci hashing spreads keys; the middle bits of the product are the best mixed.
_MULTIPLIER = np.uint64(GOLDEN)
_SHIFT = np.uint64(20)


class BlockSet(NamedTuple):
    """The blocks of a region, each once, and what their splits have given so far.

    Args:
        slots: Hash table: key and masses of each block; a key of 0 marks an empty slot.
        masses: The same memory as floating-point numbers.
        entries: One row per block, see `GENERATOR`.
        heads: First entry of each rank that waits, counted from 1; 0 for none.
        counters: See `COUNT`.
        gains: What each column has explained, times the number of samples.
        carry: What the compensated sums of `gains` still owe.
        shares: Mass per player of the block in hand, by number of awaited parties that came.
    """

    slots: NDArray[np.uint64]
    masses: Floats
    entries: NDArray[np.uint64]
    heads: NDArray[np.int64]
    counters: NDArray[np.int64]
    gains: Floats
    carry: Floats
    shares: Floats


@inlined_kernel
def _place(slots, mask, stride, h):
    """Where the key is, or the empty place where it belongs (linear probing)."""
    slot = (h * _MULTIPLIER >> _SHIFT) & mask
    while slots[slot * stride] != h and slots[slot * stride] != 0:
        slot = (slot + np.uint64(1)) & mask
    return slot * stride


@inner_kernel
def _describe(table, scratch, cell, n_walked):
    """The first item of a part of the block in hand, its rank, and whether it can be split at all."""
    words, part_words = scratch.words, scratch.part_words
    row = table.bitset_row[cell]
    if row >= 0:
        for w in range(len(words)):
            part_words[w] = words[w] & table.bitsets[row, w]
    else:
        for w in range(len(words)):
            part_words[w] = 0
        for k in range(table.members_start[cell], table.members_start[cell + 1]):
            item = table.members[k]
            w = item >> np.uint32(6)
            part_words[w] |= words[w] & (np.uint64(1) << np.uint64(item & np.uint32(63)))
    w = 0
    while part_words[w] == 0:
        w += 1
    first = (w << 6) + bit_index(part_words[w])
    rank = 0
    n_constant = 0
    for column in range(len(table.multiplicity)):
        if is_constant(table, part_words, first, column):
            n_constant += 1
            rank += column < n_walked
    return first, rank, n_constant < len(table.multiplicity)


@inner_kernel
def _describe_small(table, scratch, m, column, cell, n_walked):
    """The same for a block of few items: look through them.

    `table.rows` holds the codes of an item side by side in lanes of 64-bit words, so that one XOR compares
    several columns.
    """
    cells, rows, items, differs = table.cells, table.rows, scratch.items, scratch.differs
    at = 0
    while cells[items[at], column] != cell:
        at += 1
    first = np.int64(items[at])
    for w in range(len(differs)):
        differs[w] = 0
    for i in range(at + 1, m):
        item = items[i]
        if cells[item, column] == cell:
            for w in range(len(differs)):
                differs[w] |= rows[item, w] ^ rows[first, w]
    per_word = 64 // table.lane_bits
    lane = (np.uint64(1) << np.uint64(table.lane_bits)) - np.uint64(1)
    rank = n_walked
    varies = False
    other = 0
    for w in range(len(differs)):
        word = differs[w]
        varies = varies or word != 0
        for _ in range(min(per_word, n_walked - other)):
            rank -= (word & lane) != 0
            word >>= np.uint64(table.lane_bits)
        other += min(per_word, n_walked - other)
    return first, rank, varies


@inner_kernel
def _pass_on(table, scratch, blocks, n_walked, m, parent, n_parts, count):
    """Give every part its share of the masses and enter the new ones; return the new count of blocks.

    A part that no column splits further is left out: no party explains anything in it.
    """
    slots, masses, shares, multiplicity = blocks.slots, blocks.masses, blocks.shares, table.multiplicity
    part_key, part_cell, part_column = scratch.part_key, scratch.part_cell, scratch.part_column
    n_masses = len(shares)
    stride = np.uint64(n_masses + 1)
    mask = np.uint64(len(slots) // (n_masses + 1) - 1)
    # Touch all slots first, without a branch that would wait for one of them: their cache misses overlap.
    touched = np.uint64(0)
    for k in range(n_parts):
        slot = (part_key[k] * _MULTIPLIER >> _SHIFT) & mask
        touched += slots[slot * stride] ^ slots[slot * stride + stride - np.uint64(1)]
    part_key[n_parts] = touched  # so that the loop is not optimised away
    n_new = 0
    for k in range(n_parts):
        h = part_key[k]
        at = _place(slots, mask, stride, h)
        if slots[at] == h:
            times = multiplicity[part_column[k]]
            for j in range(n_masses):
                masses[at + np.uint64(1 + j)] += shares[j] * times
        else:
            part_key[n_new] = h
            part_cell[n_new] = part_cell[k]
            part_column[n_new] = part_column[k]
            n_new += 1
    for k in range(n_new):
        h = part_key[k]
        at = _place(slots, mask, stride, h)
        column = np.int64(part_column[k])
        times = multiplicity[column]
        if slots[at] != h:
            if m <= SMALL_BLOCK:
                first, rank, varies = _describe_small(table, scratch, m, column, part_cell[k], n_walked)
            else:
                first, rank, varies = _describe(table, scratch, np.int64(part_cell[k]), n_walked)
            if not varies:
                continue
            slots[at] = h
            new = blocks.entries[count]
            new[WITNESS] = first
            new[SLOT] = at
            new[NEXT] = blocks.heads[rank]
            for w in range(GENERATOR, len(new)):
                new[w] = parent[w]
            new[GENERATOR + (column >> 6)] |= np.uint64(1) << np.uint64(column & 63)
            blocks.heads[rank] = count + 1
            count += 1
        for j in range(n_masses):
            masses[at + np.uint64(1 + j)] += shares[j] * times
    return count


@kernel
def walk_blocks(region, scratch, blocks):  # noqa: PLR0915 - one loop, kept together for speed
    """Split the blocks that wait in `blocks.heads`, by rising rank, and their parts after them.

    Args:
        region: A `RegionTable`.
        scratch: A `BlockScratch`.
        blocks: A `BlockSet`.

    Returns:
        Whether all are split; if not, the parts of the next block might not fit.
    """
    table, n_walked, awaited = region.table, region.n_walked, region.awaited
    slots, masses, entries, heads = blocks.slots, blocks.masses, blocks.entries, blocks.heads
    shares, remains = blocks.shares, scratch.remains
    n_slots = len(slots) // (awaited + 2)
    limit = min(n_slots * 6 // 10, len(entries))
    count = blocks.counters[COUNT]
    rank = blocks.counters[RANK]
    n_done = blocks.counters[DONE]
    work = blocks.counters[WORK]
    complete = True
    touched = np.uint64(0)
    while rank <= n_walked:
        if heads[rank] == 0:
            rank += 1
            continue
        if count + len(scratch.part_key) > limit:
            complete = False
            break
        entry = entries[heads[rank] - 1]
        heads[rank] = entry[NEXT]
        if heads[rank] != 0:
            # Read ahead, so that the next block's masses are at hand when their turn comes.
            touched += slots[entries[heads[rank] - 1, SLOT]]
        m = block_items(table, scratch, entry[GENERATOR:], entry[WITNESS])
        n_fields, total, cost = label_runs(table, scratch, m)
        bits = np.int64(0)
        while (total >> bits) != 0:
            bits += 1
        n_words = (n_fields + 64 // bits - 1) // (64 // bits)
        count_cells(table, scratch, m, bits, n_words)
        if n_fields == 2 and n_words == 1 and total < len(table.xi):
            n_free, players, n_parts = split_two(table, scratch, n_walked, m, bits)
        elif n_words == 1:
            n_free, players, n_parts = split_narrow(table, scratch, n_walked, m, bits)
        else:
            n_free, players, n_parts = split_wide(table, scratch, n_walked, m, bits, n_words)
        # Whoever comes first: a column that splits the block, one that is awaited, one that ends the region.
        base = entry[SLOT] + np.uint64(1)
        arrived = 0.0
        for j in range(awaited + 1):
            shares[j] = (masses[base + np.uint64(j)] + arrived) / (players + awaited - j + region.exits)
            arrived = shares[j] * (awaited - j)
        for column in range(len(remains)):
            if remains[column] >= 0.0:
                gain = shares[awaited] * (cost - remains[column])
                add_compensated(blocks.gains, blocks.carry, column, gain)
        count = _pass_on(table, scratch, blocks, n_walked, m, entry, n_parts, count)
        n_done += 1
        work += m * n_free
    blocks.counters[COUNT] = count
    blocks.counters[RANK] = rank
    blocks.counters[DONE] = n_done
    blocks.counters[WORK] = work
    scratch.part_key[0] = touched  # so that reading ahead is not optimised away
    return complete


@kernel
def rehash(old_slots, entries, count, stride, slots):
    """Move keys and masses into a larger table."""
    mask = np.uint64(len(slots) // stride - 1)
    for entry in range(count):
        old = entries[entry, SLOT]
        at = _place(slots, mask, np.uint64(stride), old_slots[old])
        for j in range(stride):
            slots[at + np.uint64(j)] = old_slots[old + np.uint64(j)]
        entries[entry, SLOT] = at
