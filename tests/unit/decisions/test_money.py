"""Amounts are exact and shown as people write them."""

from __future__ import annotations

import pytest

from fedvalue.decisions.money import amount
from fedvalue.errors import InputError


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("1e9", "1,000,000,000"),
        ("1200.5", "1,200.50"),
        ("12.50", "12.50"),
        ("12.125", "12.125"),
        (25000.0, "25,000"),
        (0.1, "0.10"),
        ("-0", "0"),
        (10**12, "1,000,000,000,000"),
    ],
)
def test_amounts_are_shown_without_exponents_and_with_two_digits_of_cents(written, shown):
    assert f"{amount(written, 'the budget'):,}" == shown


def test_an_amount_that_would_fill_the_screen_is_refused():
    with pytest.raises(InputError, match="the budget must have at most 30 digits"):
        amount("1e999999", "the budget")
