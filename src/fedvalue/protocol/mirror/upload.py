"""A party's work under `mirror`: mask and upload, then compare the two servers' answers.

For each server separately: put the rows into that server's secret order, rename the codes by that server's
secret label map, write them as digits of the joint code, add the zero-sum masks, and append the tag of the
code authenticators to every chunk.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import msgspec
import numpy as np
from numpy.typing import NDArray

from fedvalue.crypto import aes, keys
from fedvalue.crypto.masks import RowMasks, n_row_keys
from fedvalue.crypto.permute import row_order, taken
from fedvalue.errors import RemoteProtocolError, VerificationError
from fedvalue.information.contingency import Codebook, JointCounts
from fedvalue.protocol import messages as m
from fedvalue.protocol.keyring import Credentials, Keyring
from fedvalue.protocol.mirror.authenticators import RowWeights, masked_keys
from fedvalue.protocol.mirror.codebooks import masked_table, written_section
from fedvalue.protocol.mirror.naming import Naming, label_name
from fedvalue.protocol.mirror.row_layout import TAG_BYTES, chunk_rows
from fedvalue.protocol.mirror.server_result import (
    SHARE_CONTEXT,
    TASK_CONTEXT,
    CountsResult,
    ValuesResult,
    decode_result,
    open_share,
)
from fedvalue.protocol.outcome import Outcome, same_outcome
from fedvalue.protocol.release_grid import TOLERANCE
from fedvalue.protocol.samples import HashedSamples, Samples, feature_codes, feature_sizes
from fedvalue.protocol.settings import Policy, Settings
from fedvalue.protocol.settlement import signed_root
from fedvalue.protocol.signed_results import Work

RESULT_BYTES = 2 * 2**20
"""Limit of a result of values: 256 parties' padded shares and interactions take less than 1 MiB."""


@dataclass(frozen=True, slots=True)
class _Column:
    """How a column is written for one server: its place, the name of each code, and its rows' weights."""

    place: int
    names: NDArray[np.uint32]
    weights: RowWeights


