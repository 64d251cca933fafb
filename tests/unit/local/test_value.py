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
