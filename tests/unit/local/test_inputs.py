"""Tables as people hold them: by name, by path, and with an index."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fedvalue
from fedvalue.errors import InputError
from fedvalue.local.inputs import gathered_inputs

N = 200
RNG = np.random.default_rng(0)
Y = RNG.integers(0, 2, N)
LOANS = pd.DataFrame(
    {
        "customer": [f"c{k}" for k in range(N)],
        "default": Y,
        "income": RNG.normal(Y, 2.0),
        "bill": RNG.normal(Y, 1.0),
        "calls": RNG.integers(0, 4, N),
        "spend": RNG.gamma(1.0 + Y),
    }
)
PARTIES = {"telco": ["bill", "calls"], "shop": ["spend"]}
PLAIN = {
    "label": LOANS["default"].to_numpy(),
    "task": {"income": LOANS["income"].to_numpy()},
    "parties": {name: {c: LOANS[c].to_numpy() for c in columns} for name, columns in PARTIES.items()},
}
QUICK = {"statistics": False, "coalitions": False}


def values(**arguments):
    return fedvalue.value(**arguments, **QUICK).values


@pytest.fixture(scope="module")
def expected():
    return values(**PLAIN)


@pytest.mark.parametrize("made", [lambda f: f, pl.from_pandas, pa.Table.from_pandas, dict])
def test_columns_of_one_table_are_named(made, expected):
    """A frame of any library, with the label and the owners of its columns by name."""
    named = {"label": "default", "task": ["income"], "parties": PARTIES}
    assert values(data=made(LOANS), **named) == expected
    assert values(data=made(LOANS), **{**named, "task": "income"}) == expected


def test_a_table_may_be_a_path(tmp_path, expected):
    """One file for all, or one per party."""
    LOANS.to_csv(tmp_path / "loans.csv", index=False)
    named = {"label": "default", "task": ["income"], "parties": PARTIES, "ids": "customer"}
    assert values(data=tmp_path / "loans.csv", **named) == expected
    for name, columns in PARTIES.items():
        pq.write_table(pa.Table.from_pandas(LOANS[columns]), tmp_path / f"{name}.parquet")
    parties = {name: str(tmp_path / f"{name}.parquet") for name in PARTIES}
    assert values(label=PLAIN["label"], task=PLAIN["task"], parties=parties) == expected


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"label": "defalt"}, r"data: column 'defalt' not found; did you mean 'default'\?"),
        ({"parties": {"telco": ["bil"]}}, r"column 'bil' not found; did you mean 'bill'\?"),
        ({"parties": {"telco": ["income"]}}, "'income' belongs to the task party and to party 'telco'"),
        ({"parties": {"telco": ["default"]}}, "'default' belongs to the label and to party 'telco'"),
        (
            {"parties": {"telco": LOANS[["bill"]]}},
            "party 'telco' has a table of its own: name the column of ids",
        ),
        ({"label": ["default", "calls"]}, "label must name one column of data"),
        ({"data": None}, "label 'default' is a name: pass the column itself, or the table it is in as data"),
    ],
)
def test_wrong_names_are_answered_with_the_right_ones(change, message):
    """Before anything is valued."""
    named = {"data": LOANS, "label": "default", "task": ["income"], "parties": PARTIES}
    with pytest.raises(InputError, match=message):
        values(**{**named, **change})


def framed(shuffle_label=False, shuffle_telco=False, index=None):
    """The tables as pandas, some with their rows in another order."""
    frame = LOANS if index is None else LOANS.set_index(index)
    order = RNG.permutation(N)
    telco, label = frame[PARTIES["telco"]], frame["default"]
    return {
        "label": label.iloc[order] if shuffle_label else label,
        "task": frame[["income"]],
        "parties": {"telco": telco.iloc[order[::-1]] if shuffle_telco else telco, "shop": frame[["spend"]]},
    }


@pytest.mark.parametrize("index", [None, "customer"])
@pytest.mark.parametrize(("label", "telco"), [(False, False), (True, False), (False, True), (True, True)])
def test_pandas_tables_are_matched_by_index(label, telco, index, expected):
    """Rows in another order are put back into the label's, for default and own indexes."""
    assert values(**framed(label, telco, index)) == pytest.approx(expected, abs=1e-12)


def test_columns_of_a_dict_are_matched_by_index(expected):
    """Each series of a dict carries an index of its own."""
    tables = framed()
    tables["parties"]["telco"] = {"bill": LOANS["bill"].iloc[::-1], "calls": LOANS["calls"]}
    assert values(**tables) == pytest.approx(expected, abs=1e-12)


def test_ids_follow_the_rows():
    """Ids that carry the index go with the label's rows."""
    tables = framed(shuffle_label=True)
    inputs = gathered_inputs(data=None, ids=LOANS["customer"], **tables)
    assert inputs.ids.tolist() == [f"c{k}" for k in tables["label"].index]


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (
            lambda t: t.set_axis(range(1, N + 1)),
            "party 'telco': 1 of 200 index values are not in the index of",
        ),
        (lambda t: t.set_axis([0] * N), "different indexes with repeated values"),
    ],
)
def test_indexes_that_disagree_are_refused(spoil, message):
    """With the remedy; nothing is matched by position in silence."""
    tables = framed()
    tables["parties"]["telco"] = spoil(tables["parties"]["telco"])
    with pytest.raises(InputError, match=message):
        values(**tables)


def test_rows_in_another_order_beside_a_table_without_index_are_refused():
    """Nobody knows which order the array is in."""
    tables = framed(shuffle_telco=True)
    tables["parties"]["shop"] = LOANS[["spend"]].to_numpy()
    with pytest.raises(InputError, match="party 'shop' has no index to follow"):
        values(**tables)
    moved = tables["parties"]["telco"]
    tables["parties"]["telco"] = moved.reset_index(drop=True)
    by_position = {**PLAIN["parties"], "telco": moved.to_numpy()}
    assert values(**tables) == values(**{**PLAIN, "parties": by_position})


@pytest.mark.parametrize("library", ["pandas", "polars", "arrow", "dict", "file"])
def test_a_party_may_have_a_table_of_its_own_beside_data(tmp_path, library):
    """Joined by id in any order, of any library; the match is in the notes."""
    own = pa.Table.from_pandas(
        LOANS[["customer", *PARTIES["telco"]]].sample(frac=1, random_state=0), preserve_index=False
    )
    tables = {
        "pandas": own.to_pandas(), "polars": pl.from_arrow(own), "arrow": own, "dict": own.to_pydict(),
        "file": tmp_path / "t.parquet",
    }  # fmt: skip
    pq.write_table(own, tmp_path / "t.parquet")
    rest = {name: columns for name, columns in PARTIES.items() if name != "telco"}
    valuation = fedvalue.value(
        data=LOANS,
        label="default",
        task=["income"],
        ids="customer",
        parties={"telco": tables[library], **rest},
    )
    expected = values(
        data=LOANS, label="default", task=["income"], parties={"telco": PARTIES["telco"], **rest}
    )
    assert valuation.values == expected
    n = len(LOANS)
    assert f"telco: {n:,} of {n:,} ids matched (100.0%)" in valuation.details["notes"]


def test_file_options_are_an_object():
    """A dict is answered with the name of the class."""
    with pytest.raises(InputError, match="file_options must be a fedvalue"):
        values(data=LOANS, label="default", parties=PARTIES, file_options={"decimal": ","})
