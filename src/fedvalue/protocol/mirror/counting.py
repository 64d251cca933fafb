"""A server's work under `mirror`: add all parties' masked rows chunk by chunk, and count the cells.

Both servers do exactly this, on their own uploads in their own orders. A chunk is counted as soon
as every party's chunk of that number is here and its rows are authentic, and then discarded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

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
        self._signing_key = credentials.signing_key
        self._salt = keys.subkey(
            credentials.seed, terms.run_id, "result-salt", terms.digest(), server, length=16
        )
        self._valuer = valuer
        self._store = store
        self._declared: dict[str, m.Declaration] = {}
        self._digests: dict[str, dict[int, bytes]] = {}
        self._waiting: dict[int, set[str]] = {}
        self._n_counted = 0
        self._share_keys: m.ShareKeys | None = None
        self._layout: RowLayout | None = None
        self._counter: OpaqueCellCounter | None = None
        self._books: BookSum | None = None
        self._book_digests: dict[str, list[bytes]] = {}
        self._check: CodeCheck | None = None
        self._pins = credentials.pins

    def declare(self, party: str, declaration: m.Declaration) -> None:
        """What a party is about to upload.

        Raises:
            RemoteProtocolError: Not what was agreed, or not what the others declared (E_DECLARED).
            VerificationError: The columns do not pass the gates (E_GATE).
            InputError: More than a server can hold (E_BUDGET).
        """
        terms, radices = self._terms, declaration.radices
        check_columns(terms, self._n_samples, party, declaration)
        layout = RowLayout.of(radices)
        n_chunks = -(-self._n_samples // chunk_rows(terms, layout))
        if declaration.row_bytes != layout.row_bytes or declaration.n_chunks != n_chunks:
            raise RemoteProtocolError(f"{party!r} declares another number of chunks", code="E_DECLARED")
        check_root(terms, party, declaration.root, self._pins[party])
        if declaration.root.digests[terms.servers.index(self._server)] != declaration.declared():
            raise RemoteProtocolError(f"{party!r} signed another upload than it declares", code="E_DECLARED")
        if len(declaration.code_keys) != KEY_BYTES * len(radices):
            raise RemoteProtocolError(f"{party!r} declares a wrong number of code keys", code="E_DECLARED")
        if self._layout is None or self._books is None:
            self._layout = layout
            self._counter = OpaqueCellCounter(layout)
            self._books = BookSum(terms, BookLayout(radices, declaration.features))
        elif self._layout != layout or self._books.layout.features != declaration.features:
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
        if declared is None or self._books is None:
            raise RemoteProtocolError(f"{party!r} sent a codebook that it did not declare", code="E_DECLARED")
        digests = self._book_digests.setdefault(party, [])
        self._books.add(party, chunk)
        digests.append(chunk.digest)
        if len(digests) == chunk.total and keys.digest(*digests) != declared.books:
            raise RemoteProtocolError(f"{party!r} uploaded other codebooks than declared", code="E_DECLARED")

    def take_share_keys(self, share_keys: m.ShareKeys) -> None:
        """The keys under which the shares will be sealed.

        Raises:
            RemoteProtocolError: Not one per data party, or not wanted under this policy (E_DECLARED).
        """
        wanted = self._terms.policy is Policy.VALUATION
        if not wanted or len(share_keys.shares) != len(self._terms.parties):
            raise RemoteProtocolError("expected one share key per data party", code="E_DECLARED")
        self._share_keys = share_keys

    def add(self, party: str, chunk: m.Chunk) -> bool:
        """Store a chunk, and count it if it was the last of its number.

        Returns:
            Whether everything is counted.

        Raises:
            RemoteProtocolError: Undeclared, or not what was declared (E_DECLARED); of a wrong size (E_SIZE).
            VerificationError: A row is not what its owners wrote (E_AUTH).
        """
        declared = self._declared.get(party)
        if declared is None or chunk.total != declared.n_chunks or chunk.index >= declared.n_chunks:
            raise RemoteProtocolError(f"{party!r} sent a chunk that it did not declare", code="E_DECLARED")
        if len(chunk.data) != self._chunk_bytes(chunk.index):
            raise RemoteProtocolError(
                f"{party!r}: chunk of {len(chunk.data)} bytes, expected {self._chunk_bytes(chunk.index)}",
                code="E_SIZE",
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
        """Numbers of the declared chunks that have not come; empty before a declaration."""
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

    def _chunk_bytes(self, index: int) -> int:
        assert self._layout is not None
        return self._rows_of(index) * self._layout.row_bytes + TAG_BYTES

    def _rows_of(self, index: int) -> int:
        """Number of rows in a chunk."""
        return min(self._chunk_rows, self._n_samples - index * self._chunk_rows)

    @property
    def _chunk_rows(self) -> int:
        assert self._layout is not None
        return chunk_rows(self._terms, self._layout)

    def _count(self, index: int) -> None:
        assert self._layout is not None
        assert self._counter is not None
        rows = np.zeros((self._rows_of(index), self._layout.n_lanes), self._layout.lane_type)
        tag = 0
        for party in self._terms.everybody:
            chunk = self._store.get(party, index)
            rows += np.frombuffer(chunk[:-TAG_BYTES], dtype=rows.dtype).reshape(rows.shape)
            tag += int.from_bytes(chunk[-TAG_BYTES:], "little")
        # All are checked before any is counted.
        if not self._code_check().authentic(rows, index * self._chunk_rows, tag):
            raise VerificationError(
                "a row is not what its owners wrote: ids or code ranges differ, or a party has tampered",
                code="E_AUTH",
            )
        self._counter.add(rows)
        for party in self._terms.everybody:
            self._store.discard(party, index)
        del self._waiting[index]
        self._n_counted += 1

    def _code_check(self) -> CodeCheck:
        """Made when the first chunk is complete: every party has declared its keys before its chunks."""
        assert self._layout is not None
        if self._check is None:
            self._check = CodeCheck(self._layout, self._code_keys())
        return self._check

    def _code_keys(self) -> list[bytes]:
        return summed_keys([self._declared[party].code_keys for party in self._terms.everybody])

    def tables(self) -> PairTables:
        """One-way and two-way tables of the columns, exact: noise is added before anything leaves."""
        assert self._layout is not None
        counts = self._joint_counts(*self._cells())
        n_task, n_labels, *sizes = self._layout.radices
        features: Sequence[tuple[int, ...]] = [(size,) for size in sizes]
        task: tuple[int, ...] = (n_task,) if n_task > 1 else ()
        if has_masked_books(self._terms):
            assert self._books is not None
            task, _, *features = self._books.layout.features
        return pair_tables(counts, pair_layout(counts.names, features, n_labels, task=task))

    def privacy(self) -> Privacy:
        """The promise that goes with the agreed epsilon, for as many columns as were declared."""
        assert self._layout is not None
        assert self._books is not None
        n_columns = sum(map(len, self._books.layout.features))
        if not n_columns:
            n_columns = len(self._terms.parties) + (self._layout.radices[0] > 1)
        return self._terms.promise(self._n_samples, n_columns)

    def roots(self) -> dict[str, m.UploadRoot]:
        """What every party has signed about both of its uploads."""
        return {party: declared.root for party, declared in self._declared.items()}

    def answer(self) -> Answer:
        """What the servers compare: the values, or what their two tables of opaque codes have in common.

        With noise these are the exact tables, which stay here: codes have the same names at both servers.

        Raises:
            RemoteProtocolError: The task party has sent no share keys, or a party no codebook (E_DECLARED).
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
        """What the valuer makes of exact counts or noisy tables."""
        assert self._valuer is not None
        return self._valuer(counted, self._terms)

    def _invariant(self, words: NDArray[np.uint64], counts: NDArray[np.int64]) -> str:
        """Digest of the sizes of all cells and of all codes, in rising order: no name matters."""
        assert self._layout is not None
        sizes = [counts]
        for place, radix in enumerate(self._layout.radices):
            marginal = np.zeros(radix, dtype=np.int64)
            np.add.at(marginal, self._layout.digits(words, place), counts)
            sizes.append(marginal)
        return keys.digest(*(np.sort(one).astype("<i8").tobytes() for one in sizes)).hex()

    def release(self, answer: Answer) -> list[m.Envelope]:
        """The signed result for every party: values for all, or counts for the task party.

        Args:
            answer: What both servers agreed to release; with policy `counts` the cells are released.
        """
        data, terms = msgspec.msgpack.encode(self._result(answer)), self._terms
        chunks, seal = signed_result(self._signing_key, terms.run_id, self._server, data, terms.chunk_bytes)
        out = []
        for party in self._terms.everybody:
            if self._terms.policy is Policy.VALUATION or party == self._terms.task:
                out += [self._to(party, chunk) for chunk in chunks]
            out.append(self._to(party, seal))
        return out

    def _result(self, answer: Answer) -> ValuesResult | CountsResult:
        words, counts = self._cells()
        n_samples = int(counts.sum())
        if self._terms.policy is Policy.COUNTS:
            return CountsResult(n_samples, words.tobytes(), counts.tobytes(), self._salt)
        assert self._share_keys is not None
        return sealed_values(answer, self._share_keys, n_samples)

    def _joint_counts(self, words: NDArray[np.uint64], counts: NDArray[np.int64]) -> JointCounts:
        """Cells and codebooks under their secret names."""
        assert self._layout is not None
        table = self._layout.joint_counts(words, counts)
        if has_masked_books(self._terms):
            assert self._books is not None
            # Parties send their codebooks before their rows, so all of them are here.
            if self._books.late():
                raise RemoteProtocolError("a party sent no codebook", code="E_DECLARED")
            task, _, *parties = self._books.books(self._code_keys())
            books = tuple(book for book in parties if book is not None)
            table = replace(table, codebooks=books, task_codebook=task)
        return table

    def _cells(self) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        assert self._counter is not None
        return self._counter.cells()


def check_columns(terms: RunTerms, n_samples: int, party: str, declaration: m.Declaration) -> None:
    """Whether a declared table has the columns that the terms ask for, and these pass the gates.

    A server knows the sizes of unnamed columns only; that they are those of the signed Readies is for the
    parties to check, which declare the same or end the run.

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
