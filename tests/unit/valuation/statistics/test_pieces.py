"""Walks piece by piece: the blocks of every top, and sums that do not depend on the cuts."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest

from fedvalue.valuation.entropies import coalition_entropies
from fedvalue.valuation.items import ItemTable, item_table
from fedvalue.valuation.statistics import joint_table_game, pieces
from fedvalue.valuation.statistics.influence import exact_influence, small_influence
from tests.statistics.tables import random_table

CUTS = (1, 7, 2**15)


def items_of(seed: int) -> ItemTable:
    return item_table(random_table(seed, p=4, n=200, labels=2 + seed % 2, codes=5))


@pytest.mark.parametrize("most", CUTS)
@pytest.mark.parametrize("top", range(4))
def test_pieces_hold_the_blocks_of_more_than_one_label(monkeypatch, most, top):
    monkeypatch.setattr(pieces, "PIECE_ITEMS", most)
    items = items_of(1)
    blocks = defaultdict(list)
    for item, key in enumerate(zip(items.codes[-1].tolist(), items.codes[top].tolist(), strict=True)):
        blocks[key].append(item)
    expected = {tuple(block) for block in blocks.values() if len(set(items.label[block].tolist())) > 1}
    found = set()
    for piece in pieces.pieces(items, top):
        borders = piece.table.task_start
        found |= {tuple(block.tolist()) for block in np.split(piece.members, borders[1:-1])}
        assert piece.table.codes.tolist() == items.codes[:top, piece.members].tolist()
        # Another layout would compile every kernel twice, and spread a party's codes over the cache.
        assert piece.table.codes.flags.c_contiguous
        assert piece.table.label.tolist() == items.label[piece.members].tolist()
        assert len(piece.members) <= most or len(borders) == 2
    assert found == expected


@pytest.mark.parametrize("most", CUTS)
@pytest.mark.parametrize("seed", range(4))
def test_compiled_game_is_the_one_counted_in_numpy(monkeypatch, most, seed):
    monkeypatch.setattr(pieces, "PIECE_ITEMS", most)
    monkeypatch.setattr(joint_table_game, "is_small", lambda items: False)
    items = items_of(seed)
    entropy = coalition_entropies(items)
    assert joint_table_game.plug_in_game(items) == pytest.approx(entropy[0] - entropy, abs=1e-13)


@pytest.mark.parametrize("most", CUTS)
@pytest.mark.parametrize("seed", range(4))
def test_pointwise_values_do_not_depend_on_the_cuts(monkeypatch, most, seed):
    monkeypatch.setattr(pieces, "PIECE_ITEMS", most)
    items = items_of(seed)
    walked, counted = exact_influence(items), small_influence(items)
    assert walked is not None
    assert walked.first == pytest.approx(counted.first, abs=1e-13)
    assert walked.bias == pytest.approx(counted.bias, abs=1e-13)
