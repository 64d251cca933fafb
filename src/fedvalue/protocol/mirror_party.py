"""A party's work under `mirror`: mask and upload, then compare what the two servers answer.

For each server on its own: put the rows into that server's secret order, rename the codes by that
server's secret label map, write them as digits of the joint code, add the zero-sum masks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedvalue.crypto import aes, keys
from fedvalue.crypto.masks import add_masks, n_lane_pairs
from fedvalue.crypto.permute import row_order
from fedvalue.errors import RemoteProtocolError, VerificationError
from fedvalue.information.contingency import JointCounts
from fedvalue.protocol import messages as m
from fedvalue.protocol.cells import add_digits, collapse
from fedvalue.protocol.credentials import Credentials
from fedvalue.protocol.keyring import Keyring
from fedvalue.protocol.layout import Layout, chunk_rows
from fedvalue.protocol.mirror_result import (
    SHARE_CONTEXT,
    TASK_CONTEXT,
    CountsResult,
    ValuesResult,
    decode_fields,
    decode_result,
)
from fedvalue.protocol.outcome import Fields, Outcome, same_numbers
from fedvalue.protocol.result_inbox import ResultInbox
from fedvalue.protocol.settings import Policy, Settings
from fedvalue.protocol.work import Addressed, Column, Work


class MirrorWork(Work):
    """Upload and comparison of one party."""

    def __init__(
        self,
        settings: Settings,
        name: str,
        ring: Keyring,
        *,
        hashes: aes.Blocks,
        columns: list[Column],
        credentials: Credentials,
    ) -> None:
        self._settings = settings
        self._name = name
        self._ring = ring
        self._hashes = hashes
        self._columns = columns
        self._seed = credentials.seed
        order = ring.coordinate_order(len(settings.parties))
        self._order = tuple(settings.parties[int(k)] for k in order)
        sizes = dict(zip(settings.parties, settings.n_codes, strict=True))
        self._layout = Layout.of(
            (settings.n_task_codes, settings.n_label_codes, *(sizes[p] for p in self._order))
        )
        self._inbox = ResultInbox(settings, self._result_limit(), credentials.pins)
        self._outcome: Outcome | None = None

    @property
    def _is_task(self) -> bool:
        return self._name == self._settings.task

    def begin(self) -> list[Addressed]:
        """The uploads to both servers; the hashes are not needed any more afterwards."""
        out = [item for server in self._settings.servers for item in self._upload(server)]
        self._hashes = np.empty((0, 2), dtype=np.uint64)
        return out

    def _upload(self, server: str) -> list[Addressed]:
        words = self._masked(server)
        rows_per_chunk = chunk_rows(self._settings, self._layout)
        n_chunks = -(-len(words) // rows_per_chunk)
        chunks = []
        for index in range(n_chunks):
            data = words[index * rows_per_chunk : (index + 1) * rows_per_chunk].tobytes()
            chunks.append(m.Chunk(index, n_chunks, m.bulk_digest(index, n_chunks, data), data))
        declared = m.Declaration(
            rows=len(words),
            lanes=self._layout.n_lanes,
            n_chunks=n_chunks,
            digest=keys.digest(*(chunk.digest for chunk in chunks)),
            radices=self._layout.radices,
        )
        out: list[Addressed] = [(server, declared)]
        if self._is_task and self._settings.policy is Policy.VALUATION:
            shares = tuple(self._ring.share(party, server) for party in self._order)
            out.append((server, m.ShareKeys(self._task_key(server), shares)))
        return out + [(server, chunk) for chunk in chunks]

    def _masked(self, server: str) -> NDArray[np.uint64]:
        """w_p: the party's rows for one server, shape (n_rows, n_lanes)."""
        layout = self._layout
        order, hashes = row_order(self._ring.row_order(server), self._hashes)
        words = np.zeros((len(order), layout.n_lanes), dtype=np.uint64)
        for column in self._columns:
            place = self._place(column.name)
            renamed = self._ring.label_map(server, column.name, column.n_codes).astype(np.uint64)
            digits = renamed * np.uint64(layout.stride[place])
            add_digits(words, layout.lane[place], digits, column.codes, order)
        add_masks(words, hashes, self._ring.masks(server, n_lane_pairs(layout.n_lanes)))
        return words

    def _place(self, column: str) -> int:
        fixed = {self._settings.task: 0, label_name(self._settings): 1}
        return fixed[column] if column in fixed else 2 + self._order.index(column)

    def _task_key(self, server: str) -> bytes:
        return keys.subkey(self._seed, self._settings.run_id, "share-task", server)

    # Results.

    def take(self, sender: str, message: m.AnyMessage) -> list[Addressed]:
        """A server's result, part by part; when both are there, compare them."""
        if isinstance(message, m.ResultChunk):
            if not self._gets_bytes:
                raise RemoteProtocolError("only the task party gets counts", code="E_STATE")
            self._inbox.add(sender, message)
        elif isinstance(message, m.ResultSeal):
            self._inbox.seal(sender, message, with_bytes=self._gets_bytes)
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
        if not first.agrees_with(second):
            raise VerificationError("the two servers' results differ", code="E_MIRROR")
        self._outcome = first.outcome
        if first.outcome.counts is not None:
            self._check_own_marginals(first.outcome.counts)

    def _open(self, server: str, result: ValuesResult | CountsResult) -> _Opened:
        if isinstance(result, ValuesResult) != (self._settings.policy is Policy.VALUATION):
            raise RemoteProtocolError(f"{server!r} sent a result of another policy", code="E_DECLARED")
        if isinstance(result, CountsResult):
            return _Opened(Outcome(counts=self._named_counts(server, result)))
        if len(result.shares) != len(self._order):
            raise RemoteProtocolError(f"{server!r} sent a wrong number of shares", code="E_DECLARED")
        mine = self._order if self._is_task else (self._name,)
        shares = {}
        for party in mine:
            key = self._ring.share(party if self._is_task else self._settings.task, server)
            shares[party] = self._unseal(key, result.shares[self._order.index(party)], SHARE_CONTEXT)
        task = self._unseal(self._task_key(server), result.task, TASK_CONTEXT) if self._is_task else {}
        order = self._order if self._is_task else ()
        return _Opened(Outcome(public=result.public, task=task, shares=shares, order=order))

    def _unseal(self, key: bytes, sealed: bytes, context: bytes) -> Fields:
        return decode_fields(keys.unseal(key, sealed, context))

    def _named_counts(self, server: str, result: CountsResult) -> JointCounts:
        """The server's cells under the real codes and names: σ undone, in rising order."""
        words, counts = result.cells(self._layout)
        opaque = self._layout.joint_counts(words, counts)
        settings = self._settings
        task = self._real(server, settings.task, settings.n_task_codes)[opaque.task]
        label = self._real(server, label_name(settings), settings.n_label_codes)[opaque.label]
        columns = {}
        for k, party in enumerate(self._order):
            real = self._real(server, party, self._layout.radices[2 + k])
            columns[party] = real[opaque.parties[:, k]]
        ordered = [task, label, *(columns[party] for party in settings.parties)]
        rows, totals = collapse(np.column_stack(ordered).astype(np.uint64), counts)
        signed = rows.astype(np.int64)
        return JointCounts(
            task=signed[:, 0].copy(),
            label=signed[:, 1].copy(),
            parties=np.ascontiguousarray(signed[:, 2:]),
            count=totals,
            names=settings.parties,
            n_codes=settings.n_codes,
        )

    def _real(self, server: str, column: str, n_codes: int) -> NDArray[np.int64]:
        """The inverse of the label map."""
        renamed = self._ring.label_map(server, column, n_codes)
        real = np.empty_like(renamed)
        real[renamed] = np.arange(n_codes)
        return real

    def _check_own_marginals(self, counts: JointCounts) -> None:
        """The task party knows its own columns: the joint table must have their marginals."""
        found = {self._settings.task: counts.task, label_name(self._settings): counts.label}
        for column in self._columns:
            marginal = np.bincount(found[column.name], weights=counts.count, minlength=column.n_codes)
            if not np.array_equal(marginal, np.bincount(column.codes, minlength=column.n_codes)):
                raise VerificationError("counts contradict the task party's own marginals", code="E_MARGINAL")

    def _result_limit(self) -> int:
        settings = self._settings
        if settings.policy is Policy.VALUATION:
            return 64 * 2**20  # numbers of 256 parties and their interactions fit many times
        return (8 * self._layout.n_lanes + 8) * min(settings.n_samples, settings.n_cells) + 4096

    @property
    def complete(self) -> bool:
        """Whether both servers' results are here and agree."""
        return self._outcome is not None

    def outcome(self) -> Outcome:
        """What this party has learned."""
        assert self._outcome is not None
        return self._outcome

    def digests(self) -> dict[str, bytes]:
        """All parties must have seen the same two signed results."""
        seen = keys.digest(*(self._inbox.digest_of(server) for server in self._settings.servers))
        return {peer: seen for peer in self._settings.everybody if peer != self._name}


@dataclass(frozen=True, slots=True)
class _Opened:
    """One server's result as this party can read it."""

    outcome: Outcome

    def agrees_with(self, other: _Opened) -> bool:
        a, b = self.outcome, other.outcome
        if a.counts is not None and b.counts is not None:
            pairs = [
                (a.counts.task, b.counts.task),
                (a.counts.label, b.counts.label),
                (a.counts.parties, b.counts.parties),
                (a.counts.count, b.counts.count),
            ]
            return all(np.array_equal(x, y) for x, y in pairs)
        return (
            same_numbers(a.public, b.public)
            and same_numbers(a.task, b.task)
            and same_numbers(dict(a.shares), dict(b.shares))
        )


def label_name(settings: Settings) -> str:
    """Name of the label's column in key derivation; no party can have it."""
    return settings.task + "\0label"
