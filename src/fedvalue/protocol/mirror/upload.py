"""A party's work under `mirror`: mask and upload, then compare what the two servers answer.

For each server on its own: put the rows into that server's secret order, rename the codes by that
server's secret label map, write them as digits of the joint code with their authenticators, add the
zero-sum masks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec
import numpy as np
from numpy.typing import NDArray

from fedvalue.crypto import keys
from fedvalue.crypto.masks import add_masks, n_lane_pairs
from fedvalue.crypto.permute import row_order
from fedvalue.errors import RemoteProtocolError, VerificationError
from fedvalue.information.contingency import Codebook, JointCounts
from fedvalue.protocol import messages as m
from fedvalue.protocol.keyring import Credentials, Keyring
from fedvalue.protocol.mirror.authenticators import codewords, masked_keys
from fedvalue.protocol.mirror.codebooks import masked_table, written_section
from fedvalue.protocol.mirror.naming import Naming, label_name
from fedvalue.protocol.mirror.opaque_cells import add_codes
from fedvalue.protocol.mirror.row_layout import chunk_rows
from fedvalue.protocol.mirror.server_result import (
    SHARE_CONTEXT,
    TASK_CONTEXT,
    CountsResult,
    ValuesResult,
    decode_fields,
    decode_result,
)
from fedvalue.protocol.outcome import Fields, Outcome, SignedResult, Work, same_outcome
from fedvalue.protocol.release_grid import TOLERANCE
from fedvalue.protocol.result_inbox import ResultInbox
from fedvalue.protocol.samples import HashedSamples, feature_codes, feature_sizes
from fedvalue.protocol.settings import Policy, Settings
from fedvalue.protocol.settlement import signed_root
from fedvalue.protocol.shared_codebooks import SharedCodebooks, shares_codebooks

if TYPE_CHECKING:
    from fedvalue.typing import Counts

RESULT_BYTES = 2 * 2**20
"""Limit of a result of values: 256 parties' padded shares and interactions take less than 1 MiB."""


