"""Sums of digits in floating point against Python's whole numbers."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from fedvalue.protocol.gram import row_sums
from fedvalue.protocol.gram.gram_layout import N_CHECKS, GramLayout
from fedvalue.protocol.gram.prime_field import PRIME, Words, expanded, halved, minus, plus
from fedvalue.protocol.gram.row_sums import N_TRIALS, RowSums
from tests.simulation.world import World

LAYOUT = GramLayout.of(World.drawn(4, n=60, sizes=(2, 3, 4), n_label=3).settings("gram", exact_tables=True))
N_COLUMNS = LAYOUT.width + N_CHECKS * len(LAYOUT.everybody)
COIN = bytes(range(32))


def drawn(n_rows: int, seed: int) -> Words:
    """Uniform numbers, and first of all the largest and the smallest ones."""
    rows = np.random.default_rng(seed).integers(0, PRIME, (n_rows, N_COLUMNS), dtype=np.uint32)
    rows[:40], rows[40:50] = PRIME - 1, 0
    return rows


@pytest.mark.parametrize("most_rows", [1 << 20, 64])
@pytest.mark.parametrize("piece", [1 << 15, 1])
def test_sums_of_two_components_are_those_of_whole_numbers(most_rows, piece, monkeypatch):
    """Pieces and digits that are joined early change nothing."""
    monkeypatch.setattr(row_sums, "MOST_ROWS", most_rows)
    monkeypatch.setattr(row_sums, "_PIECE_NUMBERS", piece * N_COLUMNS)
    monkeypatch.setattr(row_sums, "_LEAST_PIECE", 1)
    most = min(most_rows, 130)
    sums, z = RowSums(LAYOUT, COIN, lambda: None), LAYOUT.width
    first, second = drawn(130, 0), drawn(130, 1)
    cuts = list(pairwise([*range(0, 130, most), 130])) if piece > 1 else [(0, 100), (100, 130)]
    weights = []
    for chunk, (start, end) in enumerate(cuts):
        sums.add(chunk, first[start:end], second[start:end])
        weights.append(expanded(COIN, "gram-weights", (end - start, N_TRIALS), chunk.to_bytes(4, "big")))
    total = sums.total()
    f, s, w = first.astype(object), second.astype(object), np.concatenate(weights).astype(object)
    gram = (f.T @ f + f.T @ s + s.T @ f) % PRIME
    assert (total.products == gram[:z, :z]).all()
    by_party = gram[:z, z:].reshape(z, -1, N_CHECKS)
    assert (total.checks == by_party.sum(axis=1) % PRIME).all()
    for component, weighted in zip((f, s), total.weighted, strict=True):
        assert (weighted == w.T @ component % PRIME).all()
    assert (total.entries == w.T @ (f * (f + 2 * s))[:, :z] % PRIME).all()
    assert (total.weights == w.sum(axis=0) % PRIME).all()


@pytest.mark.parametrize("dtype", [np.uint32, np.uint64])
def test_sums_and_differences_stay_below_the_prime(dtype):
    numbers = np.array([0, 1, 2, PRIME // 2, PRIME // 2 + 1, PRIME - 2, PRIME - 1], dtype=dtype)
    a, b = (one.ravel() for one in np.meshgrid(numbers, numbers))
    whole = a.astype(object), b.astype(object)
    assert plus(a, b).tolist() == ((whole[0] + whole[1]) % PRIME).tolist()
    assert minus(a, b).tolist() == ((whole[0] - whole[1]) % PRIME).tolist()
    assert plus(a, b).dtype == minus(a, b).dtype == dtype
    half = halved(a.astype(np.uint64))
    assert plus(half, half).tolist() == a.tolist()
    assert half.max() < PRIME


def test_the_work_can_be_stopped_between_pieces(monkeypatch):
    monkeypatch.setattr(row_sums, "_PIECE_NUMBERS", 10 * N_COLUMNS)
    monkeypatch.setattr(row_sums, "_LEAST_PIECE", 1)
    calls = []
    sums = RowSums(LAYOUT, COIN, lambda: calls.append(1))
    sums.add(0, drawn(60, 0), drawn(60, 1))
    assert len(calls) == 6
