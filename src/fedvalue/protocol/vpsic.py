"""`vpsic`, the journal version's protocol: verifiable private set intersection cardinality with one server.

Han, Wang, Wu, Fang, MIS Quarterly 50(1), 2026, Algorithm 1. Roles without I/O, for runs in one process:
`fedvalue.value(..., protocol="vpsic")`. It serves comparison, not deployment: docs/security.md shows a
cheating server that passes its checks.

1. The task party draws a round: q, the number of artificial ids, a key.
2. Every party uploads q encrypted copies of each id with its category, and the artificial ids with random
   categories. Data parties send these categories to the task party.
3. The server counts every combination of categories.
4. The task party subtracts the artificial counts and checks: nothing below 0, everything divisible by q, the
   same result as in the round before. Hardened: the total, and every party's own marginals.

A *category* is a pseudo-category: a party's joint code under a secret renaming. The task party's joint code
includes the label.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from fedvalue.crypto import aes, keys
from fedvalue.crypto.hashing import hash_ids
from fedvalue.crypto.permute import numbers, permutation
from fedvalue.crypto.sorting import sort_blocks
from fedvalue.errors import InputError, RemoteProtocolError, VerificationError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fedvalue.crypto.aes import Blocks
    from fedvalue.crypto.ids import PackedIds
    from fedvalue.typing import Codes

MOST_ROUNDS = 20
MOST_COPIES = 255
_RUN = b"vpsic"


@dataclass(frozen=True, slots=True)
class VpsicSettings:
    """The agreed settings.

    Args:
        rounds: τ, the number of times that everything is counted.
        least_q: Smallest number of copies of an id.
        most_q: Largest; each round draws q uniformly, unknown to the server.
        artificial: Most artificial ids of a round, as a part of the number of samples; each round draws their
            number from 1 to this.
        harden: Also check the total and every party's own marginals, which the published checks do not.
    """

    rounds: int = 2
    least_q: int = 2
    most_q: int = 8
    artificial: float = 0.5
    harden: bool = True

    def __post_init__(self) -> None:
        if not 1 <= self.rounds <= MOST_ROUNDS:
            raise InputError(f"rounds must be 1 to {MOST_ROUNDS}, got {self.rounds}")
        if not 1 <= self.least_q <= self.most_q <= MOST_COPIES:
            raise InputError(
                f"q must be drawn from 1 <= least_q <= most_q <= {MOST_COPIES}, got {self.least_q} to "
                f"{self.most_q}"
            )
        if not 0 < self.artificial <= 100:
            raise InputError(f"artificial must be above 0 and at most 100, got {self.artificial}")


@dataclass(frozen=True, slots=True)
class Round:
    """A round's plan, drawn by the task party and sent to the data parties; the server does not see it.

    Args:
        index: Number of the round, from 0.
        q: Copies of every id.
        n_artificial: Number of artificial ids.
        key: Key under which ids are encrypted in this round.
    """

    index: int
    q: int = field(repr=False)
    n_artificial: int = field(repr=False)
    key: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class Upload:
    """A party's table for the server: encrypted ids in rising order, and the category of each."""

    party: str
    tokens: Blocks = field(repr=False)
    categories: Codes = field(repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class ArtificialTable:
    """A data party's categories of the artificial ids, in their agreed order, for the task party."""

    party: str
    categories: Codes = field(repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class CellCounts:
    """The server's answer: every combination of categories that occurs, and its cardinality.

    Args:
        cells: Categories, one row per combination, one column per party in the order of the uploads.
        counts: Cardinality of each.
    """

    cells: NDArray[np.int64] = field(repr=False)
    counts: NDArray[np.int64] = field(repr=False)


class VpsicParty:
    """A party: renames its codes, duplicates and encrypts its ids.

    Args:
        name: The party.
        ids: Its sample ids.
        codes: Its joint code per sample; the task party's include the label.
        n_codes: Size of the code range.
        secret: 32 bytes from which its renaming and its artificial categories derive.
    """

    def __init__(self, name: str, ids: PackedIds, codes: Codes, n_codes: int, *, secret: bytes) -> None:
        self.name = name
        self._ids = ids
        self._secret = secret
        self._renamed = permutation(self._subkey("renaming"), n_codes)
        self._n_codes = n_codes
        self._categories = self._renamed[codes]

    @property
    def marginal(self) -> NDArray[np.int64]:
        """Number of samples in each category."""
        return np.bincount(self._categories, minlength=self._n_codes)

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        return len(self._categories)

    def codes_of(self, categories: Codes) -> Codes:
        """Our codes behind our categories."""
        return np.argsort(self._renamed)[categories]

    def artificial(self, plan: Round) -> ArtificialTable:
        """Our random categories of the artificial ids."""
        key = self._subkey(f"artificial/{plan.index}")
        return ArtificialTable(self.name, numbers(key, plan.n_artificial, 0, self._n_codes - 1))

    def upload(self, plan: Round) -> Upload:
        """Our table for the server."""
        real = _copies(hash_ids(keys.subkey(plan.key, _RUN, "id", length=16), self._ids), plan.q)
        artificial = aes.counter_blocks(plan.n_artificial, prefix=2**63)
        encrypted = [
            aes.encrypt(keys.subkey(plan.key, _RUN, kind, length=16), blocks)
            for kind, blocks in (("real", real), ("artificial", artificial))
        ]
        tokens, order = sort_blocks(np.concatenate(encrypted))
        categories = np.concatenate([np.repeat(self._categories, plan.q), self.artificial(plan).categories])
        return Upload(self.name, tokens, categories[order])

    def _subkey(self, purpose: str) -> bytes:
        return keys.subkey(self._secret, _RUN, purpose, self.name, length=16)


def _copies(hashes: aes.Blocks, q: int) -> aes.Blocks:
    """Every id's hash q times, each combined with the number of its copy."""
    blocks = np.repeat(hashes, q, axis=0)
    blocks[:, 1] ^= np.tile(np.arange(q, dtype=np.uint64), len(hashes))
    return blocks


class VpsicServer:
    """Counts combinations. Sees encrypted ids and categories, neither ids nor codes, nor q."""

    def count(self, index: int, uploads: Sequence[Upload]) -> CellCounts:
        """Every combination of categories that occurs in a round.

        Raises:
            VerificationError: The parties did not upload the same encrypted ids (E_POPULATION).
        """
        del index
        for other in uploads[1:]:
            if not np.array_equal(uploads[0].tokens, other.tokens):
                raise VerificationError(
                    f"{uploads[0].party!r} and {other.party!r} do not hold the same sample ids",
                    code="E_POPULATION",
                )
        rows = np.column_stack([upload.categories for upload in uploads])
        cells, counts = np.unique(rows, axis=0, return_counts=True)
        return CellCounts(cells, counts)


class VpsicTaskParty(VpsicParty):
    """Plans rounds and checks the server's answers."""

    def __init__(
        self, name: str, ids: PackedIds, codes: Codes, n_codes: int, *, secret: bytes, settings: VpsicSettings
    ) -> None:
        super().__init__(name, ids, codes, n_codes, secret=secret)
        self._settings = settings
        self._accepted: dict[tuple[int, ...], int] | None = None
        self._next = 0

    def plan(self) -> Round:
        """The next round's secrets."""
        most = max(1, round(self._settings.artificial * self.n_samples))
        k = self._next
        q = numbers(self._subkey(f"q/{k}"), 1, self._settings.least_q, self._settings.most_q)[0]
        n_artificial = numbers(self._subkey(f"n_r/{k}"), 1, 1, most)[0]
        return Round(k, int(q), int(n_artificial), self._subkey(f"round/{k}"))

    def check(
        self,
        plan: Round,
        answer: CellCounts,
        artificial: Sequence[ArtificialTable],
        marginals: Mapping[int, NDArray[np.int64]] | None = None,
    ) -> None:
        """Accept a round's answer.

        Args:
            plan: The round.
            answer: The server's.
            artificial: The parties' categories of the artificial ids, in the order of the uploads.
            marginals: Hardened: number of samples per category of each party, by the index of its upload.

        Raises:
            RemoteProtocolError: A round out of turn (E_STATE), or not a table of counts (E_RANGE).
            VerificationError: A check failed (E_FLOOR, E_ROUNDS, E_TOTAL, E_MARGINAL).
        """
        if plan.index != self._next or self._next >= self._settings.rounds:
            raise RemoteProtocolError(f"round {plan.index} is not the next one", code="E_STATE")
        real = _without_artificial(answer, artificial, plan.q)
        if self._accepted is not None and real != self._accepted:
            raise VerificationError(
                f"rounds {plan.index} and {plan.index + 1} have different counts", code="E_ROUNDS"
            )
        if self._settings.harden:
            self._check_marginals(real, marginals or {})
        self._accepted = real
        self._next += 1

    def _check_marginals(
        self, real: dict[tuple[int, ...], int], marginals: Mapping[int, NDArray[np.int64]]
    ) -> None:
        if sum(real.values()) != self.n_samples:
            raise VerificationError(
                f"counts add up to {sum(real.values())} instead of {self.n_samples} samples", code="E_TOTAL"
            )
        for place, expected in marginals.items():
            marginal = np.zeros_like(expected)
            for cell, count in real.items():
                if cell[place] >= len(marginal):
                    raise RemoteProtocolError("a combination that no party has", code="E_RANGE")
                marginal[cell[place]] += count
            if not np.array_equal(marginal, expected):
                raise VerificationError("counts do not add up to a party's own marginals", code="E_MARGINAL")

    @property
    def result(self) -> CellCounts:
        """The real counts, after the last round.

        Raises:
            RemoteProtocolError: A round is missing (E_STATE).
        """
        if self._accepted is None or self._next < self._settings.rounds:
            raise RemoteProtocolError(
                f"{self._next} of {self._settings.rounds} rounds were checked", code="E_STATE"
            )
        cells = sorted(self._accepted)
        return CellCounts(
            np.array(cells, dtype=np.int64),
            np.array([self._accepted[cell] for cell in cells], dtype=np.int64),
        )


def _without_artificial(
    answer: CellCounts, artificial: Sequence[ArtificialTable], q: int
) -> dict[tuple[int, ...], int]:
    """Real counts of the cells that have any.

    Raises:
        VerificationError: A count below the artificial one, or the rest is not a multiple of q (E_FLOOR).
    """
    counts = dict(zip(map(tuple, answer.cells.tolist()), answer.counts.tolist(), strict=True))
    if len(counts) != len(answer.counts) or min(counts.values(), default=0) < 0:
        raise RemoteProtocolError("the server's answer is not a table of counts", code="E_RANGE")
    for cell in zip(*(table.categories.tolist() for table in artificial), strict=True):
        counts[cell] = counts.get(cell, 0) - 1
    for count in counts.values():
        if count < 0 or count % q:
            raise VerificationError(
                "a cardinality is below the number of artificial ids, or not a multiple of q", code="E_FLOOR"
            )
    return {cell: count // q for cell, count in counts.items() if count}
