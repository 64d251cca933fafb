"""What columns, codes and cells are called at the servers under `mirror`, and back.

Only the parties can compute these names: the order of the coordinates and every column's label map
come from the run's key.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedvalue.information.contingency import JointCounts
from fedvalue.protocol.keyring import Keyring
from fedvalue.protocol.mirror.codebooks import BookLayout, has_masked_books
from fedvalue.protocol.mirror.opaque_cells import collapse
from fedvalue.protocol.mirror.row_layout import RowLayout
from fedvalue.protocol.settings import RunTerms, Settings

BOTH_SERVERS = "\0both"
"""In key derivation, where codes have the same names at both servers; no server is called so."""


def label_name(terms: RunTerms) -> str:
    """Name of the label's column in key derivation; no party can have it."""
    return terms.task + "\0label"


class Naming:
    """The secret names of one run.

    Attributes:
        order: The data parties in the secret order of their coordinates.
        layout: The place of every coordinate.
        books: The place of every coordinate's codebook; empty where servers get none.
    """

    def __init__(self, settings: Settings, ring: Keyring) -> None:
        self._settings = settings
        self._ring = ring
        places = ring.coordinate_order(len(settings.parties))
        self.order = tuple(settings.parties[int(k)] for k in places)
        sizes = dict(zip(settings.parties, settings.n_codes, strict=True))
        self.layout = RowLayout.of(
            (settings.n_task_codes, settings.n_label_codes, *(sizes[party] for party in self.order))
        )
        self._columns = (settings.task, label_name(settings), *self.order)
        self.books = BookLayout(self.layout.radices, self._features())

    def _features(self) -> tuple[tuple[int, ...], ...]:
        settings = self._settings
        if not has_masked_books(settings):
            return ((),) * len(self._columns)
        own = dict(zip(settings.everybody, settings.features, strict=True))
        return tuple(tuple(sorted(own.get(column, ()))) for column in self._columns)

    def columns_of(self, party: str) -> tuple[str, ...]:
        """The columns that a party owns."""
        return self._columns[:2] if party == self._settings.task else (party,)

    def place(self, column: str) -> int:
        """The coordinate of a column."""
        return self._columns.index(column)

    def renamed(self, server: str, column: str) -> NDArray[np.int64]:
        """What each code of a column is called at one server."""
        return self._ring.label_map(self.scope(server), column, self.layout.radices[self.place(column)])

    def scope(self, server: str) -> str:
        """Who knows codes by these names: one server, or with noise both, which they add cell by cell."""
        return server if self._settings.epsilon is None else BOTH_SERVERS

    def counts(self, server: str, words: NDArray[np.uint64], counts: NDArray[np.int64]) -> JointCounts:
        """A server's cells under the real codes and names, in rising order."""
        real = {
            column: self._real(server, place)[self.layout.digits(words, place)]
            for place, column in enumerate(self._columns)
        }
        settings = self._settings
        ordered = (settings.task, label_name(settings), *settings.parties)
        columns = np.column_stack([real[column] for column in ordered])
        rows, totals = collapse(columns.astype(np.uint64), counts)
        signed = rows.astype(np.int64)
        return JointCounts(
            task=signed[:, 0].copy(),
            label=signed[:, 1].copy(),
            parties=np.ascontiguousarray(signed[:, 2:]),
            count=totals,
            names=settings.parties,
            n_codes=settings.n_codes,
        )

    def _real(self, server: str, place: int) -> NDArray[np.int64]:
        """The inverse of a column's label map."""
        renamed = self.renamed(server, self._columns[place])
        real = np.empty_like(renamed)
        real[renamed] = np.arange(len(renamed))
        return real
