"""A party's side of `gram`.

1. `begin`: declare the digests of all three components, signed, and send each server the two that it holds.
2. When all three servers have committed to their sums: reveal rho, which decides how sums are checked.
3. When all three have opened: their commitments fit, their sums fit together (G rho = C for both check
   columns), and every cell is in its range. Only then is there an outcome.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from fedvalue.crypto import keys
from fedvalue.crypto.permute import row_order
from fedvalue.errors import RemoteProtocolError, VerificationError
from fedvalue.protocol import messages as m
from fedvalue.protocol.gram.components import (
    N_COMPONENTS,
    PartySecrets,
    held_by,
    seed_digest,
    written_component,
    written_digest,
)
from fedvalue.protocol.gram.gram_layout import N_CHECKS, GramLayout
from fedvalue.protocol.gram.gram_opening import OpenedSums, opened_tables
from fedvalue.protocol.gram.prime_field import Words, reduced, to_bytes
from fedvalue.protocol.gram.sign_noise import SignPlan
from fedvalue.protocol.outcome import Outcome
from fedvalue.protocol.samples import feature_codes
from fedvalue.protocol.settings import ColumnView
from fedvalue.protocol.signed_results import Work

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fedvalue.information.contingency import Codebook
    from fedvalue.protocol.keyring import Credentials, Keyring
    from fedvalue.protocol.samples import HashedSamples
    from fedvalue.protocol.settings import Settings
    from fedvalue.typing import Codes

ALL_SERVERS = "\0gram"
"""In key derivation: rows stand in the same secret order at all servers."""


class GramWork(Work):
    """Shares of one party's columns, and the sums of everybody's.

    Args:
        settings: The settings of the run.
        name: This party.
        ring: Its keys of the run.
        samples: Its rows.
        columns: Codebook and size of the code range of each column of the samples; the label is the task
            party's last.
        credentials: Its long-term keys.
    """

    def __init__(
        self,
        settings: Settings,
        name: str,
        ring: Keyring,
        *,
        samples: HashedSamples,
        columns: list[tuple[Codebook | None, int]],
        credentials: Credentials,
    ) -> None:
        self._layout = GramLayout.of(settings)
        SignPlan.of(self._layout, settings.privacy)  # refuses what servers would
        limit = 8 * self._layout.width**2 + 2**20
        super().__init__(settings, name, ring, credentials, result_bytes=limit)
        self._samples = samples
        by_feature = settings.columns is ColumnView.FEATURES
        self._columns = [(book if by_feature else None, size) for book, size in columns]
        self._secrets = PartySecrets.derived(self._layout, name, ring.components())
        self._commitments: dict[str, bytes] = {}

    def begin(self) -> list[m.Envelope]:
        """Declarations, and the component in chunks to its two holders."""
        layout, secrets = self._layout, self._secrets
        written = written_component(layout, self._name)
        chunks = [self._chunk(index, rows) for index, rows in enumerate(self._cut())]
        self._samples.forget()
        rho = to_bytes(secrets.rest_of_rho(layout, self._name))
        digests = tuple(
            written_digest(secrets.salt, rho, [chunk.digest for chunk in chunks])
            if c == written
            else seed_digest(secrets.seeds[c])
            for c in range(N_COMPONENTS)
        )
        signature = keys.sign(
            self._credentials.signing_key, "gram-components", self._settings.run_id, self._name, *digests
        )
        out = []
        for number, server in enumerate(self._settings.servers):
            held = held_by(number)
            holds = written in held
            declared = m.GramDeclaration(
                digests=digests,
                signature=signature,
                seeds=tuple(secrets.seeds[c] for c in held),
                salt=secrets.salt if holds else b"",
                rho=rho if holds else b"",
            )
            out.append(self._to(server, declared))
            if holds:
                out += [self._to(server, chunk) for chunk in chunks]
        return out

    def _chunk(self, index: int, rows: Words) -> m.Chunk:
        data = memoryview(to_bytes(self._secrets.rest(self._layout, self._name, rows, index)))
        salt, total = self._ring.chunk_salt(ALL_SERVERS, index), self._layout.n_chunks
        digest = m.bulk_digest(index, total, salt, data)
        return self._samples.keep(m.Chunk(index, total, digest, salt, data))

    def _cut(self) -> Iterator[Words]:
        """Our rows in the common order, chunk by chunk: one-hot columns and check columns."""
        waiting: list[tuple[NDArray[np.int64], ...]] = []
        for block in self._ordered():
            waiting.append(block)
            while sum(len(codes[0]) for codes in waiting) >= self._layout.chunk_rows:
                joined = [np.concatenate(parts) for parts in zip(*waiting, strict=True)]
                cut = self._layout.chunk_rows
                yield self._matrix([codes[:cut] for codes in joined])
                waiting = [tuple(codes[cut:] for codes in joined)]
        if waiting and len(waiting[0][0]):
            yield self._matrix([np.concatenate(parts) for parts in zip(*waiting, strict=True)])

    def _ordered(self) -> Iterator[tuple[Codes, ...]]:
        key = self._ring.row_order(ALL_SERVERS)
        for part in self._samples.parts(key, row_bytes=8 * len(self._columns)):
            order = row_order(key, part.hashes)
            yield tuple(codes[order] for codes in part.codes)

    def _matrix(self, codes: list[Codes]) -> Words:
        """Rows of (Z | U) for the codes of our columns."""
        features = self._features(codes)
        n, own = len(features[0]), self._layout.features_of(self._name)
        rows = np.zeros((n, self._layout.width_of(self._name) + N_CHECKS), dtype=np.uint32)
        checks = np.zeros((n, N_CHECKS), dtype=np.uint64)
        weights, at = np.ascontiguousarray(self._secrets.rho.T), 0
        for feature, column in zip(own, features, strict=True):
            rows[np.arange(n), at + column] = 1
            checks += weights[at + column]
            at += self._layout.sizes[feature]
        rows[:, at:] = reduced(checks)
        return rows

    def _features(self, codes: list[Codes]) -> list[Codes]:
        """Codes of our features in the order of the layout: the task party's label comes first."""
        books = [feature_codes(book, size) for book, size in self._columns]
        if self._name != self._settings.task:
            (book,), (joint,) = books, codes
            return [book[joint, k] for k in range(book.shape[1])]
        own, label = codes
        n_features = len(self._layout.features_of(self._name)) - 1
        return [label, *(books[0][own, k] for k in range(n_features))]

    # Results.

    def take(self, sender: str, message: m.AnyMessage) -> list[m.Envelope]:
        """A server's commitment, or what it opens."""
        if isinstance(message, m.GramCommitment):
            self._commitments[sender] = message.commitment
            if len(self._commitments) < N_COMPONENTS:
                return []
            reveal = m.GramReveal(to_bytes(self._secrets.rho))
            return [self._to(server, reveal) for server in self._settings.servers]
        if isinstance(message, m.ResultChunk):
            self._inbox.add(sender, message)
        elif isinstance(message, m.ResultSeal):
            self._inbox.seal(sender, message, with_bytes=True)
        else:
            raise RemoteProtocolError(f"no {type(message).__name__} under gram", code="E_STATE")
        if self._inbox.complete:
            opened = {server: self._opened(server) for server in self._settings.servers}
            self._outcome = Outcome(tables=opened_tables(self._settings, opened))
        return []

    def _opened(self, server: str) -> OpenedSums:
        opened = OpenedSums.decode(self._inbox.bytes_of(server))
        if opened.commitment(self._settings.run_id, server) != self._commitments.get(server):
            raise VerificationError(
                f"{server!r} opened other sums than it had committed to", code="E_COMMITMENT"
            )
        if opened.rho.get(self._name) != to_bytes(self._secrets.rho):
            raise VerificationError(f"{server!r} used other check weights than ours", code="E_EQUIVOCATION")
        return opened
