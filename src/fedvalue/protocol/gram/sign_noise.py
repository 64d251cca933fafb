"""Noise in the tables with the label: each server knows one draw of three, and chooses none (decision 0326).

Server j's draw T_j in a cell is half of the sum of s_i a_i b_i: public weights s, signs a that servers j - 1
and j draw from a key of theirs, signs b that j and j + 1 draw from another. Server j alone has both.

The check of sums needs T_j rho for every check weight rho of the cell's two columns. Server j holds two of
the three components of rho. The third one, r, is known to the two others, and for it:

1. Server j - 1 sends j + 1 points of lines, w_i = a_i r + m_i, with masks m from its key with server j
   (`GramSigns`).
2. Server j + 1 adds half of the sum of s_i b_i w_i to its share; j takes half of the sum of s_i b_i m_i off.
3. Once w is here, j + 1 shows coefficients c (`GramCheck`). Server j answers with A, the sum of c_i a_i, and
   M, that of c_i m_i (`GramTest`). Unless the sum of c_i w_i is A r + M, server j + 1 opens nothing. Two
   further lines per cell with uniform slopes, one per trial, hide A.

Without step 3 server j - 1 could change w so that the sums fit only if T_j has the value that it guesses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fedvalue.crypto import aes, keys
from fedvalue.crypto.sign_sums import sign_weights
from fedvalue.errors import InputError, VerificationError
from fedvalue.protocol.gram.gram_layout import N_CHECKS, GramLayout
from fedvalue.protocol.gram.prime_field import (
    Elements,
    expanded,
    from_bytes,
    halved,
    of_whole,
    plus,
    products,
    reduced,
    to_bytes,
)
from fedvalue.protocol.gram.row_sums import N_TRIALS

if TYPE_CHECKING:
    from fedvalue.protocol.privacy import Privacy

Signs = NDArray[np.int64]

MAX_SIGNS = 1 << 23
"""Signs of all cells: 128 MiB of `GramSigns` from each server."""

_LEAST_SIGNS = 128
"""A cell counts as at least this many, which bounds the answer in `GramTest` too."""

N_WEIGHTS = 2 * N_CHECKS
"""Check weights of a cell: those of its two columns."""

SIGN_BYTES = 4 * N_WEIGHTS * (MAX_SIGNS + MAX_SIGNS * N_TRIALS // _LEAST_SIGNS)
"""Most bytes of `GramSigns` from one server."""


@dataclass(frozen=True)
class SignPlan:
    """The cells of all tables with the label, in pieces that fit a message; none in a run without noise.

    Args:
        cells: Columns of each cell: of the feature's code and of the label's; shape (n_cells, 2).
        weights: Of the signs of a cell.
        piece_cells: Cells of a piece.
    """

    cells: NDArray[np.int64]
    weights: NDArray[np.int64]
    piece_cells: int

    @classmethod
    def of(cls, layout: GramLayout, privacy: Privacy | None) -> SignPlan:
        """The plan that layout and promise give.

        Raises:
            InputError: More signs than servers are to exchange (E_BUDGET); parties and servers see this
                before any upload.
        """
        if privacy is None:
            return cls(np.zeros((0, 2), dtype=np.int64), np.zeros(0, dtype=np.int64), 1)
        weights, n_labels = sign_weights(privacy.label_levels), layout.sizes[0]
        n_cells = (layout.width - n_labels) * n_labels
        if n_cells * max(_LEAST_SIGNS, len(weights)) > MAX_SIGNS:
            raise InputError(
                f"{layout.width - n_labels:,} codes of all features with {n_labels:,} labels have "
                f"{n_cells:,} cells, with noise of {len(weights)} signs each: above the limit of "
                f"{MAX_SIGNS:,} signs; use fewer columns, bins or categories",
                code="E_BUDGET",
            )
        codes, labels = np.meshgrid(np.arange(n_labels, layout.width), np.arange(n_labels), indexing="ij")
        cells = np.stack([codes.ravel(), labels.ravel()], axis=1)
        cell_bytes = 4 * N_WEIGHTS * (len(weights) + N_TRIALS)
        return cls(cells, weights, max(1, layout.chunk_bytes // cell_bytes))

    @property
    def n_pieces(self) -> int:
        """Number of pieces."""
        return -(-len(self.cells) // self.piece_cells)

    @property
    def n_lines(self) -> int:
        """Lines of a cell: its signs, and those that hide the answers."""
        return len(self.weights) + N_TRIALS

    def piece(self, index: int) -> slice:
        """The cells of a piece."""
        return slice(index * self.piece_cells, min((index + 1) * self.piece_cells, len(self.cells)))

    def shape(self, index: int) -> tuple[int, int, int]:
        """Of the values in a piece: cells, check weights, lines."""
        cells = self.piece(index)
        return cells.stop - cells.start, N_WEIGHTS, self.n_lines

    def check_weights(self, rho: Elements) -> Elements:
        """What multiplies the noise of each cell: rho of the label's code, then of the feature's.

        Args:
            rho: Shape (N_CHECKS, width).
        """
        return np.concatenate([rho[:, self.cells[:, 1]], rho[:, self.cells[:, 0]]]).T

    def in_check_columns(self, terms: Elements, width: int) -> Elements:
        """Terms of each cell and check weight, added up in the rows that they belong to."""
        total = np.zeros((width, N_CHECKS), dtype=np.uint64)
        np.add.at(total, self.cells[:, 0], terms[:, :N_CHECKS])
        np.add.at(total, self.cells[:, 1], terms[:, N_CHECKS:])
        return reduced(total)

    def as_matrix(self, noise: Signs, width: int) -> Signs:
        """The noise of each cell, in a symmetric matrix over all columns."""
        matrix = np.zeros((width, width), dtype=np.int64)
        matrix[self.cells[:, 0], self.cells[:, 1]] = matrix[self.cells[:, 1], self.cells[:, 0]] = noise
        return matrix


def drawn_signs(plan: SignPlan, key: bytes, side: str, index: int) -> Signs:
    """The signs of a piece.

    Args:
        plan: The cells.
        key: Of a component.
        side: "a" for the draw of the server whose first component it is, "b" for the one whose second.
        index: Of the piece.
    """
    n_cells, n_signs = plan.shape(index)[0], len(plan.weights)
    own = keys.subkey(key, b"", "gram-signs", side.encode(), index.to_bytes(4, "big"), length=16)
    blocks = aes.encrypt(own, aes.counter_blocks(-(-n_cells * n_signs // 128)))
    bits = np.unpackbits(blocks.view(np.uint8), count=n_cells * n_signs)
    return 2 * bits.reshape(n_cells, n_signs).astype(np.int64) - 1


def lines(plan: SignPlan, key: bytes, index: int) -> tuple[Elements, Elements]:
    """Slopes a, shape (cells, lines), and masks m, shape (cells, check weights, lines), of a piece."""
    n_cells, _, n_lines = plan.shape(index)
    place = index.to_bytes(4, "big")
    hiding = expanded(key, "gram-hiding", (n_cells, N_TRIALS), place)
    slopes = np.concatenate([of_whole(drawn_signs(plan, key, "a", index)), hiding], axis=1)
    return slopes, expanded(key, "gram-masks", (n_cells, N_WEIGHTS, n_lines), place)


def line_values(plan: SignPlan, key: bytes, rho: Elements, index: int) -> Elements:
    """What server j - 1 sends about a piece, for the component of rho that server j lacks."""
    slopes, masks = lines(plan, key, index)
    weights = plan.check_weights(rho)[plan.piece(index)]
    return reduced(slopes[:, None, :] * weights[:, :, None] + masks)


def coefficients(plan: SignPlan, seed: bytes) -> Elements:
    """Of all lines of a cell, per trial; the line that hides a trial's answer has 1 in it."""
    of_signs = expanded(seed, "gram-coefficients", (N_TRIALS, len(plan.weights)))
    return np.concatenate([of_signs, np.eye(N_TRIALS, dtype=np.uint64)], axis=1)


