"""The redundancy map on games whose answer can be read off."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from fedvalue.decisions import redundancy
from fedvalue.valuation.result import UpliftRow
from tests.unit.decisions.results import result_of_game


def test_copy_is_replaceable_and_a_superset_is_not():
    """A brings 1, B a fifth of that and nothing else: beside A nothing of B is left, beside B 80% of A."""
    found = redundancy(result_of_game([0, 1.0, 0.2, 1.0], names=["A", "B"]))
    assert found is not None
    assert found.change[1, 0] == pytest.approx(-1.0)
    assert found.change[0, 1] == pytest.approx(-0.2)
    assert found.sentences == ("A already brings 100% of what B brings alone",)
    assert (found.text(1, 0), found.text(0, 1), found.text(0, 0)) == ("−100%", "−20%", "–")


def test_part_of_a_party_is_replaceable():
    """v(A) = 1, v(B) = 0.5, v(AB) = 1.085: of B's 0.5, A brings 0.415 already."""
    found = redundancy(result_of_game([0, 1.0, 0.5, 1.085], names=["A", "B"]))
    assert found is not None
    assert "A already brings 83% of what B brings alone" in found.sentences
    assert found.text(1, 0) == "−83%"


def test_partners_complement_each_other():
    found = redundancy(result_of_game([0, 0.1, 0.1, 1.0], names=["A", "B"]))
    assert found is not None
    assert found.change[0, 1] == pytest.approx(8.0)
    assert found.text(0, 1) == "+800%"
    assert found.sentences == ("A and B complement each other: 80% of the total comes only from having both",)


def test_independent_parties_do_not_change_each_other():
    found = redundancy(result_of_game([0, 1.0, 2.0, 3.0]))
    assert found is not None
    assert found.change[0, 1] == found.change[1, 0] == 0
    assert found.text(0, 1) == "0%"
    assert found.sentences == ()


def test_party_that_brings_nothing_has_nothing_to_replace():
    found = redundancy(result_of_game([0, 1.0, 0.0, 1.0]))
    assert found is not None
    assert np.isnan(found.change[1, 0])
    assert found.text(1, 0) == "·"


def test_a_relation_inside_its_error_has_no_sentence():
    """-0.006 nats in 100 rows is far within the error of 1.5 x 1.96 sqrt(2 x 0.006 / 100) = 0.03 nats."""
    few = redundancy(result_of_game([0, 0.01, 0.01, 0.014], names=["A", "B"], n_samples=100))
    many = redundancy(result_of_game([0, 0.01, 0.01, 0.014], names=["A", "B"], n_samples=10**5))
    assert few is not None
    assert many is not None
    assert few.sentences == ()
    assert len(many.sentences) == 2


def test_interactions_stand_in_for_coalitions():
    """With two parties the interaction is v(AB) - v(A) - v(B), so the map is the same.

    What each brings alone comes from the uplift: the loss of nobody minus the loss with the party.
    """
    whole = result_of_game([0, 1.0, 0.5, 1.1])
    inter = 1.1 - 1.0 - 0.5
    uplift = (
        UpliftRow(parties=(), role="nobody", log_loss=2.0, accuracy=0.5),
        UpliftRow(parties=("p0",), role="alone", log_loss=1.0, accuracy=0.6),
        UpliftRow(parties=("p1",), role="alone", log_loss=1.5, accuracy=0.6),
    )
    part = replace(whole, coalitions=None, interactions=((0.0, inter), (inter, 0.0)), uplift=uplift)
    first, second = redundancy(whole), redundancy(part)
    assert first is not None
    assert second is not None
    assert second.change == pytest.approx(first.change, nan_ok=True)
    assert (first.basis, second.basis) == ("pairs of parties", "Shapley interactions")


def test_no_map_without_a_pair_or_its_numbers():
    assert redundancy(result_of_game([0, 1.0])) is None
    assert redundancy(result_of_game([0, 1.0, 1.0, 2.0], coalitions=False)) is None
    assert redundancy(result_of_game([0, 1.0, 1.0, 2.0], learnable=False)) is None
