"""Compiled: split a counted block by every free column.

Both functions credit each column with what it explains, share·[c(B) − Σ c(B')], and list the impure
parts B' with the mass they receive. They differ in how many words the label counts take.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,no-any-return,arg-type,assignment,call-arg"
# numba infers the types of compiled functions from their arguments.

from __future__ import annotations

import numpy as np
from numba import njit

from fedvalue.valuation.walk_count_kernel import xi_of


@njit(cache=True, nogil=True)
def split_narrow(  # noqa: PLR0915 - one loop, kept together for speed
    cells, first_cell, modal, multiplicity, items, m, free, n_free, share, cost, n_fields, weighted, bits, xi,
    counted, whole, gains, carry, part_key, part_share, part_size, part_cell, part_column,
):  # fmt: skip
    """Credit every free column with what it explains of the block, list the impure parts, clear the cells.

    For blocks whose label counts fit into one word, which is nearly all of them.
    """
    shift = np.uint64(bits)
    ones = (np.uint64(1) << shift) - np.uint64(1)
    item_shift = np.uint64(n_fields * bits)
    label_mask = (np.uint64(1) << item_shift) - np.uint64(1) if weighted else ~np.uint64(0)
    n_parts = 0
    for k in range(n_free):
        column = free[k]
        start = first_cell[column]
        n_cells = first_cell[column + 1] - start
        by_item = n_cells > m
        n_scan = m if by_item else n_cells
        rest_hash = whole[0]
        rest = whole[1]
        remains = 0.0
        given = share * multiplicity[column]
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
                packed = counted[at | np.uint64(1)]
                if h == 0:
                    continue
                counted[at] = 0
                counted[at | np.uint64(1)] = 0
                rest_hash -= h
                rest -= packed
            counts = packed & label_mask
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
            remains += xi_of(part, xi) - part_xi
            part_key[n_parts] = h
            part_share[n_parts] = given
            part_size[n_parts] = np.int64(packed >> item_shift) if weighted else part
            part_cell[n_parts] = cell
            part_column[n_parts] = column
            n_parts += 1
        _credit(gains, carry, column, share * (cost - remains))
    return n_parts


@njit(cache=True, nogil=True)
def split_wide(  # noqa: PLR0912 - as above
    cells, first_cell, modal, multiplicity, items, m, free, n_free, share, cost, n_fields, weighted, bits,
    n_words, xi,
    counted, whole, rest, gains, carry, part_key, part_share, part_size, part_cell, part_column,
):  # fmt: skip
    """The same for label counts that take several words."""
    shift = np.uint64(bits)
    ones = (np.uint64(1) << shift) - np.uint64(1)
    per_word = 64 // bits
    stride = np.int64(n_words + 1)
    n_parts = 0
    for k in range(n_free):
        column = free[k]
        start = first_cell[column]
        n_cells = first_cell[column + 1] - start
        by_item = n_cells > m
        n_scan = m if by_item else n_cells
        for w in range(stride):
            rest[w] = whole[w]
        remains = 0.0
        given = share * multiplicity[column]
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
            n_items = np.int64(0)
            h = rest[0] if j == n_scan else counted[cell * stride]
            for w in range(1, stride):
                packed = rest[w] if j == n_scan else counted[cell * stride + w]
                field = (w - 1) * per_word
                while packed != 0:
                    number = np.int64(packed & ones)
                    packed >>= shift
                    if field == n_fields:
                        n_items = number
                    elif number > 0:
                        part += number
                        part_xi += xi_of(number, xi)
                        n_present += 1
                    field += 1
            if j < n_scan:
                for w in range(stride):
                    counted[cell * stride + w] = 0
            if n_present > 1:
                remains += xi_of(part, xi) - part_xi
                part_key[n_parts] = h
                part_share[n_parts] = given
                part_size[n_parts] = n_items if weighted else part
                part_cell[n_parts] = cell
                part_column[n_parts] = column
                n_parts += 1
        _credit(gains, carry, column, share * (cost - remains))
    return n_parts


@njit(cache=True, nogil=True, inline="always")
def _credit(gains, carry, column, term):
    """Compensated sum (Kahan): many small terms go into one number."""
    term -= carry[column]
    bigger = gains[column] + term
    carry[column] = (bigger - gains[column]) - term
    gains[column] = bigger