def half_sum(plan: SignPlan, signs: Signs, values: Elements) -> Elements:
    """Half of the sum of s_i b_i times the values of the signs' lines, per cell and check weight."""
    weighted = values[:, :, : len(plan.weights)].astype(np.int64) * (plan.weights * signs)[:, None, :]
    return halved(of_whole(weighted.sum(axis=2)))


def combined(plan: SignPlan, seed: bytes, values: Elements) -> Elements:
    """Sums of values over lines with the coefficients of a seed; trials last."""
    flat = np.ascontiguousarray(values.reshape(-1, plan.n_lines).T)
    total = products(flat, np.ascontiguousarray(coefficients(plan, seed).T))
    return total.reshape(*values.shape[:-1], N_TRIALS)


@dataclass(frozen=True)
class OwnDraw:
    """What server j computes about its own draw.

    Args:
        noise: T_j of every cell.
        masked: Half of the sum of s_i b_i m_i, per cell and check weight.
        answer: A and M, for the server that got w.
    """

    noise: Signs = field(repr=False)
    masked: Elements = field(repr=False)
    answer: bytes = field(repr=False)


def own_draw(
    plan: SignPlan, own_key: bytes, next_key: bytes, seed: bytes, checkpoint: Callable[[], None]
) -> OwnDraw:
    """The draw of the server that holds both keys.

    Args:
        plan: The cells.
        own_key: Of its first component, for a and m.
        next_key: Of its second component, for b.
        seed: Of the coefficients.
        checkpoint: Called between pieces; raises where the run is to end.
    """
    noise = np.zeros(len(plan.cells), dtype=np.int64)
    masked = np.zeros((len(plan.cells), N_WEIGHTS), dtype=np.uint64)
    answer = np.zeros((len(plan.cells), 1 + N_WEIGHTS, N_TRIALS), dtype=np.uint64)
    for index in range(plan.n_pieces):
        checkpoint()
        cells = plan.piece(index)
        a, b = drawn_signs(plan, own_key, "a", index), drawn_signs(plan, next_key, "b", index)
        slopes, masks = lines(plan, own_key, index)
        noise[cells] = (a * b) @ plan.weights // 2
        masked[cells] = half_sum(plan, b, masks)
        answer[cells] = combined(plan, seed, np.concatenate([slopes[:, None, :], masks], axis=1))
    return OwnDraw(noise, masked, to_bytes(answer))


