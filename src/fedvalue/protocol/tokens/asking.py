"""A party's work under `single` and `paper`: encrypted id sets out, cardinalities in.

Step 1 of the paper for every query, in a secret order, a bounded number of queries at a time; then
Step 4 for every answer, and, when all answers are here, the checks on the whole table (H1, H3).

H3: a party's set must depend on its own value alone, not on the cell that is asked. A query names one value
per member, so a cheating party may send a different set for every cell: all its ids where the others' values
suit it, none elsewhere. Marginals (H1) and authenticators (H2) still hold. But an honest member's set for
value v has the same size in every cell, and its sets of all values together contain each sample once. The
computation server sees the sizes and reports them with n_c, under its signature; the parties know n_r of
every cell and check them. They learn nothing from the sizes: they see all counts, hence all marginals. False
sizes from a server only end the run.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fedvalue.crypto import aes, keys
from fedvalue.crypto.hashing import adversarial_hashes
from fedvalue.crypto.masks import masks_of
from fedvalue.crypto.permute import row_order
from fedvalue.crypto.sorting import sort_tokens
from fedvalue.crypto.tokens import FORGED, INCOMPLETE, token_blocks, tokens
from fedvalue.errors import RemoteProtocolError, VerificationError
from fedvalue.information.contingency import JointCounts
from fedvalue.protocol import messages as m
from fedvalue.protocol.keyring import Credentials, Keyring
from fedvalue.protocol.outcome import Outcome
from fedvalue.protocol.samples import CodedColumn
from fedvalue.protocol.settings import ProtocolName, Settings
from fedvalue.protocol.signed_results import Work
from fedvalue.protocol.tokens import queries
from fedvalue.protocol.tokens.queries import QueryTable

WINDOW_BYTES = 4 * 1024 * 1024
"""Tokens that a party has under way before it waits for answers."""


class TokenWork(Work):
    """Queries and checks of one party."""

    def __init__(
        self,
        settings: Settings,
        name: str,
        ring: Keyring,
        *,
        hashes: aes.Blocks,
        columns: list[CodedColumn],
        credentials: Credentials,
    ) -> None:
        super().__init__(settings, name, ring, credentials, result_bytes=0, book=columns[0].codebook)
        self._q = queries.copies(settings)
        self._sets = ValueSets(hashes, own_values(columns), math.prod(c.n_codes for c in columns))
        self._tables = queries.tables(settings)
        n_queries = sum(table.n_cells for table in self._tables)
        self._query_ids = ring.query_ids(n_queries)
        self._number = {query: k for k, query in enumerate(self._query_ids)}
        self._noise = np.concatenate(
            [queries.adversarial_per_cell(settings, table, ring) for table in self._tables]
        )
        self._fakes = adversarial_hashes(ring.adversarial(), int(self._noise.max()))
        self._members = [k for k, table in enumerate(self._tables) for _ in range(table.n_cells)]
        self._values = np.concatenate([self._own_cells(table) for table in self._tables])
        order = ring.query_order(n_queries)
        self._todo = [int(k) for k in order if self._values[k] >= 0]
        self._n_mine = len(self._todo)
        self._next = 0
        self._asked: set[int] = set()
        self._answers: dict[str, dict[int, queries.Stated]] = {server: {} for server in settings.servers}
        self._accepted: dict[int, int] = {}
        self._seen_by: dict[str, bytes] = {}

    def _own_cells(self, table: QueryTable) -> NDArray[np.int64]:
        if self._name not in table.coalition:
            return np.full(table.n_cells, -1, dtype=np.int64)
        return table.values(self._name)

    # Step 1.

    def begin(self) -> list[m.Envelope]:
        """The first queries."""
        largest = self._q * 24 * (self._sets.largest + len(self._fakes))
        window = max(1, WINDOW_BYTES // max(1, largest))
        return self._own_codebook() + self._ask(window)

    def _ask(self, n_queries: int) -> list[m.Envelope]:
        chosen = self._todo[self._next : self._next + n_queries]
        self._next += len(chosen)
        self._asked.update(chosen)
        return [item for number in chosen for item in self._query(number)]

    def _query(self, number: int) -> list[m.Envelope]:
        settings, query = self._settings, self._query_ids[number]
        coalition = self._tables[self._members[number]].coalition
        out: list[m.Envelope] = []
        if self._name == settings.task and settings.protocol is ProtocolName.PAPER:
            outer, authenticator = self._ring.tokens(query).outer, self._ring.validation(query)
            out.append(self._to(settings.validate, m.QueryKey(query, coalition, outer, authenticator)))
        sorted_tokens, sums = self._encrypted(number, query, coalition)
        for index, total, data, payload in queries.cut(settings, sorted_tokens, sums):
            salt = self._ring.token_salt(query, index)
            chunk = m.TokenChunk(index, total, b"", salt, query, coalition, data, payload)
            out.append(self._to(settings.compute, chunk.with_digest()))
        return out

    def _encrypted(
        self, number: int, query: bytes, coalition: tuple[str, ...]
    ) -> tuple[aes.Blocks, NDArray[np.uint64]]:
        """Our set for one query: tokens in rising order, which hides the groups of q."""
        token_keys = self._ring.tokens(query)
        real = self._sets.of(int(self._values[number]))
        hashes = np.concatenate([real, self._fakes[: self._noise[number]]])
        blocks = token_blocks(token_keys, hashes, self._q)
        own = tokens(token_keys, blocks)
        sums = None
        if queries.has_authenticators(self._settings):
            sums = masks_of(blocks, self._ring.authenticators(query, coalition))
            if self._name == self._settings.task:
                sums += aes.encrypt(self._ring.validation(query), blocks)[:, 0]
        if self._settings.pad:
            own, sums = self._padded(self._tables[self._members[number]], query, own, sums)
        return sort_tokens(own, sums)

    def _padded(
        self, table: QueryTable, query: bytes, own: aes.Blocks, sums: NDArray[np.uint64] | None
    ) -> tuple[aes.Blocks, NDArray[np.uint64] | None]:
        """Private dummies up to our largest set with the table's largest n_r: all sets have one size."""
        key = self._ring.dummies(query)
        n = (self._sets.largest + int(self._noise[table.cells].max())) * self._q - len(own)
        dummies = aes.encrypt(key, aes.counter_blocks(n))
        if sums is not None:
            sums = np.concatenate([sums, aes.encrypt(key, aes.counter_blocks(n, 1))[:, 0]])
        return np.concatenate([own, dummies]), sums

    # Step 4.

    def take(self, sender: str, message: m.AnyMessage) -> list[m.Envelope]:
        """An answer to a query, or a server's signature on all its answers."""
        out: list[m.Envelope] = []
        if isinstance(message, m.QueryCount):
            number = self._number.get(message.query)
            if number is None or number not in self._asked:
                raise RemoteProtocolError(f"{sender!r} answers a query that was not asked", code="E_QUERY")
            stated = queries.states_sizes(self._settings) and sender == self._settings.compute
            members = self._tables[self._members[number]].coalition
            if len(message.sizes) != (len(members) if stated else 0):
                raise RemoteProtocolError(f"{sender!r} states a wrong number of set sizes", code="E_DECLARED")
            self._answers[sender][number] = (message.count, message.sizes)
            if all(number in answers for answers in self._answers.values()):
                self._accepted[number] = self._accept(number)
                out = self._ask(1)
        elif isinstance(message, m.ResultSeal):
            answers = self._answers[sender]
            if len(answers) != self._n_mine:
                raise RemoteProtocolError(f"{sender!r} has not answered every query", code="E_DECLARED")
            self._inbox.seal(sender, message, with_bytes=False, digest=self._digest(sender, list(answers)))
        elif isinstance(message, m.SealedCodebook) and self._shared is not None:
            self._shared.take(message)
        else:
            raise RemoteProtocolError(f"no {type(message).__name__} in this protocol", code="E_STATE")
        if self._inbox.complete:
            self._finish()
        return out

    def _accept(self, number: int) -> int:
        """Step 4: N = n_c / q - n_r, if n_c = n_v and n_c is at least q n_r."""
        n_c, _ = self._answers[self._settings.compute][number]
        n_v, _ = self._answers[self._settings.servers[-1]][number]
        if n_v == INCOMPLETE:
            raise VerificationError("the validation server found incomplete groups", code="E_GROUP")
        if n_v == FORGED:
            raise VerificationError("the validation server found a token of too few parties", code="E_AUTH")
        if n_c != n_v:
            raise VerificationError("the two servers report different cardinalities", code="E_COUNT")
        n, rest = divmod(n_c, self._q)
        n -= int(self._noise[number])
        if rest or n < 0:
            raise VerificationError("a cardinality is below the adversarial samples", code="E_FLOOR")
        if n > self._settings.n_samples:
            raise VerificationError("a cardinality is above the number of samples", code="E_TOTAL")
        return n

    def _finish(self) -> None:
        mine = [table for table in self._tables if self._name in table.coalition]
        grand = self._counts(mine[0])
        if self._settings.h1:
            for table in mine:
                self._check_table(table, self._counts(table), grand)
        if queries.states_sizes(self._settings):
            self._check_sets(mine)
        self._outcome = Outcome(counts=self._with_codebooks(self._joint_counts(grand)))

    def _counts(self, table: QueryTable) -> NDArray[np.int64]:
        cells = [self._accepted[table.first + k] for k in range(table.n_cells)]
        return np.array(cells, dtype=np.int64).reshape(table.shape)

    def _check_table(self, table: QueryTable, counts: NDArray[np.int64], grand: NDArray[np.int64]) -> None:
        """H1: the total, our own marginals, and the grand coalition's marginals."""
        everybody = self._settings.everybody
        own = table.coalition.index(self._name)
        axes = tuple(k for k in range(counts.ndim) if k != own)
        if not np.array_equal(counts.sum(axis=axes), self._sets.sizes):
            raise VerificationError("counts contradict our own marginals", code="E_MARGINAL")
        if int(counts.sum()) != self._settings.n_samples:
            raise VerificationError("counts do not add up to the number of samples", code="E_TOTAL")
        absent = tuple(k for k, party in enumerate(everybody) if party not in table.coalition)
        if not np.array_equal(counts, grand.sum(axis=absent)):
            raise VerificationError("two coalitions' tables contradict each other", code="E_MARGINAL")

    def _check_sets(self, mine: list[QueryTable]) -> None:
        """H3: every member's sets, in every table, are those of one column; ours are known."""
        stated = self._answers[self._settings.compute]
        known = {self._name: self._sets.sizes}
        for table in mine:
            noise = self._noise[table.cells]
            for place, member in enumerate(table.coalition):
                sizes = [stated[table.first + k][1][place] for k in range(table.n_cells)]
                real = real_sizes(table, member, sizes, noise, self._q, self._settings.n_samples)
                if not np.array_equal(known.setdefault(member, real), real):
                    raise VerificationError(f"the sets of {member!r} differ between tables", code="E_SETS")

    def _joint_counts(self, table: NDArray[np.int64]) -> JointCounts:
        settings = self._settings
        cells = np.argwhere(table > 0)
        if not len(cells):
            raise VerificationError("every cell is empty", code="E_TOTAL")
        return JointCounts(
            task=cells[:, 0] // settings.n_label_codes,
            label=cells[:, 0] % settings.n_label_codes,
            parties=np.ascontiguousarray(cells[:, 1:]),
            count=table[tuple(cells.T)],
            names=settings.parties,
            n_codes=settings.n_codes,
        )

    # Agreement.

    def _digest(self, server: str, numbers: list[int]) -> bytes:
        answers = self._answers[server]
        parts = queries.result_digest_parts({self._query_ids[k]: answers[k] for k in numbers})
        return keys.digest(*parts)

    def digests(self) -> dict[str, bytes]:
        """Per peer, a digest of all answers to the queries that both have seen."""
        if not self._seen_by:
            peers = [name for name in self._settings.everybody if name != self._name]
            if self._settings.by_coalition:
                self._seen_by = {peer: self._common_digest(peer) for peer in peers}
            else:  # everybody is in every query
                self._seen_by = dict.fromkeys(peers, self._common_digest(self._name))
        return self._seen_by

    def _common_digest(self, peer: str) -> bytes:
        common = [k for k in self._accepted if peer in self._tables[self._members[k]].coalition]
        return keys.digest(*(self._digest(server, common) for server in self._settings.servers))


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
    """Number of a member's samples per value, from the sizes of its sets in all cells of a table.

    Args:
        table: The cells.
        member: The owner of the sets.
        stated: Number of tokens per cell, as stated by the computation server.
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
