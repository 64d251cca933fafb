"""Compiled: the hash table of `cells`. A separate module, so that importing `cells` loads no compiler."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fedvalue.compiled import njit

if TYPE_CHECKING:
    from numpy.typing import NDArray


@njit(cache=True, nogil=True, inline="always")
def _first_slot(key: NDArray[np.int64], mask: np.uint64) -> np.uint64:
    """Where to look first: the words mixed by the finaliser of SplitMix64."""
    mixed = np.uint64(0)
    for w in range(key.shape[0]):
        mixed ^= np.uint64(key[w])
        mixed += np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed ^= mixed >> np.uint64(31)
    return mixed & mask


@njit(cache=True, nogil=True)
def enter_cells(slots: NDArray[np.int64], cells: NDArray[np.int64], n_cells: int) -> None:
    """Enter known cells into an empty slot table."""
    mask = np.uint64(slots.shape[0] - 1)
    for k in range(n_cells):
        slot = _first_slot(cells[k], mask)
        while slots[slot] >= 0:
            slot = (slot + np.uint64(1)) & mask
        slots[slot] = k


@njit(cache=True, nogil=True)
def count_rows(
    keys: NDArray[np.int64],
    weights: NDArray[np.int64],
    slots: NDArray[np.int64],
    cells: NDArray[np.int64],
    counts: NDArray[np.int64],
    n_cells: int,
    numbers: NDArray[np.int64],
) -> int:
    """Add each row to its cell, making the cell where there is none; the number of cells then."""
    mask = np.uint64(slots.shape[0] - 1)
    n_words = keys.shape[1]
    for row in range(keys.shape[0]):
        slot = _first_slot(keys[row], mask)
        while True:
            cell = slots[slot]
            if cell < 0:
                cell = n_cells
                slots[slot] = cell
                for w in range(n_words):
                    cells[cell, w] = keys[row, w]
                n_cells += 1
                break
            same = True
            for w in range(n_words):
                if cells[cell, w] != keys[row, w]:
                    same = False
                    break
            if same:
                break
            slot = (slot + np.uint64(1)) & mask
        counts[cell] += weights[row]
        numbers[row] = cell
    return n_cells
