"""The input of pooled evidence: weighted rows of feature codes, each column owned by a party."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from fedvalue.errors import InputError
from fedvalue.information.contingency import Codebook, JointCounts, narrow_type

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fedvalue.typing import Codes, Counts

TASK = -1
"""Owner of the task party's columns."""


@dataclass(frozen=True, slots=True, eq=False)
class FeatureTable:
    """Rows of feature codes with a label and a count; several items may hold equal rows.

    Args:
        codes: Feature codes, shape (n_items, n_columns). Their numbering carries no meaning.
        label: Label code per item, shape (n_items,).
        count: Samples per item, positive, shape (n_items,).
        owner: Per column the index of the party that holds it, or TASK.
        parties: Names of the data parties.

    Raises:
        InputError: Sizes that do not agree, no samples, no parties, a negative code, a count below one, or
            an owner that is no party.
    """

    codes: NDArray[np.integer] = field(repr=False)
    label: Codes = field(repr=False)
    count: Counts = field(repr=False)
    owner: tuple[int, ...]
    parties: tuple[str, ...]

    def __post_init__(self) -> None:
        n, n_columns = self.codes.shape
        if len(self.label) != n or len(self.count) != n:
            raise InputError(f"expected {n} labels and counts, got {len(self.label)} and {len(self.count)}")
        if len(self.owner) != n_columns:
            raise InputError(f"expected {n_columns} owners, got {len(self.owner)}")
        if not self.parties:
            raise InputError("at least one data party is needed, got none")
        if n == 0:
            raise InputError("at least one sample is needed, got none")
        if self.count.min() < 1:
            raise InputError("counts must be at least 1")
        if self.label.min() < 0 or (n_columns and self.codes.min() < 0):
            raise InputError("codes must not be negative")
        unknown = [k for k in self.owner if not TASK <= k < len(self.parties)]
        if unknown:
            raise InputError(f"columns belong to party {unknown[0]} of {len(self.parties)}")

    @classmethod
    def from_columns(
        cls,
        *,
        label: NDArray[np.integer],
        parties: Mapping[str, Sequence[NDArray[np.integer]] | Mapping[str, NDArray[np.integer]]],
        task: Sequence[NDArray[np.integer]] | Mapping[str, NDArray[np.integer]] = (),
        count: Counts | None = None,
    ) -> FeatureTable:
        """A table from aligned code columns.

        Args:
            label: Label code per row.
            parties: The columns of each data party, by name or in order; a party may have none.
            task: The task party's columns.
            count: Samples per row, 1 each when None; rows of count 0 are left out.

        Raises:
            InputError: Columns of different lengths, or what the class refuses.
        """
        y: Codes = np.asarray(label, dtype=np.int64)
        n = len(y)
        weights = np.ones(n, dtype=np.int64) if count is None else np.asarray(count, dtype=np.int64)
        groups = [("task", TASK, task)] + [(name, k, parties[name]) for k, name in enumerate(parties)]
        owners, columns = [], []
        for who, owner, group in groups:
            named = group if isinstance(group, Mapping) else dict(enumerate(group))
            for feature, column in named.items():
                if len(column) != n:
                    raise InputError(f"column {feature!r} of {who!r}: expected {n} rows, got {len(column)}")
                owners.append(owner)
                columns.append(np.asarray(column))
        ends = [int(end) for column in columns if len(column) for end in (column.min(), column.max())]
        # Negative codes stay so, to be refused.
        narrow = np.result_type(np.uint8, *(np.min_scalar_type(end) for end in ends))
        codes = np.empty((n, len(columns)), dtype=narrow, order="F")
        for k, column in enumerate(columns):
            codes[:, k] = column
        kept = slice(None) if n and len(weights) == n and weights.min() > 0 else weights > 0
        return cls(codes[kept], y[kept], weights[kept], tuple(owners), tuple(parties))

    @classmethod
    def from_joint_codes(cls, counts: JointCounts) -> FeatureTable:
        """A table with one column per party, its joint code."""
        return cls.from_columns(
            label=counts.label,
            parties={name: [counts.parties[:, k]] for k, name in enumerate(counts.names)},
            task=[counts.task],
            count=counts.count,
        )

    @classmethod
    def from_counts(cls, counts: JointCounts) -> FeatureTable:
        """A table with the feature columns behind the joint codes; joint codes where there is no codebook.

        Raises:
            InputError: A codebook that does not cover the codes of its party, or with a negative code.
        """
        books = counts.codebooks or (None,) * counts.n_parties
        parties = {
            name: _decode(f"party {name!r}", books[k], counts.parties[:, k])
            for k, name in enumerate(counts.names)
        }
        own = _decode("the task party", counts.task_codebook, counts.task)
        return cls.from_columns(label=counts.label, parties=parties, task=own, count=counts.count)

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        return int(self.count.sum())

    @property
    def n_items(self) -> int:
        """Number of items."""
        return len(self.label)

    @property
    def n_parties(self) -> int:
        """Number of data parties."""
        return len(self.parties)

    @property
    def n_columns(self) -> int:
        """Number of feature columns, the task party's included."""
        return len(self.owner)


def _decode(
    who: str, book: Codebook | None, codes: NDArray[np.integer]
) -> Sequence[NDArray[np.integer]] | Mapping[str, NDArray[np.integer]]:
    if book is None:
        return [codes]
    if len(codes) and int(codes.max()) >= book.n_codes:
        raise InputError(f"codebook of {who}: expected {int(codes.max()) + 1} rows, got {book.n_codes}")
    if book.codes.min(initial=0) < 0:
        raise InputError(f"codebook of {who}: codes must not be negative")
    return {
        feature: column.astype(narrow_type(column))[codes]
        for feature, column in zip(book.features, book.codes.T, strict=True)
    }
