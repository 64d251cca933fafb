"""Low-order values stay what they are within a values version (decision 0416)."""

from __future__ import annotations

import json

import pytest

from fedvalue._version import VALUES_VERSION
from fedvalue.protocol.outcome import same_numbers
from fedvalue.protocol.release_grid import TOLERANCE
from fedvalue.valuation.low_order import ESTIMATOR_VERSION
from fedvalue.valuation.low_order.low_order_valuation import value_tables
from tests.vectors.make_low_order import FILE, numbers, tables_from

RECORDED = json.loads(FILE.read_text())
ADVICE = "Raise VALUES_VERSION, then record the values with python -m tests.vectors.make_low_order"


@pytest.mark.parametrize("name", ["exact", "noisy"])
def test_the_same_tables_keep_their_values(name: str) -> None:
    """To the tolerance with which a certificate's values are compared with those computed again."""
    case = RECORDED[name]
    assert same_numbers(numbers(value_tables(tables_from(case))), case["values"], TOLERANCE), ADVICE


def test_the_record_is_of_this_values_version() -> None:
    assert (RECORDED["values_version"], RECORDED["estimator_version"]) == (
        VALUES_VERSION,
        ESTIMATOR_VERSION,
    ), ADVICE
