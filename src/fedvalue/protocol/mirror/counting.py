"""A server's work under `mirror`: add all parties' masked rows chunk by chunk, and count the cells.

Both servers do exactly this, each on its own uploads in its own order. A chunk is counted as soon as every
party's chunk of that index has arrived and its rows are authentic, and then discarded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import msgspec
import numpy as np
from numpy.typing import NDArray

from fedvalue.crypto import keys
from fedvalue.errors import InputError, LocalProtocolError, RemoteProtocolError, VerificationError
from fedvalue.information.contingency import JointCounts
from fedvalue.information.pair_tables import PairTables, pair_layout, pair_tables
from fedvalue.protocol import messages as m
from fedvalue.protocol.chunk_store import ChunkStore
from fedvalue.protocol.keyring import Credentials
from fedvalue.protocol.mirror.authenticators import KEY_BYTES, CodeCheck, summed_keys
from fedvalue.protocol.mirror.codebooks import BookLayout, BookSum, has_masked_books
from fedvalue.protocol.mirror.opaque_cells import OpaqueCellCounter
from fedvalue.protocol.mirror.row_layout import TAG_BYTES, RowLayout, chunk_rows
from fedvalue.protocol.mirror.server_result import CountsResult, ValuesResult, sealed_values
from fedvalue.protocol.outcome import Answer, Valuer
from fedvalue.protocol.privacy import Privacy
from fedvalue.protocol.readiness import check_code_gate
from fedvalue.protocol.settings import MAX_CODEBOOK_CELLS, MAX_CODES, ColumnView, Policy, RunTerms
from fedvalue.protocol.settlement import check_root
from fedvalue.protocol.signed_results import signed_result


@dataclass(slots=True)
class _Table:
    """The columns that the parties declared, and what is counted of them."""

    layout: RowLayout
    books: BookSum
    counter: OpaqueCellCounter
    rows_per_chunk: int


class MirrorCounting:
    """The uploads of all parties to one server, and the result made of them."""

    def __init__(
        self,
        terms: RunTerms,
        n_samples: int,
        server: str,
        credentials: Credentials,
        valuer: Valuer | None,
        store: ChunkStore,
    ) -> None:
        if terms.policy is Policy.VALUATION and valuer is None:
            raise LocalProtocolError("policy 'valuation' needs a valuer")
        self._terms = terms
        self._n_samples = n_samples
        self._server = server
        self._to = m.Sender(terms.run_id, server).to
        self._credentials = credentials
        self._valuer = valuer
        self._store = store
        self._declared: dict[str, m.Declaration] = {}
        self._digests: dict[str, dict[int, bytes]] = {}
        self._waiting: dict[int, set[str]] = {}
        self._n_counted = 0
        self._share_keys: m.ShareKeys | None = None
        self._declared_table: _Table | None = None
        self._book_digests: dict[str, list[bytes]] = {}
        self._check: CodeCheck | None = None

    @property
    def _table(self) -> _Table:
        """Known since the first declaration."""
        assert self._declared_table is not None
        return self._declared_table

    def declare(self, party: str, declaration: m.Declaration) -> None:
        """A party's announcement of its upload.

        Raises:
            RemoteProtocolError: Not what was agreed, or not what the others declared (E_DECLARED).
            VerificationError: The columns do not pass the gates (E_GATE).
            InputError: More than a server can hold (E_BUDGET).
        """
        terms, radices = self._terms, declaration.radices
        check_columns(terms, self._n_samples, party, declaration)
        layout = RowLayout.of(radices)
        rows_per_chunk = chunk_rows(terms, layout)
        n_chunks = -(-self._n_samples // rows_per_chunk)
        if declaration.row_bytes != layout.row_bytes or declaration.n_chunks != n_chunks:
            raise RemoteProtocolError(f"{party!r} declares another number of chunks", code="E_DECLARED")
        check_root(terms, party, declaration.root, self._credentials.pins[party])
        if declaration.root.digests[terms.servers.index(self._server)] != declaration.declared():
            raise RemoteProtocolError(f"{party!r} signed another upload than it declares", code="E_DECLARED")
        if len(declaration.code_keys) != KEY_BYTES * len(radices):
            raise RemoteProtocolError(f"{party!r} declares a wrong number of code keys", code="E_DECLARED")
        books = BookLayout(radices, declaration.features)
        if self._declared_table is None:
            self._declared_table = _Table(
                layout, BookSum(terms, books), OpaqueCellCounter(layout), rows_per_chunk
            )
        elif self._table.books.layout != books:
            first = next(iter(self._declared))
            raise RemoteProtocolError(
                f"{first!r} and {party!r} declare different columns, so one of them broke the protocol",
                code="E_DECLARED",
            )
        self._declared[party] = declaration
        self._digests[party] = {}

    def add_book(self, party: str, chunk: m.CodebookChunk) -> None:
        """Part of a party's codebooks.

        Raises:
            RemoteProtocolError: Undeclared, or not what was declared (E_DECLARED); of a wrong size (E_SIZE).
        """
        declared = self._declared.get(party)
        if declared is None:
            raise RemoteProtocolError(f"{party!r} sent a codebook that it did not declare", code="E_DECLARED")
        self._table.books.add(party, chunk)
        digests = self._book_digests.setdefault(party, [])
        digests.append(chunk.digest)
        if len(digests) == chunk.total and keys.digest(*digests) != declared.books:
            raise RemoteProtocolError(f"{party!r} uploaded other codebooks than declared", code="E_DECLARED")

    def take_share_keys(self, share_keys: m.ShareKeys) -> None:
        """The keys under which the shares will be sealed.

        Raises:
            RemoteProtocolError: Not one per data party, or policy `counts` (E_DECLARED).
        """
        wanted = self._terms.policy is Policy.VALUATION
        if not wanted or len(share_keys.shares) != len(self._terms.parties):
            raise RemoteProtocolError("expected one share key per data party", code="E_DECLARED")
        self._share_keys = share_keys

    def add(self, party: str, chunk: m.Chunk) -> bool:
        """Store a chunk; count the chunks of its index once every party's has arrived.

        Returns:
            Whether everything is counted.

        Raises:
            RemoteProtocolError: Undeclared, or not what was declared (E_DECLARED); of a wrong size (E_SIZE).
            VerificationError: A row is not what its owners wrote (E_AUTH).
        """
        declared = self._declared.get(party)
        if declared is None or chunk.total != declared.n_chunks or chunk.index >= declared.n_chunks:
            raise RemoteProtocolError(f"{party!r} sent a chunk that it did not declare", code="E_DECLARED")
        expected = self._rows_of(chunk.index) * self._table.layout.row_bytes + TAG_BYTES
        if len(chunk.data) != expected:
            raise RemoteProtocolError(
                f"{party!r}: chunk of {len(chunk.data)} bytes, expected {expected}", code="E_SIZE"
            )
        digests = self._digests[party]
        digests[chunk.index] = chunk.digest
        if len(digests) == declared.n_chunks:
            whole = keys.digest(*(digests[k] for k in range(declared.n_chunks)))
            if whole != declared.digest:
                raise RemoteProtocolError(
                    f"{party!r} uploaded another table than declared", code="E_DECLARED"
                )
        self._store.put(party, chunk.index, chunk.data)
        waiting = self._waiting.setdefault(chunk.index, set(self._terms.everybody))
        waiting.discard(party)
        if not waiting:
            self._count(chunk.index)
        return self._n_counted == declared.n_chunks

    def missing(self, party: str) -> list[int]:
        """Indices of the declared chunks that have not arrived; empty before a declaration."""
        declared = self._declared.get(party)
        if declared is None:
            return []
        return [k for k in range(declared.n_chunks) if k not in self._digests[party]]

    def late(self) -> tuple[str, ...]:
        """The parties whose uploads are not complete."""
        return tuple(
            party
            for party in self._terms.everybody
            if party not in self._declared or len(self._digests[party]) < self._declared[party].n_chunks
        )

    def _rows_of(self, index: int) -> int:
        """Number of rows in a chunk."""
        per_chunk = self._table.rows_per_chunk
        return min(per_chunk, self._n_samples - index * per_chunk)

    def _count(self, index: int) -> None:
        layout = self._table.layout
        rows = np.zeros((self._rows_of(index), layout.n_lanes), layout.lane_type)
        tag = 0
        for party in self._terms.everybody:
            chunk = self._store.get(party, index)
            rows += np.frombuffer(chunk[:-TAG_BYTES], dtype=rows.dtype).reshape(rows.shape)
            tag += int.from_bytes(chunk[-TAG_BYTES:], "little")
        if self._check is None:  # every party declares its keys before it sends chunks
            self._check = CodeCheck(layout, self._code_keys())
        # All are checked before any is counted.
        if not self._check.authentic(rows, index * self._table.rows_per_chunk, tag):
            raise VerificationError(
                "a row is not what its owners wrote: ids or code ranges differ, or a party has tampered",
                code="E_AUTH",
            )
        self._table.counter.add(rows)
        for party in self._terms.everybody:
            self._store.discard(party, index)
        del self._waiting[index]
        self._n_counted += 1

    def _code_keys(self) -> list[bytes]:
        return summed_keys([self._declared[party].code_keys for party in self._terms.everybody])

    def tables(self) -> PairTables:
        """Exact one-way and two-way tables of the columns; noise is added before anything leaves."""
        counts = self._joint_counts(*self._cells())
        n_task, n_labels, *sizes = self._table.layout.radices
        features: Sequence[tuple[int, ...]] = [(size,) for size in sizes]
        task: tuple[int, ...] = (n_task,) if n_task > 1 else ()
        if has_masked_books(self._terms):
            task, _, *features = self._table.books.layout.features
        return pair_tables(counts, pair_layout(counts.names, features, n_labels, task=task))

    def privacy(self) -> Privacy:
        """The promise of the agreed epsilon for the declared columns."""
        n_columns = sum(map(len, self._table.books.layout.features))
        if not n_columns:
            n_columns = len(self._terms.parties) + (self._table.layout.radices[0] > 1)
        return self._terms.promise(self._n_samples, n_columns)

    def roots(self) -> dict[str, m.UploadRoot]:
        """Every party's signature on both of its uploads."""
        return {party: declared.root for party, declared in self._declared.items()}

    def answer(self) -> Answer:
        """The answer that the servers compare: the values, or an invariant of their tables of opaque codes.

        With noise it is a digest of the exact tables: codes have the same names at both servers.

        Raises:
            RemoteProtocolError: Share keys or a codebook are missing (E_DECLARED).
        """
        words, counts = self._cells()
        if self._terms.policy is Policy.COUNTS:
            return Answer({"table": self._invariant(words, counts)}, {}, ())
        if self._share_keys is None:
            raise RemoteProtocolError("the task party has sent no share keys", code="E_DECLARED")
        if self._terms.epsilon is not None:
            cells = np.ascontiguousarray(self.tables().cells, dtype="<i8")
            return Answer({"table": keys.digest(cells.tobytes()).hex()}, {}, ())
        return self.valued(self._joint_counts(words, counts))

    def valued(self, counted: JointCounts | PairTables) -> Answer:
        """The valuer's answer to exact counts or noisy tables."""
        assert self._valuer is not None
        return self._valuer(counted, self._terms)

    def _invariant(self, words: NDArray[np.uint64], counts: NDArray[np.int64]) -> str:
        """Digest of the sizes of all cells and of all codes, in rising order: names do not matter."""
        layout, tables = self._table.layout, [counts]
        for place, radix in enumerate(layout.radices):
            marginal = np.zeros(radix, dtype=np.int64)
            np.add.at(marginal, layout.digits(words, place), counts)
            tables.append(marginal)
        return keys.digest(*(np.sort(table).astype("<i8").tobytes() for table in tables)).hex()

    def release(self, answer: Answer) -> list[m.Envelope]:
        """The signed result for every party: values for all, or counts for the task party.

        Args:
            answer: The settled answer; policy `counts` releases the cells instead.
        """
        data, terms = msgspec.msgpack.encode(self._result(answer)), self._terms
        signing_key = self._credentials.signing_key
        chunks, seal = signed_result(signing_key, terms.run_id, self._server, data, terms.chunk_bytes)
        out = []
        for party in terms.everybody:
            if terms.policy is Policy.VALUATION or party == terms.task:
                out += [self._to(party, chunk) for chunk in chunks]
            out.append(self._to(party, seal))
        return out

    def _result(self, answer: Answer) -> ValuesResult | CountsResult:
        words, counts = self._cells()
        n_samples = int(counts.sum())
        if self._terms.policy is Policy.COUNTS:
            seed, terms = self._credentials.seed, self._terms
            salt = keys.subkey(seed, terms.run_id, "result-salt", terms.digest(), self._server, length=16)
            return CountsResult(n_samples, words.tobytes(), counts.tobytes(), salt)
        assert self._share_keys is not None
        return sealed_values(answer, self._share_keys, n_samples)

    def _joint_counts(self, words: NDArray[np.uint64], counts: NDArray[np.int64]) -> JointCounts:
        """Cells and codebooks under their secret names."""
        table, books = self._table.layout.joint_counts(words, counts), self._table.books
        if has_masked_books(self._terms):
            if books.late():  # parties send their codebooks before their rows
                raise RemoteProtocolError("a party sent no codebook", code="E_DECLARED")
            task, _, *parties = books.books(self._code_keys())
            codebooks = tuple(book for book in parties if book is not None)
            table = replace(table, codebooks=codebooks, task_codebook=task)
        return table

    def _cells(self) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        return self._table.counter.cells()


