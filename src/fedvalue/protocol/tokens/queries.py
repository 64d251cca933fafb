"""The queries of a run of `single` or `paper`, and their cost.

A query is a coalition S with the task party and one value per member. By default only the grand
coalition's cells are asked: all other coalitions' tables are its marginals, because all parties hold
the same ids. With `by_coalition` every coalition's cells are asked, as the paper's Algorithm 1 does.

Everything here follows from the settings, so every participant computes the same plan. Which query
id stands for which cell only the parties know.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedvalue.crypto.aes import Blocks
from fedvalue.errors import InputError
from fedvalue.protocol.keyring import Keyring
from fedvalue.protocol.settings import NoiseKind, Settings

TOKEN_BYTES = 16
AUTHENTICATOR_BYTES = 8
MAX_QUERIES = 5_000_000
"""Every query costs every member a message, however few samples there are."""


@dataclass(frozen=True, slots=True)
class QueryTable:
    """The cells of one coalition: queries `first` to `first + n_cells - 1`, last member fastest."""

    coalition: tuple[str, ...]
    shape: tuple[int, ...]
    first: int

    @property
    def n_cells(self) -> int:
        """Number of cells."""
        return math.prod(self.shape)

    @property
    def cells(self) -> slice:
        """The cells' query numbers."""
        return slice(self.first, self.first + self.n_cells)

    def values(self, member: str) -> NDArray[np.int64]:
        """The value of one member in every cell, in the order of the queries."""
        axis = self.coalition.index(member)
        cells = np.unravel_index(np.arange(self.n_cells), self.shape)
        return np.asarray(cells[axis], dtype=np.int64)


def member_sizes(settings: Settings) -> dict[str, int]:
    """m_p of every party; the task party's values are pairs (x_t, y)."""
    sizes = {settings.task: settings.n_task_codes * settings.n_label_codes}
    return sizes | dict(zip(settings.parties, settings.n_codes, strict=True))


def coalitions(settings: Settings) -> list[tuple[str, ...]]:
    """The coalitions asked, the grand coalition first, the task party first in each."""
    if not settings.by_coalition:
        return [settings.everybody]
    n = len(settings.parties)
    return [
        (settings.task, *members)
        for size in range(n, 0, -1)
        for members in combinations(settings.parties, size)
    ]


def tables(settings: Settings) -> list[QueryTable]:
    """All tables of the run, with their query numbers."""
    sizes = member_sizes(settings)
    out, first = [], 0
    for coalition in coalitions(settings):
        table = QueryTable(coalition, tuple(sizes[member] for member in coalition), first)
        out.append(table)
        first += table.n_cells
    return out


def adversarial_per_cell(settings: Settings, table: QueryTable, ring: Keyring) -> NDArray[np.int64]:
    """n_r of every cell of a table. `single` has none."""
    rule, n = settings.n_r, table.n_cells
    if not uses_adversarial(settings):
        return np.zeros(n, dtype=np.int64)
    if rule.kind is NoiseKind.CONSTANT:
        return np.full(n, rule.amount, dtype=np.int64)
    if rule.kind is NoiseKind.TOTAL:
        each, rest = divmod(rule.amount, n)
        return each + (np.arange(n) < rest).astype(np.int64)
    return ring.adversarial_counts(n, rule.amount, "\0".join(table.coalition).encode())


def uses_adversarial(settings: Settings) -> bool:
    """Whether the protocol has adversarial samples at all."""
    return settings.protocol == "paper"


def copies(settings: Settings) -> int:
    """q; the single server gets one encryption id per sample."""
    return settings.q if settings.protocol == "paper" else 1


def has_authenticators(settings: Settings) -> bool:
    """Whether tokens carry authenticators (H2): they need a validation server."""
    return settings.h2 and settings.protocol == "paper"


def states_sizes(settings: Settings) -> bool:
    """Whether the computation server states the sizes of the sets, for the parties to check (H3)."""
    return settings.h3 and settings.protocol == "paper"


@dataclass(frozen=True, slots=True)
class Estimate:
    """The cost of a run before it starts. A random n_r or padding is counted at its maximum."""

    n_queries: int
    n_tokens: int
    n_bytes: int


def estimate(settings: Settings) -> Estimate:
    """Tokens sent by all parties, and bytes on all wires."""
    q, n = copies(settings), settings.n_samples
    width = TOKEN_BYTES + (AUTHENTICATOR_BYTES if has_authenticators(settings) else 0)
    n_queries = n_tokens = n_checked = 0
    for coalition in coalitions(settings):
        shape = [member_sizes(settings)[member] for member in coalition]
        n_cells = math.prod(shape)
        noise = _noise_at_most(settings, n_cells)
        real = sum(n * (n_cells if settings.pad else n_cells // size) for size in shape)
        n_queries += n_cells
        n_tokens += q * (real + len(coalition) * noise)
        n_checked += q * (n + noise)
    forwarded = n_checked if settings.protocol == "paper" else 0
    return Estimate(n_queries, n_tokens, width * (n_tokens + forwarded))


def _noise_at_most(settings: Settings, n_cells: int) -> int:
    if not uses_adversarial(settings):
        return 0
    rule = settings.n_r
    if rule.kind is not NoiseKind.TOTAL:
        return rule.amount * n_cells
    return -(-rule.amount // n_cells) * n_cells if settings.pad else rule.amount


def check_budget(settings: Settings) -> Estimate:
    """Refuse a run that needs more tokens than agreed, before anything is made.

    Raises:
        InputError: The estimate is above `max_tokens` (E_BUDGET).
    """
    cost = estimate(settings)
    if cost.n_tokens > settings.max_tokens or cost.n_queries > MAX_QUERIES:
        raise InputError(
            f"protocol {settings.protocol.value!r} needs {cost.n_tokens:.3g} tokens "
            f"({cost.n_bytes / 1e9:.3g} GB) for {cost.n_queries:.3g} queries, "
            f"above the limit of {settings.max_tokens:.3g} tokens or {MAX_QUERIES:.3g} queries",
            code="E_BUDGET",
        )
    return cost


def cut(
    settings: Settings, tokens: Blocks, sums: NDArray[np.uint64]
) -> Iterator[tuple[int, int, memoryview, memoryview]]:
    """Tokens and their authenticators in chunks: (index, total, bytes of both), not copied."""
    size = settings.chunk_bytes // TOKEN_BYTES
    total = max(1, -(-len(tokens) // size))
    for index in range(total):
        part = slice(index * size, (index + 1) * size)
        yield index, total, _bytes(tokens[part]), _bytes(sums[part])


def _bytes(words: NDArray[np.uint64]) -> memoryview:
    return words.astype("<u8", order="C", copy=False).reshape(-1).view(np.uint8).data


Stated: TypeAlias = tuple[int, tuple[int, ...]]
"""A server's answer to a query: the cardinality, and the sizes of the sets under H3."""


def result_digest_parts(answers: Mapping[bytes, Stated]) -> list[bytes]:
    """The parts that a server signs: its answers in the order of the query ids."""
    return [
        part
        for query, (count, sizes) in sorted(answers.items())
        for part in (query, *(number.to_bytes(8, "big", signed=True) for number in (count, *sizes)))
    ]
