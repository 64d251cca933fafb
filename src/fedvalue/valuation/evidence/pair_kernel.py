"""Compiled: leave-one-out gains of many pairs of columns (see `pair_search`)."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc"
# numba infers the types of compiled functions from their arguments.

from __future__ import annotations

import numpy as np

from fedvalue.compiled import njit


@njit(cache=True, nogil=True)
def judge(pairs, codes, n_codes, label, count, first, tables, base, strengths, room):
    """Gains of each strength and number of cells of each pair.

    Args:
        pairs: Columns of each pair, shape (n_pairs, 2).
        codes: Codes of all columns, shape (n_columns, n_items).
        n_codes: Number of codes of each column.
        label: Label per item.
        count: Samples per item.
        first: Place in `tables` of each column's first code and label, -1 where it has no evidence.
        tables: Log-odds of each code and label, column after column.
        base: Log-odds of label frequencies.
        strengths: Of the pool.
        room: Largest n_codes * n_codes * n_labels of a pair.
    """
    n_labels, n_other = base.shape
    n_items = len(label)
    gains = np.zeros((len(pairs), len(strengths)))
    n_cells = np.zeros(len(pairs), dtype=np.int64)
    samples = np.zeros(room)
    cell_samples = np.zeros(room // n_labels)
    example = np.empty(room, dtype=np.int64)
    touched = np.empty(min(room, n_items), dtype=np.int64)
    for k in range(len(pairs)):
        f, g = pairs[k, 0], pairs[k, 1]
        width = n_codes[g]
        left, right = codes[f], codes[g]
        n_touched = 0
        for i in range(n_items):
            cell = np.int64(left[i]) * width + np.int64(right[i])
            group = cell * n_labels + label[i]
            if samples[group] == 0.0:
                touched[n_touched] = group
                n_touched += 1
                example[group] = i
            samples[group] += count[i]
        for t in range(n_touched):
            group = touched[t]
            cell = group // n_labels
            if cell_samples[cell] == 0.0:
                n_cells[k] += 1
            cell_samples[cell] += samples[group]
        for t in range(n_touched):
            group = touched[t]
            i = example[group]
            z = 1.0
            for a in range(n_other):
                odds = base[label[i], a]
                for column in (f, g):
                    if first[column] >= 0:
                        odds += tables[first[column] + np.int64(codes[column, i]) * n_labels + label[i], a]
                z += np.exp(odds)
            rest = cell_samples[group // n_labels] - 1.0
            surplus = (samples[group] - 1.0) * z - rest
            for s in range(len(strengths)):
                gains[k, s] += samples[group] * np.log1p(surplus / (rest + strengths[s]))
        for t in range(n_touched):
            cell_samples[touched[t] // n_labels] = 0.0
            samples[touched[t]] = 0.0
    return gains, n_cells