def check_columns(terms: RunTerms, n_samples: int, party: str, declaration: m.Declaration) -> None:
    """Check that a declared table has the agreed columns, and that these pass the gates.

    A server knows the sizes of unnamed columns only. The parties check that they are those of the signed
    Readies: they declare the same columns or end the run.

    Raises:
        RemoteProtocolError: Other columns or rows than agreed (E_DECLARED).
        VerificationError: Too many codes for the number of rows (E_GATE).
        InputError: More than a server can hold (E_BUDGET).
    """
    radices, features = declaration.radices, declaration.features
    fits = len(radices) == len(features) == 2 + len(terms.parties) and declaration.rows == n_samples
    if has_masked_books(terms):
        fits = fits and not features[1] and all(features[2:])
        fits = fits and all(sizes == tuple(sorted(sizes)) for sizes in features)
    else:
        fits = fits and not any(features)
    if not fits or max(radices) > MAX_CODES or any(max(sizes, default=1) > MAX_CODES for sizes in features):
        raise RemoteProtocolError(f"{party!r} declares another table than agreed", code="E_DECLARED")
    gated = list(radices)
    if terms.columns is ColumnView.FEATURES:
        gated = [radices[1], *(size for sizes in features for size in sizes)]
    check_code_gate(terms.gates, "a column", n_samples, gated)
    n_cells = BookLayout(radices, features).n_cells
    if n_cells > MAX_CODEBOOK_CELLS:
        raise InputError(f"the codebooks have {n_cells:.3g} cells, above the limit", code="E_BUDGET")