class MirrorWork(Work):
    """Upload and comparison of one party."""

    def __init__(
        self,
        settings: Settings,
        name: str,
        ring: Keyring,
        *,
        samples: HashedSamples,
        marginals: Mapping[str, Counts],
        codebooks: Mapping[str, Codebook | None],
        credentials: Credentials,
    ) -> None:
        self._settings = settings
        self._name = name
        self._to = m.Sender(settings.run_id, name).to
        self._ring = ring
        self._signing_key = credentials.signing_key
        self._samples = samples
        self._marginals = marginals
        self._codebooks = codebooks
        self._naming = Naming(settings, ring)
        self._inbox = ResultInbox(settings, self._result_limit(), credentials.pins)
        self._outcome: Outcome | None = None
        self._shared: SharedCodebooks | None = None
        if shares_codebooks(settings):
            self._shared = SharedCodebooks(settings, name, ring, codebooks[name])

    @property
    def _is_task(self) -> bool:
        return self._name == self._settings.task

    def begin(self) -> list[m.Envelope]:
        """The uploads to both servers; the rows are not needed any more afterwards."""
        out = [] if self._shared is None else self._shared.begin()
        uploads = self._uploads()
        digests = tuple(declaration.declared() for declaration, _ in uploads)
        root = signed_root(self._settings, self._name, digests, self._signing_key)
        for server, (declaration, rest) in zip(self._settings.servers, uploads, strict=True):
            messages = [msgspec.structs.replace(declaration, root=root), *rest]
            out += [self._to(server, message) for message in messages]
        return out

    def declared(self) -> tuple[bytes, ...]:
        """What the root must hold, for an auditor who makes the uploads again."""
        return tuple(declaration.declared() for declaration, _ in self._uploads())

    def _uploads(self) -> list[tuple[m.Declaration, list[m.AnyMessage]]]:
        uploads = [self._upload(server) for server in self._settings.servers]
        self._samples.forget()
        return uploads

    def _upload(self, server: str) -> tuple[m.Declaration, list[m.AnyMessage]]:
        """What one server gets: the declaration, still without the root, and what it declares."""
        rows_per_chunk = chunk_rows(self._settings, self._naming.layout)
        n_chunks = -(-self._settings.n_samples // rows_per_chunk)
        chunks = []
        for index, data in enumerate(_cut(self._masked(server), rows_per_chunk)):
            salt = self._ring.chunk_salt(server, index)
            digest = m.bulk_digest(index, n_chunks, salt, data)
            chunks.append(self._samples.keep(m.Chunk(index, n_chunks, digest, salt, data)))
        books = self._book_chunks(server)
        declared = m.Declaration(
            rows=self._settings.n_samples,
            lanes=self._naming.layout.n_words,
            n_chunks=n_chunks,
            digest=keys.digest(*(chunk.digest for chunk in chunks)),
            radices=self._naming.layout.radices,
            features=self._naming.books.features,
            books=keys.digest(*(chunk.digest for chunk in books)),
            code_keys=self._code_keys(server),
            root=m.NO_ROOT,
        )
        share_keys = self._share_keys(server)
        return declared, [*([] if share_keys is None else [share_keys]), *books, *chunks]

    def _book_chunks(self, server: str) -> list[m.CodebookChunk]:
        """Our codebooks for one server, renamed and masked, part by part."""
        layout = self._naming.books
        own = {}
        for column, book in self._codebooks.items():
            place = self._naming.place(column)
            if layout.features[place]:
                codes = self._renamed_book(server, column, book)
                own[place] = written_section(layout, place, self._ring.code_key(server, column), codes)
        table = masked_table(layout, own, self._ring.codebook_masks(server))
        size, total = layout.part_bytes(self._settings), layout.n_parts(self._settings)
        chunks = []
        for index in range(total):
            part = table[index * size : (index + 1) * size]
            salt = self._ring.codebook_salt(server, index)
            digest = m.bulk_digest(index, total, salt, part)
            chunks.append(m.CodebookChunk(index, total, digest, salt, part))
        return chunks

    def _renamed_book(self, server: str, column: str, book: Codebook | None) -> NDArray[np.int64]:
        """A codebook as one server sees it: lines, features and codes under their names there."""
        line = self._naming.renamed(server, column)
        codes, sizes = feature_codes(book, len(line)), feature_sizes(book, len(line))
        renamed = np.empty_like(codes)
        scope = self._naming.scope(server)
        for place, k in enumerate(self._ring.feature_order(column, sizes)):
            renamed[line, place] = self._ring.feature_map(scope, column, k, sizes[k])[codes[:, k]]
        return renamed

    def _share_keys(self, server: str) -> m.ShareKeys | None:
        """The keys under which a server seals the shares, from the task party."""
        if not self._is_task or self._settings.policy is not Policy.VALUATION:
            return None
        shares = tuple(self._ring.share(party, server) for party in self._naming.order)
        return m.ShareKeys(self._ring.share_task(server), shares)

    def _masked(self, server: str) -> Iterator[NDArray[np.uint64]]:
        """w_p: the party's rows for one server in its order, block by block of shape (n_rows, n_words)."""
        layout, key = self._naming.layout, self._ring.row_order(server)
        masks = self._ring.masks(server, n_lane_pairs(layout.n_words))
        columns = [self._written(server, name) for name in self._marginals]
        step = chunk_rows(self._settings, layout)
        for part in self._samples.parts(key, row_bytes=8 * layout.n_words):
            # Masked as they stand and put in order last: only finished words are looked up out of order.
            words = np.zeros((len(part.hashes), layout.n_words), dtype=np.uint64)
            for (lane, digits, authentic), codes in zip(columns, part.codes, strict=True):
                add_codes(words, lane, digits, authentic, codes)
            add_masks(words, part.hashes, masks)
            order = row_order(key, part.hashes)
            for start in range(0, len(order), step):
                yield np.take(words, order[start : start + step], axis=0)

    def _written(self, server: str, column: str) -> tuple[int, NDArray[np.uint64], NDArray[np.uint64]]:
        """How a column is written for one server: its lane; per code, its digit and its codeword."""
        layout, place = self._naming.layout, self._naming.place(column)
        renamed = self._naming.renamed(server, column)
        digits = renamed.astype(np.uint64) * np.uint64(layout.stride[place])
        authentic = codewords(self._ring.code_key(server, column), len(renamed), layout.tag_shift)
        return layout.lane[place], digits, authentic[renamed]

    def _code_keys(self, server: str) -> bytes:
        own = {self._naming.place(name): self._ring.code_key(server, name) for name in self._marginals}
        return masked_keys(own, len(self._naming.layout.radices), self._ring.code_key_masks(server))

    # Results.

    def take(self, sender: str, message: m.AnyMessage) -> list[m.Envelope]:
        """A server's result, part by part; when both are there, compare them."""
        if isinstance(message, m.ResultChunk):
            if not self._gets_bytes:
                raise RemoteProtocolError("only the task party gets counts", code="E_STATE")
            self._inbox.add(sender, message)
        elif isinstance(message, m.ResultSeal):
            self._inbox.seal(sender, message, with_bytes=self._gets_bytes)
        elif isinstance(message, m.SealedCodebook) and self._shared is not None:
            self._shared.take(message)
        else:
            raise RemoteProtocolError(f"no {type(message).__name__} under mirror", code="E_STATE")
        if self._inbox.complete:
            self._compare()
        return []

    @property
    def _gets_bytes(self) -> bool:
        return self._is_task or self._settings.policy is Policy.VALUATION

    def _compare(self) -> None:
        if not self._gets_bytes:
            self._outcome = Outcome()
            return
        results = {server: decode_result(self._inbox.bytes_of(server)) for server in self._settings.servers}
        for server, result in results.items():
            if result.n_samples != self._settings.n_samples:
                raise VerificationError(
                    f"{server!r} counted {result.n_samples} samples, expected {self._settings.n_samples}",
                    code="E_TOTAL",
                )
        first, second = (self._open(server, results[server]) for server in self._settings.servers)
        # With noise each server values the same noisy tables on its own.
        tolerance = 0.0 if self._settings.privacy is None else TOLERANCE
        if not same_outcome(first, second, tolerance):
            # They agreed before they released, so one of them changed its answer afterwards.
            raise VerificationError("the two servers released different results", code="E_MIRROR")
        if first.counts is not None:
            self._check_own_marginals(first.counts)
            if self._shared is not None:
                first = replace(first, counts=self._shared.completed(first.counts))
        self._outcome = first

    def _open(self, server: str, result: ValuesResult | CountsResult) -> Outcome:
        if isinstance(result, ValuesResult) != (self._settings.policy is Policy.VALUATION):
            raise RemoteProtocolError(f"{server!r} sent a result of another policy", code="E_DECLARED")
        order = self._naming.order if self._is_task else ()
        if isinstance(result, CountsResult):
            counts = self._naming.counts(server, *result.cells(self._naming.layout))
            return Outcome(counts=counts, order=order)
        if len(result.shares) != len(self._naming.order):
            raise RemoteProtocolError(f"{server!r} sent a wrong number of shares", code="E_DECLARED")
        mine = self._naming.order if self._is_task else (self._name,)
        shares = {}
        for party in mine:
            key = self._ring.share(party if self._is_task else self._settings.task, server)
            shares[party] = self._unseal(key, result.shares[self._naming.order.index(party)], SHARE_CONTEXT)
        task = self._unseal(self._ring.share_task(server), result.task, TASK_CONTEXT) if self._is_task else {}
        return Outcome(public=result.public, task=task, shares=shares, order=order)

    def _unseal(self, key: bytes, sealed: bytes, context: bytes) -> Fields:
        return decode_fields(keys.unseal(key, sealed, context))

    def _check_own_marginals(self, counts: JointCounts) -> None:
        """The task party knows its own columns: the joint table must have their marginals."""
        found = {self._settings.task: counts.task, label_name(self._settings): counts.label}
        for name, own in self._marginals.items():
            marginal = np.bincount(found[name], weights=counts.count, minlength=len(own))
            if not np.array_equal(marginal, own):
                raise VerificationError("counts contradict the task party's own marginals", code="E_MARGINAL")

    def _result_limit(self) -> int:
        settings = self._settings
        if settings.policy is Policy.VALUATION:
            return RESULT_BYTES
        return (8 * self._naming.layout.n_lanes + 8) * min(settings.n_samples, settings.n_cells) + 4096

    @property
    def complete(self) -> bool:
        """Whether both servers' results are here and agree."""
        return self._outcome is not None

    def outcome(self) -> Outcome:
        """What this party has learned."""
        assert self._outcome is not None
        return self._outcome

    @property
    def order(self) -> tuple[str, ...]:
        """The data parties in the secret order of their columns."""
        return self._naming.order

    def results(self) -> dict[str, SignedResult]:
        """Both servers' signed results."""
        return {
            server: self._inbox.signed(server, self._share_keys(server)) for server in self._settings.servers
        }

    def digests(self) -> dict[str, bytes]:
        """All parties must have seen the same two signed results."""
        seen = keys.digest(*(self._inbox.digest_of(server) for server in self._settings.servers))
        return {peer: seen for peer in self._settings.everybody if peer != self._name}


def _cut(blocks: Iterable[NDArray[np.uint64]], n_rows: int) -> Iterator[memoryview]:
    """Blocks of rows, cut again into `n_rows` each; the last has the rest."""
    waiting: list[NDArray[np.uint64]] = []
    for block in blocks:
        rest = block
        while rest.size:
            room = n_rows - sum(map(len, waiting))
            waiting.append(rest[:room])
            rest = rest[room:]
            if sum(map(len, waiting)) == n_rows:
                yield _joined(waiting)
                waiting = []
    if waiting:
        yield _joined(waiting)


def _joined(blocks: list[NDArray[np.uint64]]) -> memoryview:
    whole = blocks[0] if len(blocks) == 1 else np.concatenate(blocks)
    return whole.astype("<u8", order="C", copy=False).data.cast("B")
