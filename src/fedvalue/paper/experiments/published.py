"""The cost of the procedures as published, for ratios within one run.

The paper's efficiency figures come from a simulation: plain integers in Python sets, no encryption and
no validation, one order of the parties, its time multiplied by |D|!. Its sampled valuations recount
every prefix of a permutation from scratch with Python counters. Both are written here from that
description, and only to be timed.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fedvalue.information.contingency import JointCounts
    from fedvalue.typing import Codes

ValueSets = list[list[int]]


def value_sets(codes: Codes, q: int) -> ValueSets:
    """The q encryption ids of each sample, grouped by the party's value; ids are plain integers."""
    n = len(codes)
    groups = []
    for value in np.unique(codes):
        samples = np.flatnonzero(codes == value)
        groups.append([int(i) + n * copy for copy in range(q) for i in samples])
    return groups


def intersect_one_order(task: ValueSets, parties: Sequence[ValueSets]) -> int:
    """One joining order: intersect every set so far with every set of the next party.

    Returns:
        The number of ids in the last intersections: all of them, when nothing was lost.
    """
    cells: Sequence[Sequence[int] | set[int]] = task
    for sets in parties:
        joined = (set(cell) & set(ids) for cell in cells for ids in sets)
        cells = [both for both in joined if both]
    return sum(map(len, cells))


def simulation_seconds(task: Codes, parties: Sequence[Codes], q: int) -> float:
    """Seconds for all orders: one is timed and multiplied by |D|!, as the paper does."""
    task_sets = value_sets(task, q)
    party_sets = [value_sets(codes, q) for codes in parties]
    start = time.process_time()
    n_ids = intersect_one_order(task_sets, party_sets)
    seconds = time.process_time() - start
    assert n_ids == q * len(task)  # every id is in exactly one cell
    return seconds * math.factorial(len(parties))


def random_codes(n_samples: int, n_values: int, n_columns: int, seed: int) -> NDArray[np.int64]:
    """Columns of the simulation: real and adversarial samples together, spread over the values."""
    return np.random.default_rng(seed).integers(0, n_values, size=(n_columns, n_samples))


def recount_seconds(counts: JointCounts, n_permutations: int, seed: int) -> float:
    """Seconds per permutation when every prefix is recounted with Python counters."""
    rows = np.repeat(np.arange(counts.n_items), counts.count)
    label = counts.label[rows].tolist()
    columns = [column.tolist() for column in counts.parties[rows].T]
    task = counts.task[rows].tolist()
    rng = np.random.default_rng(seed)
    start = time.process_time()
    for _ in range(n_permutations):
        known = [task]
        for d in rng.permutation(counts.n_parties):
            known.append(columns[d])
            _entropy(Counter(zip(*known, strict=True)))
            _entropy(Counter(zip(*known, label, strict=True)))
    return (time.process_time() - start) / n_permutations


def _entropy(counter: Counter[tuple[int, ...]]) -> float:
    n = counter.total()
    return -sum(k / n * math.log(k / n) for k in counter.values())
