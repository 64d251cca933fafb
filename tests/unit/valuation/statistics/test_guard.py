"""Flags are facts about estimates; a party whose learnable share is sound has none."""

from __future__ import annotations

import pytest

from fedvalue.valuation.engine import value_counts
from fedvalue.valuation.result import PartyValue
from fedvalue.valuation.statistics.guard import MEANINGS, describe, flags
from tests.statistics.tables import informative_and_not


def party(value=0.2, share=0.4, learnable=0.18, n_codes=5, learnable_share=None):
    return PartyValue(
        name="p", value=value, share=share, alone=0.0, last=0.0, n_codes=n_codes, learnable=learnable,
        learnable_share=learnable_share,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        (party(), ()),
        (party(learnable=0.04), ("memorised",)),
        (party(learnable=0.06), ()),
        (party(value=0.01, share=0.02, learnable=0.0), ("no_signal",)),
        (party(value=0.01, share=0.02, learnable=0.002), ()),
        (party(n_codes=600, learnable=0.0), ("near_unique", "memorised")),
        (party(n_codes=201), ("sparse_codes",)),
        (party(n_codes=200), ()),
        (party(n_codes=1000, learnable=None), ("near_unique",)),
        (party(n_codes=1000, learnable=0.04, learnable_share=0.05), ()),
        (party(n_codes=1000, learnable=0.04, learnable_share=0.04), ("near_unique", "memorised")),
    ],
)
def test_flags_of_a_party_among_1000_samples(case, expected):
    assert flags(case, 1000) == expected


def test_row_numbers_and_noise_are_flagged_in_a_result_and_honest_parties_are_not():
    found = {p.name: p.flags for p in value_counts(informative_and_not(400)).parties}
    assert found["strong"] == ()
    assert found["weak"] == ()
    assert "memorised" in found["noise"]
    assert found["rows"] == ("near_unique", "memorised")


def test_every_flag_has_its_sentence():
    for name, sentence in MEANINGS.items():
        assert describe(name) == sentence
        assert sentence.endswith(".")
    assert describe("from_the_future") == "from the future"
