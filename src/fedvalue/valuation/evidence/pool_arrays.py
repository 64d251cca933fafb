"""The arrays that compiled fits of pools read, work in and write."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fedvalue.typing import Codes, Floats
    from fedvalue.valuation.evidence.evidence_pool import EvidenceArrays

BLOCK = 512
"""Most rows in a block: with 40 evidences, 160 KB of doubles."""

_LANES = 8
"""Doubles in the widest register: blocks are a multiple of it."""


class PoolRows(NamedTuple):
    """Evidences and rows; see `evidence_pool.EvidenceArrays`."""

    groups: NDArray[np.unsignedinteger]
    tables: Floats
    first: NDArray[np.int64]
    base: Floats
    label: Codes
    samples: Floats


class PoolRules(NamedTuple):
    """Constants of the fit; see `evidence_pool`. The first `n_items` take part."""

    n_items: int
    left_open: float
    penalty: float
    prior: float
    snap: float
    rounding: float
    most_steps: int


class PoolScratch(NamedTuple):
    """Buffers for pools of up to k evidences.

    Args:
        everything: Evidence of the only block, shape (n_evidences, n_other * stride); no rows where a table
            has several blocks.
        x: A pool's evidence of a block, shape (k, n_other * stride), k a multiple of 4.
        scaled: The same times weights.
        mean: Mean evidence of a block's rows, shape (k, stride).
        weight: Samples of each row.
        offset: Log-odds of label frequencies.
        log_odds: Of each alternative.
        p: Their probabilities.
        p_bits: The same memory as whole numbers, as for the other two.
        top: Largest log-odds of each row, 0 included.
        z: Normaliser of each row.
        z_bits: See above.
        spare: For functions of vectors.
        spare_bits: See above.
        hessian: Of the pool.
        lower: A factor of it.
        root: Its inverse, and three columns of zeros.
        vectors: Weights, trial weights, target, gradient and linear term; shape (5, k).
        places: Chosen, free flags, free places, wrong places; shape (4, k + 4).
    """

    everything: Floats
    x: Floats
    scaled: Floats
    mean: Floats
    weight: Floats
    offset: Floats
    log_odds: Floats
    p: Floats
    p_bits: NDArray[np.int64]
    top: Floats
    z: Floats
    z_bits: NDArray[np.int64]
    spare: Floats
    spare_bits: NDArray[np.int64]
    hessian: Floats
    lower: Floats
    root: Floats
    vectors: Floats
    places: NDArray[np.int64]


class PoolSums(NamedTuple):
    """Where the results of some pools go; see `evidence_pool.PoolFits`."""

    sums: Floats
    contributions: Floats
    weights: Floats
    likelihood: Floats
    log_odds: Floats


def pool_rows(arrays: EvidenceArrays) -> PoolRows:
    """The arrays that the kernels read."""
    return PoolRows(
        arrays.index, arrays.tables, arrays.first, arrays.base, arrays.label.astype(np.int64), arrays.count
    )


def pool_scratch(rows: PoolRows, n_chosen: int) -> PoolScratch:
    """Buffers for pools of up to `n_chosen` evidences."""
    k = -(-max(1, n_chosen) // 4) * 4
    n_other = rows.tables.shape[1]
    stride = -(-min(BLOCK, len(rows.label)) // _LANES) * _LANES
    wide = n_other * stride
    p, z, spare = np.zeros(wide), np.zeros(stride), np.zeros(wide)
    n_loaded = len(rows.first) if len(rows.label) <= stride else 0
    return PoolScratch(
        everything=np.zeros((n_loaded, wide)),
        x=np.zeros((k, wide)),
        scaled=np.zeros((k, wide)),
        mean=np.zeros((k, stride)),
        weight=np.zeros(stride),
        offset=np.zeros(wide),
        log_odds=np.zeros(wide),
        p=p,
        p_bits=p.view(np.int64),
        top=np.zeros(stride),
        z=z,
        z_bits=z.view(np.int64),
        spare=spare,
        spare_bits=spare.view(np.int64),
        hessian=np.zeros((k, k)),
        lower=np.zeros((k, k)),
        root=np.zeros((k, k + 4)),
        vectors=np.zeros((5, k)),
        places=np.zeros((4, k + 4), dtype=np.int64),
    )
