"""`fedvalue.value` refuses what is no table per party before it looks at any."""

from __future__ import annotations

import pandas as pd
import pytest

import fedvalue
from fedvalue.errors import InputError

COLUMN = [0, 1, 0, 1]


@pytest.mark.parametrize(
    ("parties", "message"),
    [
        ({}, "at least one data party is needed, got none"),
        (None, "at least one data party is needed, got none"),
        ([COLUMN], "parties must be a dict of tables by party name, got list"),
        (pd.DataFrame({"shop": COLUMN}), "got DataFrame"),
        ({7: COLUMN}, "a party's name must be text, got 7"),
        ({"": COLUMN}, "a party's name must be text, got ''"),
    ],
)
def test_parties_are_tables_by_name(parties: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        fedvalue.value(label=COLUMN, parties=parties)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ids": "customer"}, "ids='customer' names a column of data"),
        ({"categorical": ["zipcode"]}, "categorical: column 'zipcode' not found; did you mean 'zip_code'"),
        ({"categorical": "zip"}, "categorical: column 'zip' not found"),
        ({"acceptance": "auc_gain=0.1"}, "acceptance must be a fedvalue.AcceptanceTest"),
    ],
)
def test_arguments_that_would_be_ignored_are_refused(options: dict[str, object], message: str) -> None:
    """A table in another order was matched row by row in spite of its ids; a misspelt zip code was binned."""
    parties = {"shop": {"customer": [3, 1, 2, 4], "zip_code": COLUMN}}
    with pytest.raises(InputError, match=message):
        fedvalue.value(label=COLUMN, parties=parties, **options)  # type: ignore[arg-type]


def test_one_categorical_column_may_be_named_without_a_list() -> None:
    """Ten zip codes keep ten codes; as numbers they have five bins."""
    parties = {"shop": {"zip": list(range(10)) * 2}}
    named = fedvalue.value(label=[0, 1] * 10, parties=parties, categorical="zip")
    assert [column.n_codes for column in named.columns if column.name == "zip"] == [10]


@pytest.mark.parametrize("prices", [[1], "shop.csv"])
def test_prices_are_amounts_by_name(prices: object) -> None:
    valuation = fedvalue.value(label=COLUMN, parties={"shop": COLUMN})
    with pytest.raises(InputError, match="prices must be a dict of amounts by party name"):
        fedvalue.select(valuation, prices, budget=1)  # type: ignore[arg-type]