class MirrorWork(Work):
    """Upload and comparison of one party; `hashed` are its `samples` with hashed ids."""

    def __init__(
        self,
        settings: Settings,
        name: str,
        ring: Keyring,
        *,
        samples: Samples,
        hashed: HashedSamples,
        credentials: Credentials,
    ) -> None:
        self._naming = Naming(settings, ring)
        limit = _result_limit(settings, self._naming.layout.n_lanes)
        book = samples.codebooks[0]
        super().__init__(settings, name, ring, credentials, result_bytes=limit, book=book)
        columns = self._naming.columns_of(name)
        self._samples = hashed
        self._marginals = dict(zip(columns, samples.marginals, strict=True))
        self._codebooks = dict(zip(columns, samples.codebooks, strict=True))

    @property
    def _is_task(self) -> bool:
        return self._name == self._settings.task

    def begin(self) -> list[m.Envelope]:
        """The uploads to both servers; the rows are not needed any more afterwards."""
        out = self._own_codebook()
        uploads = self._uploads()
        digests = tuple(declaration.declared() for declaration, _ in uploads)
        root = signed_root(self._settings, self._name, digests, self._credentials.signing_key)
        for server, (declaration, rest) in zip(self._settings.servers, uploads, strict=True):
            messages = [msgspec.structs.replace(declaration, root=root), *rest]
            out += [self._to(server, message) for message in messages]
        return out

    def declared(self) -> tuple[bytes, ...]:
        """The digests that the root must hold, for an auditor who makes the uploads again."""
        return tuple(declaration.declared() for declaration, _ in self._uploads())

    def _uploads(self) -> list[tuple[m.Declaration, list[m.AnyMessage]]]:
        uploads = [self._upload(server) for server in self._settings.servers]
        self._samples.forget()
        return uploads

    def _upload(self, server: str) -> tuple[m.Declaration, list[m.AnyMessage]]:
        """One server's upload: the declaration, still without the root, and the declared messages."""
        rows_per_chunk = chunk_rows(self._settings, self._naming.layout)
        n_chunks = -(-self._settings.n_samples // rows_per_chunk)
        chunks = []
        for index, data in enumerate(self._chunks(server, rows_per_chunk)):
            salt = self._ring.chunk_salt(server, index)
            chunks.append(self._samples.keep(m.Chunk(index, n_chunks, b"", salt, data).with_digest()))
        books = self._book_chunks(server)
        declared = m.Declaration(
            rows=self._settings.n_samples,
            row_bytes=self._naming.layout.row_bytes,
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
        return [
            m.CodebookChunk(index, total, b"", self._ring.codebook_salt(server, index), part).with_digest()
            for index, total, part in m.cut(table, layout.part_bytes(self._settings))
        ]

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

    def _chunks(self, server: str, n_rows: int) -> Iterator[memoryview]:
        """The upload for one server: `n_rows` rows and their tag per chunk, fewer in the last."""
        layout, left = self._naming.layout, self._settings.n_samples
        pieces = self._masked(server, n_rows)
        while left:
            size = min(n_rows, left)
            data = np.empty(size * layout.row_bytes + TAG_BYTES, dtype=np.uint8)
            rows = data[:-TAG_BYTES].view(layout.lane_type).reshape(size, layout.n_lanes)
            done = tag = 0
            while done < size:
                piece, piece_tag = next(pieces)
                rows[done : done + len(piece)] = piece  # keeps the lower bits of each lane
                done, tag = done + len(piece), tag + piece_tag
            data[-TAG_BYTES:] = np.frombuffer((tag % 2**64).to_bytes(TAG_BYTES, "little"), dtype=np.uint8)
            yield data.data
            left -= size

    def _masked(self, server: str, n_rows: int) -> Iterator[tuple[NDArray[np.uint32], int]]:
        """The party's masked rows for one server in its order, and their tag, piece by piece.

        A piece has shape (n, n_lanes) and does not cross the border of a chunk of `n_rows` rows.
        """
        layout, key = self._naming.layout, self._ring.row_order(server)
        masks = RowMasks(self._ring.masks(server, n_row_keys(layout.n_lanes)))
        columns = [self._written(server, name) for name in self._marginals]
        first = 0
        for part in self._samples.parts(key, row_bytes=layout.row_bytes):
            order = row_order(key, part.hashes)
            # Rows are looked up out of order: the fewer bytes they have, the better they fit the cache.
            renamed = [
                column.names.astype(np.min_scalar_type(len(column.names)))[codes]
                for column, codes in zip(columns, part.codes, strict=True)
            ]
            start = 0
            while start < len(order):
                piece = order[start : start + min(aes.SLAB, n_rows - first % n_rows)]
                rows = np.zeros((len(piece), layout.n_lanes), dtype=np.uint32)
                tag = masks.add(rows, taken(part.hashes, piece))
                for column, names in zip(columns, renamed, strict=True):
                    written = names[piece].astype(np.uint32)
                    rows[:, layout.lane[column.place]] += written * np.uint32(layout.stride[column.place])
                    tag += column.weights.tag(written, first)
                yield rows, tag
                start, first = start + len(piece), first + len(piece)

    def _written(self, server: str, column: str) -> _Column:
        return _Column(
            place=self._naming.place(column),
            names=self._naming.renamed(server, column).astype(np.uint32),
            weights=RowWeights(self._ring.code_key(server, column)),
        )

    def _code_keys(self, server: str) -> bytes:
        own = {self._naming.place(name): self._ring.code_key(server, name) for name in self._marginals}
        return masked_keys(own, len(self._naming.layout.radices), self._ring.code_key_masks(server))

    # Results.

    def take(self, sender: str, message: m.AnyMessage) -> list[m.Envelope]:
        """A server's result, part by part; when both are complete, compare them."""
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
            first = replace(first, counts=self._with_codebooks(first.counts))
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
            shares[party] = open_share(key, result.shares[self._naming.order.index(party)], SHARE_CONTEXT)
        task = open_share(self._ring.share_task(server), result.task, TASK_CONTEXT) if self._is_task else {}
        return Outcome(public=result.public, task=task, shares=shares, order=order)

    def _check_own_marginals(self, counts: JointCounts) -> None:
        """The task party knows its own columns: the joint table must have their marginals."""
        columns = {self._settings.task: counts.task, label_name(self._settings): counts.label}
        for name, own in self._marginals.items():
            marginal = np.bincount(columns[name], weights=counts.count, minlength=len(own))
            if not np.array_equal(marginal, own):
                raise VerificationError("counts contradict the task party's own marginals", code="E_MARGINAL")

    @property
    def order(self) -> tuple[str, ...]:
        """The data parties in the secret order of their columns."""
        return self._naming.order


def _result_limit(settings: Settings, n_lanes: int) -> int:
    if settings.policy is Policy.VALUATION:
        return RESULT_BYTES
    return (8 * n_lanes + 8) * min(settings.n_samples, settings.n_cells) + 4096
