"""One code per sample for a party, for the task party and for the label."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from fedvalue.errors import InputError
from fedvalue.tables.coding_settings import CodingSettings
from fedvalue.tables.party_table import check_ids, column_warnings, label_table, party_table, task_table


def test_a_party_is_the_joint_column_of_its_features():
    """Codes number the distinct pairs in lexicographic order; the pair that never occurs has none."""
    table = party_table("shop", {"city": ["b", "a", "b", "a"], "vip": [True, False, False, False]})
    assert table.codes.tolist() == [2, 0, 1, 0]
    assert (table.name, table.n_codes, table.features, table.n_samples) == ("shop", 3, ("city", "vip"), 4)
    assert table.codes.dtype == np.int64


def test_notes_name_missing_and_constant_columns():
    """What a person should know, by column."""
    table = party_table("shop", {"a": [1, None, 2], "b": [7, 7, 7]})
    assert table.notes == ("column 'a': 1 missing values are a category of their own",)
    assert column_warnings(table.columns) == ("column 'b': the same code in every row",)


def test_a_codebook_leads_from_the_joint_code_to_the_features():
    """For every sample, the codebook's row of its joint code is its feature codes."""
    rng = np.random.default_rng(0)
    X = {"a": rng.integers(0, 3, 50), "b": rng.choice(["x", "y"], 50), "c": rng.normal(size=50)}
    table = party_table("p", X)
    assert table.codebook.features == ("a", "b", "c")
    assert table.codebook.n_codes == table.n_codes
    alone = np.column_stack([party_table("p", {name: column}).codes for name, column in X.items()])
    np.testing.assert_array_equal(table.codebook.codes[table.codes], alone)
    assert len(np.unique(table.codebook.codes, axis=0)) == table.n_codes


def test_a_party_of_200_columns_has_a_code_per_row_and_all_its_features():
    """A joint code that is nearly unique per row still leads to 200 columns of five codes each."""
    X = np.random.default_rng(1).normal(size=(300, 200))
    table = party_table("wide", X)
    assert table.n_codes == 300
    assert table.codebook.codes.shape == (300, 200)
    assert table.codebook.codes.max(axis=0).tolist() == [4] * 200


def test_the_task_party_may_have_no_features():
    """One code for all, and no feature."""
    table = task_table(None, 3)
    assert (table.codes.tolist(), table.n_codes, table.features) == ([0, 0, 0], 1, ())
    assert task_table({"x": [1, 2, 1]}, 3).codes.tolist() == [0, 1, 0]


@pytest.mark.parametrize(
    ("y", "expected"),
    [
        (["no", "yes", "no"], [0, 1, 0]),
        (np.array([True, False, True]), [1, 0, 1]),
        ([3, -1, 3], [1, 0, 1]),
        (pd.Series([2.0, 1.0, 2.0]), [1, 0, 1]),
        (pd.DataFrame({"y": [2, 1, 2]}), [1, 0, 1]),
        ([0.5, 0.25, 0.5], [1, 0, 1]),
        (list(range(20)), list(range(20))),
    ],
)
def test_classes_are_kept(y, expected):
    """Text, booleans, whole numbers, and few other numbers are classes in order."""
    table = label_table(y)
    assert table.codes.tolist() == expected
    assert table.notes == ()


def test_a_label_may_come_as_a_table_of_one_column():
    """It is the column's values that count, not its name."""
    assert label_table({"y": [3, 1, 3]}).codes.tolist() == [1, 0, 1]
    with pytest.raises(InputError, match="label 'y': all rows have the same label"):
        label_table({"y": [1, 1]})


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([1, 1, 1], "label 'label': all rows have the same label"),
        ([1, None, 0], "1 of 3 rows have no label"),
        (np.array([np.nan, 1.0]), "1 of 2 rows have no label"),
        ([], "label 'label': at least one row is needed, got none"),
        (np.eye(3), "label: expected one column, got 3"),
        ([[1], [2]], "column 'label'.*list"),
        ([1.0, float("inf")], "infinite"),
    ],
)
def test_a_useless_label_is_refused(y, message):
    """Each with what was expected and what came."""
    with pytest.raises(InputError, match=message):
        label_table(y)


def test_a_party_without_samples_is_refused():
    """Zero rows are no table."""
    with pytest.raises(InputError, match="shop: at least one row is needed, got none"):
        party_table("shop", np.zeros((0, 2)))


def test_ids_name_each_sample_once():
    """Distinct ids pass; otherwise the message has their number and no id."""
    check_ids(["a", "b"])
    check_ids(np.array([7, 8]))
    check_ids(["1", "1.0", "01"])
    with pytest.raises(InputError) as missing:
        check_ids(["secret-1", None, None])
    assert str(missing.value) == "column 'id': 2 rows have no id"
    with pytest.raises(InputError, match="column 'id': 3 rows have no id"):
        check_ids(["a", "", " ", None])
    with pytest.raises(InputError) as repeated:
        check_ids(pd.Series(["secret-1", "secret-1", "b", "b", "b"]), name="customer")
    assert str(repeated.value).startswith(
        "column 'customer': ids must be distinct, got 3 duplicates among 5 rows; keep one row per id"
    )


def test_cleaned_labels_that_are_missing_come_with_another_remedy():
    """The option was advised where it was set."""
    with pytest.raises(InputError, match=r"1 of 3 rows have no label; leave them out of every table$"):
        label_table([1, None, 0], CodingSettings(clean_labels=True))
