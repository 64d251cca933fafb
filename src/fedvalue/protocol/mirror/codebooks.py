"""Codebooks of `mirror`: the feature codes behind each renamed joint code, for the servers.

A row carries one joint code per party. So that servers can also see a party's columns one by one, each
party uploads its codebook once per server: per renamed joint code, the renamed codes of its features.

- The table that a party uploads has a section for every coordinate, in the run's secret order. It holds zeros
  except in the party's own sections, under zero-sum masks. The sum over all parties shows every codebook, but
  not its owner.
- A section begins with a tag: HMAC under the owner's code key (`authenticators`), which no other party
  knows. A change to another party's section is detected (E_AUTH).
- Joint codes are renamed as in the rows, feature codes by a secret permutation of the owner that differs
  between servers. The order of a party's features is secret too, and the same at both servers: by the sizes
  of their ranges, which all parties know, and at random where sizes are equal.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedvalue.crypto import aes
from fedvalue.crypto.masks import add_masks
from fedvalue.errors import RemoteProtocolError, VerificationError
from fedvalue.information.contingency import Codebook
from fedvalue.protocol import messages as m
from fedvalue.protocol.samples import opaque_codebook
from fedvalue.protocol.settings import ColumnView, Policy, ProtocolName, RunTerms, Settings

TAG_BYTES = 16
BLOCK = 16
"""Masks come in blocks of 16 bytes: a section fills whole blocks."""


def has_masked_books(terms: RunTerms) -> bool:
    """Whether the servers get codebooks: where they compute values of single columns."""
    values = terms.protocol is ProtocolName.MIRROR and terms.policy is Policy.VALUATION
    return values and terms.columns is ColumnView.FEATURES


@dataclass(frozen=True, slots=True)
class BookLayout:
    """The place of every coordinate's section in the table.

    Args:
        radices: Sizes of the joint code ranges by coordinate.
        features: Sizes of the feature code ranges by coordinate; empty where there is no codebook.
    """

    radices: tuple[int, ...]
    features: tuple[tuple[int, ...], ...]

    @property
    def cell_type(self) -> np.dtype[np.unsignedinteger]:
        """The smallest type that holds every feature code."""
        largest = max((size for sizes in self.features for size in sizes), default=1)
        return np.min_scalar_type(largest - 1)

    def section_bytes(self, place: int) -> int:
        """Length of a coordinate's section: tag, cells, and zeros up to a whole block."""
        cells = self.radices[place] * len(self.features[place]) * self.cell_type.itemsize
        return 0 if not self.features[place] else TAG_BYTES + -(-cells // BLOCK) * BLOCK

    def start(self, place: int) -> int:
        """First byte of a coordinate's section."""
        return sum(self.section_bytes(k) for k in range(place))

    @property
    def n_bytes(self) -> int:
        """Length of the table."""
        return self.start(len(self.radices))

    @property
    def n_cells(self) -> int:
        """Cells of all codebooks."""
        return sum(radix * len(sizes) for radix, sizes in zip(self.radices, self.features, strict=True))

    def part_bytes(self, terms: RunTerms) -> int:
        """Bytes per message: whole blocks."""
        return terms.chunk_bytes - terms.chunk_bytes % BLOCK

    def n_parts(self, terms: RunTerms) -> int:
        """Number of messages that carry the table."""
        return -(-self.n_bytes // self.part_bytes(terms))


def codebook_bytes(settings: Settings) -> int:
    """Bytes of all codebooks that all parties upload to both servers."""
    if not has_masked_books(settings):
        return 0
    layout = BookLayout((settings.n_task_codes, *settings.n_codes), settings.features)
    return layout.n_bytes * len(settings.everybody) * len(settings.servers)


def written_section(layout: BookLayout, place: int, key: bytes, codes: NDArray[np.int64]) -> bytes:
    """A coordinate's section: its renamed codebook, of shape (n_codes, n_features), with its tag."""
    cells = codes.astype(layout.cell_type).tobytes()
    section = _tag(key, place, cells) + cells
    return section.ljust(layout.section_bytes(place), b"\0")


def masked_table(
    layout: BookLayout, own: Mapping[int, bytes], masks: Sequence[tuple[int, bytes]]
) -> memoryview:
    """A party's upload: its own sections by coordinate, zeros elsewhere, and its masks on everything."""
    words = np.zeros((layout.n_bytes // BLOCK, 2), dtype=np.uint64)
    table = words.view(np.uint8).reshape(-1)
    for place, section in own.items():
        start = layout.start(place)
        table[start : start + len(section)] = np.frombuffer(section, dtype=np.uint8)
    add_masks(words, aes.counter_blocks(len(words)), [(sign, [key]) for sign, key in masks])
    return table.data


class BookSum:
    """The sum of the parties' tables at one server, as received so far."""

    def __init__(self, terms: RunTerms, layout: BookLayout) -> None:
        self._terms = terms
        self.layout = layout
        self._sum = np.zeros(layout.n_bytes // 8, dtype=np.uint64)
        self._n_received = dict.fromkeys(terms.everybody, 0)

    def add(self, party: str, chunk: m.CodebookChunk) -> None:
        """The next part of a party's table.

        Raises:
            RemoteProtocolError: Out of order (E_DECLARED), or of a wrong size (E_SIZE).
        """
        n_parts, size = self.layout.n_parts(self._terms), self.layout.part_bytes(self._terms)
        if chunk.total != n_parts or not chunk.index == self._n_received[party] < n_parts:
            raise RemoteProtocolError(f"{party!r} sent part of a codebook out of order", code="E_DECLARED")
        start = chunk.index * size
        expected = min(size, self.layout.n_bytes - start)
        if len(chunk.data) != expected:
            raise RemoteProtocolError(
                f"{party!r}: part of a codebook has {len(chunk.data)} bytes, expected {expected}",
                code="E_SIZE",
            )
        words = np.frombuffer(chunk.data, dtype="<u8")
        self._sum[start // 8 : start // 8 + len(words)] += words
        self._n_received[party] += 1

    def late(self) -> tuple[str, ...]:
        """The parties whose tables are not complete."""
        n_parts = self.layout.n_parts(self._terms)
        return tuple(party for party, n_received in self._n_received.items() if n_received < n_parts)

    def books(self, keys: Sequence[bytes]) -> list[Codebook | None]:
        """Every coordinate's codebook, once all tables are here.

        Args:
            keys: The code key of every coordinate.

        Raises:
            VerificationError: A codebook is not what its owner wrote (E_AUTH).
        """
        table = self._sum.view(np.uint8)
        return [self._book(place, key, table) for place, key in enumerate(keys)]

    def _book(self, place: int, key: bytes, table: NDArray[np.uint8]) -> Codebook | None:
        layout, sizes = self.layout, self.layout.features[place]
        if not sizes:
            return None
        start = layout.start(place)
        section = table[start : start + layout.section_bytes(place)].tobytes()
        n_cells = layout.radices[place] * len(sizes)
        end = TAG_BYTES + n_cells * layout.cell_type.itemsize
        cells = section[TAG_BYTES:end]
        codes = np.frombuffer(cells, dtype=layout.cell_type).astype(np.int64).reshape(-1, len(sizes))
        intact = hmac.compare_digest(_tag(key, place, cells), section[:TAG_BYTES])
        # Masks that do not cancel, a wrong tag and a code out of range give the same answer.
        if not intact or section[end:].strip(b"\0") or (codes >= np.array(sizes)).any():
            raise VerificationError("a codebook is not what its owner wrote", code="E_AUTH")
        return opaque_codebook(codes)


def _tag(key: bytes, place: int, cells: bytes) -> bytes:
    content = b"codebook" + place.to_bytes(4, "big") + cells
    return hmac.digest(key, content, "sha256")[:TAG_BYTES]