class ReceivedLines:
    """What server j + 1 does with the values that j - 1 sends, piece by piece.

    Args:
        plan: The cells.
        seed: Of the coefficients, of this server alone until all pieces are here.
    """

    def __init__(self, plan: SignPlan, seed: bytes) -> None:
        self._plan = plan
        self._seed = seed
        self._arrived: set[int] = set()
        self.products = np.zeros((len(plan.cells), N_WEIGHTS), dtype=np.uint64)
        """Half of the sum of s_i b_i w_i, per cell and check weight."""
        self._combined = np.zeros((len(plan.cells), N_WEIGHTS, N_TRIALS), dtype=np.uint64)

    @property
    def complete(self) -> bool:
        """Whether all pieces are here."""
        return len(self._arrived) == self._plan.n_pieces

    def add(self, index: int, values: Elements, key: bytes) -> None:
        """A piece, and the key of b."""
        cells = self._plan.piece(index)
        self.products[cells] = half_sum(self._plan, drawn_signs(self._plan, key, "b", index), values)
        self._combined[cells] = combined(self._plan, self._seed, values)
        self._arrived.add(index)

    def verify(self, answer: bytes, rho: Elements, *, sender: str, owner: str) -> None:
        """Whether the values are on the lines of server j.

        Args:
            answer: A and M of server j.
            rho: The component of rho that it lacks.
            sender: The server that sent the values.
            owner: Server j.

        Raises:
            VerificationError: E_NOISE.
        """
        shape = (len(self._plan.cells), 1 + N_WEIGHTS, N_TRIALS)
        found = from_bytes(answer, shape, who=owner)
        weights = self._plan.check_weights(rho)
        due = plus(reduced(found[:, :1, :] * weights[:, :, None]), found[:, 1:, :])
        if not np.array_equal(due, self._combined):
            raise VerificationError(
                f"the signs of {sender!r} and {owner!r} do not fit together: one of them is wrong",
                code="E_NOISE",
            )


def pieces(plan: SignPlan, key: bytes, rho: Elements) -> Iterator[bytes]:
    """All pieces that server j - 1 sends."""
    for index in range(plan.n_pieces):
        yield to_bytes(line_values(plan, key, rho, index))
