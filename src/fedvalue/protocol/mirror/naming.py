"""The names of columns, codes and cells at the servers under `mirror`, and back.

Only the parties can compute these names: the order of the coordinates and every column's label map derive
from the run's key.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedvalue.information.contingency import JointCounts
from fedvalue.protocol.keyring import Keyring
from fedvalue.protocol.mirror.codebooks import BookLayout, has_masked_books
from fedvalue.protocol.mirror.opaque_cells import collapsed_counts
from fedvalue.protocol.mirror.row_layout import RowLayout
from fedvalue.protocol.settings import RunTerms, Settings

BOTH_SERVERS = "\0both"
"""In key derivation, where codes have the same names at both servers; no server can have this name."""


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
        features = dict(zip(settings.everybody, settings.features, strict=True))
        return tuple(tuple(sorted(features.get(column, ()))) for column in self._columns)

    def columns_of(self, party: str) -> tuple[str, ...]:
        """The columns that a party owns."""
        return self._columns[:2] if party == self._settings.task else (party,)

    def place(self, column: str) -> int:
        """The coordinate of a column."""
        return self._columns.index(column)

    def renamed(self, server: str, column: str) -> NDArray[np.int64]:
        """The name of each code of a column at one server."""
        return self._ring.label_map(self.scope(server), column, self.layout.radices[self.place(column)])

    def scope(self, server: str) -> str:
        """The servers that share these names: one, or with noise both, which add it cell by cell."""
        return server if self._settings.epsilon is None else BOTH_SERVERS

    def counts(self, server: str, words: NDArray[np.uint64], counts: NDArray[np.int64]) -> JointCounts:
        """A server's cells under the real codes and names, in rising order."""
        settings, real = self._settings, {}
        for place, column in enumerate(self._columns):
            code_of = np.argsort(self.renamed(server, column))  # the inverse of a permutation
            real[column] = code_of[self.layout.digits(words, place)]
        ordered = (settings.task, label_name(settings), *settings.parties)
        columns = [real[column] for column in ordered]
        return collapsed_counts(columns, counts, settings.parties, settings.n_codes)
