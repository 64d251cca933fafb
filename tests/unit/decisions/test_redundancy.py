"""The redundancy map on games whose answer can be read off."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from fedvalue.decisions import redundancy
from tests.unit.decisions.results import result_of_game


def test_copy_is_replaceable_and_a_superset_is_not():
    """A tells 1, B tells a fifth of that and nothing else: B is 100% replaceable by A, A 20% by B."""
    found = redundancy(result_of_game([0, 1.0, 0.2, 1.0], names=["A", "B"]))
    assert found is not None
    assert found.matrix[1, 0] == pytest.approx(1.0)
    assert found.matrix[0, 1] == pytest.approx(0.2)
    assert found.sentences == ("B is 100% replaceable by A",)


def test_sentence_of_the_issue():
    """v(A) = 1, v(B) = 0.5, v(AB) = 1.085: of B's 0.5, 0.415 is told by A."""
    found = redundancy(result_of_game([0, 1.0, 0.5, 1.085], names=["A", "B"]))
    assert found is not None
    assert "B is 83% replaceable by A" in found.sentences


def test_partners_complement_each_other():
    found = redundancy(result_of_game([0, 0.1, 0.1, 1.0], names=["A", "B"]))
    assert found is not None
    assert found.matrix[0, 1] == pytest.approx(-8.0)
    assert "A and B complement each other: 80% of the total is told only by both together" in found.sentences


def test_independent_parties_are_not_replaceable():
    found = redundancy(result_of_game([0, 1.0, 2.0, 3.0]))
    assert found is not None
    assert found.matrix[0, 1] == found.matrix[1, 0] == 0
    assert found.sentences == ()


def test_party_that_tells_nothing_has_nothing_to_replace():
    found = redundancy(result_of_game([0, 1.0, 0.0, 1.0]))
    assert found is not None
    assert np.isnan(found.matrix[1, 0])
    assert np.isnan(found.matrix[0, 0])


def test_interactions_stand_in_for_coalitions():
    """With two parties the interaction is v(AB) - v(A) - v(B), so the map is the same."""
    whole = result_of_game([0, 1.0, 0.5, 1.1])
    inter = 1.1 - 1.0 - 0.5
    part = replace(whole, coalitions=None, interactions=((0.0, inter), (inter, 0.0)))
    first, second = redundancy(whole), redundancy(part)
    assert first is not None
    assert second is not None
    assert second.matrix == pytest.approx(first.matrix, nan_ok=True)
    assert (first.basis, second.basis) == ("pairs of parties", "Shapley interactions")


def test_pairs_alone_are_enough():
    """A result of many parties carries the pairs only, and the map is the same."""
    whole = result_of_game([0, 1.0, 0.5, 1.1])
    pairs = replace(whole, coalitions={"learnable_pairs": (1.0, 1.1, 1.1, 0.5)})
    first, second = redundancy(whole), redundancy(pairs)
    assert first is not None
    assert second is not None
    assert second.matrix == pytest.approx(first.matrix, nan_ok=True)
    assert first.basis == second.basis == "pairs of parties"


def test_memorising_party_replaces_nobody():
    whole = result_of_game([0, 1.0, 0.5, 1.0])
    parties = (replace(whole.parties[0], flags=("near_unique", "memorised")), whole.parties[1])
    part = replace(whole, parties=parties, coalitions=None, interactions=((0.0, -0.5), (-0.5, 0.0)))
    found = redundancy(part)
    assert found is not None
    assert np.isnan(found.matrix).all()
    assert found.sentences == ()


def test_no_map_without_a_pair_or_its_numbers():
    assert redundancy(result_of_game([0, 1.0])) is None
    assert redundancy(result_of_game([0, 1.0, 1.0, 2.0], coalitions=False)) is None
