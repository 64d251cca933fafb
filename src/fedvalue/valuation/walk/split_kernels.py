"""Compiled: the parts of a counted block by each column, and what they cost.

- Each function writes Σ c(B') over the parts B' of the block by each column, -1 where the block is constant,
  and lists the impure parts.
- They differ in how many labels there are and how many words their counts take; any block could take
  `split_wide`.
- `table` is a `BlockTable`, `scratch` a `BlockScratch`, `n_walked` the number of columns whose parts are
  listed, and `m` the number of items.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,no-any-return,arg-type,assignment,call-arg"
# numba infers the types of compiled functions from their arguments.

from __future__ import annotations

import numpy as np

from fedvalue.compiled import inner_kernel, xi_of


@inner_kernel
def split_two(table, scratch, n_walked, m, bits):  # noqa: PLR0915 - one loop, kept together for speed
    """Split a block of two labels, both counts in one word and ξ in its table; clear the cells.

    Without branches: cells that are empty, pure or impure follow each other at random, and guessing them
    wrong would take longer than the arithmetic. A pure cell costs ξ(N) − ξ(N) − ξ(0) = 0 exactly. Parts are
    written down always and counted if impure, so their arrays hold one more.

    Returns:
        How many columns split the block, how many walked parties do, and how many parts these make.
    """
    cells, first_cell, modal, multiplicity = table.cells, table.first_cell, table.modal, table.multiplicity
    xi, items, counted, whole, remains = (
        table.xi,
        scratch.items,
        scratch.counted,
        scratch.whole,
        scratch.remains,
    )
    part_key, part_cell, part_column = scratch.part_key, scratch.part_cell, scratch.part_column
    shift = np.uint64(bits)
    ones = (np.uint64(1) << shift) - np.uint64(1)
    all_hash = whole[0]
    n_free = 0
    players = np.int64(0)
    n_parts = 0
    for column in range(len(multiplicity)):
        start = first_cell[column]
        n_cells = first_cell[column + 1] - start
        by_item = n_cells > m
        n_scan = m if by_item else n_cells
        rest_hash = all_hash
        rest = whole[1]
        remaining = 0.0
        constant = False
        before = n_parts
        walked = column < n_walked
        for j in range(n_scan):
            cell = np.uint64(cells[items[j], column]) if by_item else np.uint64(start + j)
            at = cell << np.uint64(1)
            h = counted[at]
            packed = counted[at | np.uint64(1)]
            counted[at] = 0
            counted[at | np.uint64(1)] = 0
            rest_hash -= h
            rest -= packed
            one = packed & ones
            other = packed >> shift
            remaining += xi[one + other] - xi[one] - xi[other]
            constant |= h == all_hash
            part_key[n_parts] = h
            part_cell[n_parts] = cell
            part_column[n_parts] = column
            n_parts += (one != 0) & (other != 0) & walked
        # The modal cell, by subtraction.
        one = rest & ones
        other = rest >> shift
        remaining += xi[one + other] - xi[one] - xi[other]
        part_key[n_parts] = rest_hash
        part_cell[n_parts] = modal[column]
        part_column[n_parts] = column
        n_parts += (one != 0) & (other != 0) & walked
        if constant or rest_hash == all_hash:
            n_parts = before
            remains[column] = -1.0
            continue
        remains[column] = remaining
        n_free += 1
        if walked:
            players += multiplicity[column]
    return n_free, players, n_parts


@inner_kernel
def split_narrow(table, scratch, n_walked, m, bits):  # noqa: PLR0915 - as above
    """Split a block whose label counts fit into one word, which is nearly every block; clear the cells.

    Returns:
        How many columns split the block, how many walked parties do, and how many parts these make.
    """
    cells, first_cell, modal, multiplicity = table.cells, table.first_cell, table.modal, table.multiplicity
    xi, items, counted, whole, remains = (
        table.xi,
        scratch.items,
        scratch.counted,
        scratch.whole,
        scratch.remains,
    )
    part_key, part_cell, part_column = scratch.part_key, scratch.part_cell, scratch.part_column
    shift = np.uint64(bits)
    ones = (np.uint64(1) << shift) - np.uint64(1)
    n_free = 0
    players = np.int64(0)
    n_parts = 0
    for column in range(len(multiplicity)):
        start = first_cell[column]
        n_cells = first_cell[column + 1] - start
        by_item = n_cells > m
        n_scan = m if by_item else n_cells
        rest_hash = whole[0]
        rest = whole[1]
        remaining = 0.0
        constant = False
        # One round more than there are cells: the last one is for the modal cell, by subtraction.
        for j in range(n_scan + 1):
            if j == n_scan:
                h = rest_hash
                packed = rest
                cell = np.uint64(modal[column])
            else:
                cell = np.uint64(cells[items[j], column]) if by_item else np.uint64(start + j)
                at = cell << np.uint64(1)
                h = counted[at]
                if h == 0:
                    continue
                packed = counted[at | np.uint64(1)]
                counted[at] = 0
                counted[at | np.uint64(1)] = 0
                rest_hash -= h
                rest -= packed
            if h == whole[0]:
                constant = True
                break
            counts = packed
            number = counts & ones
            counts >>= shift
            while number == 0 and counts != 0:
                number = counts & ones
                counts >>= shift
            if counts == 0:
                continue  # pure, or empty
            part = np.int64(number)
            part_xi = xi_of(part, xi)
            while counts != 0:
                number = counts & ones
                counts >>= shift
                part += np.int64(number)
                part_xi += xi_of(np.int64(number), xi)
            remaining += xi_of(part, xi) - part_xi
            if column < n_walked:
                part_key[n_parts] = h
                part_cell[n_parts] = cell
                part_column[n_parts] = column
                n_parts += 1
        if constant:
            remains[column] = -1.0
            continue
        remains[column] = remaining
        n_free += 1
        if column < n_walked:
            players += multiplicity[column]
    return n_free, players, n_parts


@inner_kernel
def split_wide(table, scratch, n_walked, m, bits, n_words):  # noqa: PLR0912, PLR0915 - as above
    """The same for label counts that take several words."""
    cells, first_cell, modal, multiplicity = table.cells, table.first_cell, table.modal, table.multiplicity
    xi, items, counted, whole, remains = (
        table.xi,
        scratch.items,
        scratch.counted,
        scratch.whole,
        scratch.remains,
    )
    part_key, part_cell, part_column = scratch.part_key, scratch.part_cell, scratch.part_column
    shift = np.uint64(bits)
    ones = (np.uint64(1) << shift) - np.uint64(1)
    rest = scratch.rest
    stride = np.int64(n_words + 1)
    n_free = 0
    players = np.int64(0)
    n_parts = 0
    for column in range(len(multiplicity)):
        start = first_cell[column]
        n_cells = first_cell[column + 1] - start
        by_item = n_cells > m
        n_scan = m if by_item else n_cells
        for w in range(stride):
            rest[w] = whole[w]
        remaining = 0.0
        constant = False
        for j in range(n_scan + 1):
            cell = modal[column]
            if j < n_scan:
                cell = np.int64(cells[items[j], column]) if by_item else start + j
                if counted[cell * stride] == 0:
                    continue
                for w in range(stride):
                    rest[w] -= counted[cell * stride + w]
            part = np.int64(0)
            part_xi = 0.0
            n_present = 0
            h = rest[0] if j == n_scan else counted[cell * stride]
            constant = constant or h == whole[0]
            for w in range(1, stride):
                packed = rest[w] if j == n_scan else counted[cell * stride + w]
                while packed != 0:
                    number = np.int64(packed & ones)
                    packed >>= shift
                    if number > 0:
                        part += number
                        part_xi += xi_of(number, xi)
                        n_present += 1
            if j < n_scan:
                for w in range(stride):
                    counted[cell * stride + w] = 0
            if n_present > 1 and not constant:
                remaining += xi_of(part, xi) - part_xi
                if column < n_walked:
                    part_key[n_parts] = h
                    part_cell[n_parts] = cell
                    part_column[n_parts] = column
                    n_parts += 1
        if constant:
            remains[column] = -1.0
            continue
        remains[column] = remaining
        n_free += 1
        if column < n_walked:
            players += multiplicity[column]
    return n_free, players, n_parts
