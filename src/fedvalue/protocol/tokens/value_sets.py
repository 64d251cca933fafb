"""A party's samples by value, the sets that the paper's queries are about, and the check of their sizes.

H3: a party's set must depend on its own value alone, not on the cell that is asked.

A query names one value per member, so a party that cheats may send another set for every cell: all
its ids where the others' values suit it, none elsewhere. Marginals (H1) and authenticators (H2) hold
then. But an honest member's set for value v has the same size in every cell, and its sets of all
values together have one sample each. The computation server sees the sizes and reports them with n_c,
under its signature; the parties, who know n_r of every cell, check them.

Parties learn nothing from the sizes: they see all counts, hence all marginals. A server that states
false sizes ends the run, and that is all it can do.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fedvalue.crypto import aes
from fedvalue.crypto.permute import row_order
from fedvalue.errors import VerificationError
from fedvalue.protocol.samples import CodedColumn
from fedvalue.protocol.tokens.queries import QueryTable


class ValueSets:
    """A_p(v): the hashes of our samples by value, cut from one sorted array."""

    def __init__(self, hashes: aes.Blocks, values: NDArray[np.int64], n_values: int) -> None:
        row_order(bytes(16), hashes)  # raises where an id occurs twice
        self._hashes = hashes[np.argsort(values, kind="stable")]
        self.sizes = np.bincount(values, minlength=n_values)
        self._starts = np.r_[0, np.cumsum(self.sizes)]

    def of(self, value: int) -> aes.Blocks:
        """The hashes of the samples with that value."""
        return self._hashes[self._starts[value] : self._starts[value + 1]]

    @property
    def largest(self) -> int:
        """Size of the largest set."""
        return int(self.sizes.max())


def own_values(columns: list[CodedColumn]) -> NDArray[np.int64]:
    """One value per sample: the task party's are pairs (x_t, y), numbered x_t · m_y + y."""
    values = np.zeros(len(columns[0].codes), dtype=np.int64)
    for column in columns:
        values = values * column.n_codes + column.codes
    return values


def real_sizes(
    table: QueryTable, member: str, stated: Sequence[int], noise: NDArray[np.int64], q: int, n_samples: int
) -> NDArray[np.int64]:
    """How many samples a member has per value, from the sizes of its sets in all cells of a table.

    Args:
        table: The cells.
        member: Whose sets.
        stated: Number of tokens per cell, as the computation server says.
        noise: n_r of the same cells.
        q: Encryption ids per sample.
        n_samples: Number of samples of the run.

    Raises:
        VerificationError: The sizes depend on more than the member's value, or do not add up to the
            number of samples (E_SETS).
    """
    sizes, rest = np.divmod(np.array(stated, dtype=np.int64), q)
    sizes -= noise
    values = table.values(member)
    by_value = np.zeros(int(values.max()) + 1, dtype=np.int64)
    by_value[values] = sizes
    steady = not rest.any() and bool((sizes == by_value[values]).all())
    if not steady or int(by_value.min()) < 0 or int(by_value.sum()) != n_samples:
        raise VerificationError(
            f"the sets of {member!r} depend on more than its own value, or the server misstates them",
            code="E_SETS",
        )
    return by_value
