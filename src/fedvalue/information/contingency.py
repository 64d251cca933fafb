"""Joint counts: the one table from which every coalition's table is a marginal.

Identical rows collapse to weighted items (task code, party codes, label, count). Plain and private
computation meet here: a local table, streamed files and every protocol deliver `JointCounts`, and nothing
above knows which.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from fedvalue.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fedvalue.typing import Codes, Counts


@dataclass(frozen=True, slots=True, eq=False)
class Codebook:
    """The features behind a party's joint code.

    Args:
        features: Names of the columns.
        codes: Code of every feature for every joint code, shape (n_codes, n_features).
    """

    features: tuple[str, ...]
    codes: NDArray[np.int64] = field(repr=False)

    def __post_init__(self) -> None:
        if self.codes.ndim != 2 or self.codes.shape[1] != len(self.features):
            raise InputError(
                f"a codebook of {len(self.features)} features needs as many columns, got {self.codes.shape}"
            )

    @property
    def n_codes(self) -> int:
        """Number of joint codes."""
        return int(self.codes.shape[0])

    @property
    def n_features(self) -> int:
        """Number of feature columns."""
        return len(self.features)


@dataclass(frozen=True, slots=True, eq=False)
class JointCounts:
    """Distinct rows of the joint table and the number of samples of each.

    Args:
        task: Code of X_t per item, shape (n_items,); all zeros when the task party has no features. Codes are
            of any integer type: widen them before you multiply.
        parties: Code of each data party per item, shape (n_items, n_parties).
        label: Code of Y per item, shape (n_items,).
        count: Number of samples per item, all positive, shape (n_items,).
        names: One name per data party, in column order.
        n_codes: Size of each party's code range, in column order.
        codebooks: Per data party, the features behind its joint code; None: the joint code is the feature.
        task_codebook: The same for X_t.
    """

    task: NDArray[np.integer] = field(repr=False)
    parties: NDArray[np.integer] = field(repr=False)
    label: NDArray[np.integer] = field(repr=False)
    count: Counts = field(repr=False)
    names: tuple[str, ...]
    n_codes: tuple[int, ...]
    codebooks: tuple[Codebook, ...] | None = field(default=None, repr=False)
    task_codebook: Codebook | None = field(default=None, repr=False)

    @classmethod
    def from_columns(
        cls,
        *,
        label: NDArray[np.integer],
        parties: Mapping[str, NDArray[np.integer]],
        task: NDArray[np.integer] | None = None,
        count: Counts | None = None,
        n_codes: Sequence[int] | None = None,
        codebooks: Sequence[Codebook] | None = None,
        task_codebook: Codebook | None = None,
    ) -> JointCounts:
        """Count the distinct rows of aligned code columns.

        Args:
            label: Code of Y per sample.
            parties: Code column per data party.
            task: Code of X_t per sample, or None.
            count: Weight of each row (integers); 1 each when None.
            n_codes: Size of each party's code range; largest code + 1 when None.
            codebooks: One per data party, or None.
            task_codebook: Of X_t, or None.

        Raises:
            InputError: No parties, no samples, columns of different lengths, or a negative code.
        """
        label = np.asarray(label)
        n = len(label)
        if not parties:
            raise InputError("at least one data party is needed, got none")
        if n == 0:
            raise InputError("at least one sample is needed, got none")
        names = tuple(parties)
        own = np.zeros(n, dtype=np.uint8) if task is None else _column("the task party", task, n)
        columns = [_column(f"party {name!r}", parties[name], n) for name in names]
        if min(column.min() for column in (own, label, *columns)) < 0:
            raise InputError("codes must not be negative")
        if n_codes is None:
            n_codes = [int(column.max()) + 1 for column in columns]
        weights = np.ones(n, dtype=np.int64) if count is None else np.asarray(count, dtype=np.int64)
        first, totals = _collapse([own, label, *columns], weights)
        narrow = np.result_type(*(narrow_type(column) for column in columns))
        rows = np.empty((len(first), len(names)), dtype=narrow, order="F")
        for k, column in enumerate(columns):
            rows[:, k] = column[first]
        return cls(
            task=own[first].astype(narrow_type(own)),
            parties=rows,
            label=label[first].astype(narrow_type(label)),
            count=totals,
            names=names,
            n_codes=tuple(int(m) for m in n_codes),
            codebooks=None if codebooks is None else tuple(codebooks),
            task_codebook=task_codebook,
        )

    @property
    def n_samples(self) -> int:
        """Number of samples counted."""
        return int(self.count.sum())

    @property
    def n_items(self) -> int:
        """Number of distinct rows."""
        return len(self.count)

    @property
    def n_parties(self) -> int:
        """Number of data parties."""
        return len(self.names)


def narrow_type(codes: NDArray[np.integer]) -> np.dtype[np.unsignedinteger[Any]]:
    """The smallest unsigned type that holds these codes."""
    return np.min_scalar_type(int(codes.max(initial=0)))


def pack(columns: Sequence[NDArray[np.integer]]) -> Codes:
    """One dense code per distinct tuple of the columns, numbered in lexicographic order.

    Packs into 64-bit keys and re-numbers whenever the next column would overflow, so any
    number of columns works. Linear in the rows while the key range is of their size.
    """
    key, size = _shifted(columns[0])
    for column in columns[1:]:
        digit, width = _shifted(column)
        if size > _KEY_LIMIT // width:
            key, size = _dense(key, size)
        if size > _KEY_LIMIT // width:
            digit, width = _dense(digit, width)
        key *= width
        key += digit
        size *= width
    return _dense(key, size)[0]


_KEY_LIMIT = 2**62


def _shifted(column: NDArray[np.integer]) -> tuple[Codes, int]:
    """A copy of the column as 0 .. size-1; re-numbered first when its range is out of proportion."""
    key: Codes = np.array(column, dtype=np.int64)
    if len(key) == 0:
        return key, 1
    low, high = int(key.min()), int(key.max())
    key -= low
    if high - low >= 2**40:
        return _dense(key, high - low + 1)
    return key, high - low + 1


def _dense(key: Codes, size: int) -> tuple[Codes, int]:
    """The key's distinct values as 0, 1, … in their order, and their number. The key may be overwritten."""
    if len(key) == 0:
        return key, 1
    if size <= 4 * len(key) + 1024:
        rank = np.zeros(size, dtype=np.int64)
        rank[key] = 1
        np.cumsum(rank, out=rank)
        rank -= 1
        return rank[key], int(rank[-1]) + 1
    order = np.argsort(key)
    rank = key[order]
    is_new = rank[1:] != rank[:-1]
    rank[0] = 0
    np.cumsum(is_new, out=rank[1:])
    key[order] = rank
    return key, int(rank[-1]) + 1


def _column(who: str, codes: NDArray[np.integer], n: int) -> NDArray[np.integer]:
    codes = np.asarray(codes)
    if len(codes) != n:
        raise InputError(f"{who}: expected {n} samples as the label has, got {len(codes)}")
    return codes


def _collapse(columns: Sequence[NDArray[np.integer]], weights: Counts) -> tuple[NDArray[np.int64], Counts]:
    """The first of each set of equal rows, in lexicographic order, and its sum of weights (no zero sums)."""
    n = len(columns[0])
    if len(weights) != n:
        raise InputError(f"expected {n} weights, got {len(weights)}")
    if len(weights) and weights.min() < 0:
        raise InputError("weights must not be negative")
    key = pack(columns)
    totals = np.zeros(int(key.max()) + 1, dtype=np.int64)
    np.add.at(totals, key, weights)
    first = np.full(len(totals), -1, dtype=np.int64)
    first[key[::-1]] = np.arange(n - 1, -1, -1)
    keep = totals > 0
    if not keep.any():
        raise InputError("at least one sample is needed, got none")
    return first[keep], totals[keep]
