"""One code per sample for a party, for the task party and for the label."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from fedvalue.errors import InputError
from fedvalue.tables.columns import columns_of
from fedvalue.tables.party_table import PartyCoding, check_ids, label_table, party_table, task_table


def test_a_party_is_the_joint_column_of_its_features():
    """Codes number the distinct pairs in lexicographic order; the pair that never occurs has none."""
    table = party_table("shop", {"city": ["b", "a", "b", "a"], "vip": [True, False, False, False]})
    assert table.codes.tolist() == [2, 0, 1, 0]
    assert (table.name, table.n_codes, table.features, table.n_samples) == ("shop", 3, ("city", "vip"), 4)
    assert table.codes.dtype == np.int64


def test_notes_tell_of_missing_and_constant_columns():
    """What a person should know is said by column."""
    table = party_table("shop", {"a": [1, None, 2], "b": [7, 7, 7]})
    assert table.notes == (
        "column 'a' has 1 missing values, a category of their own",
        "column 'b' is constant",
    )


def test_a_coding_gives_other_rows_the_same_feature_codes():
    """Feature codes of a part of the rows are that part of the feature codes, also through JSON and PCA."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    for pca in (None, 2):
        coding = party_table("p", X, pca=pca).coding
        again = PartyCoding.from_dict(json.loads(json.dumps(coding.to_dict())))
        whole = np.array(coding.feature_codes(columns_of(X, name="p")))
        part = np.array(again.feature_codes(columns_of(X[10:20], name="p")))
        np.testing.assert_array_equal(part, whole[:, 10:20])
    with pytest.raises(InputError, match=r"expected the columns \['2'\]"):
        party_table("p", X).coding.feature_codes(columns_of(X[:, :2], name="p"))
    with pytest.raises(InputError, match="expected the coding of a party"):
        PartyCoding.from_dict({})


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
        (list(range(30)), list(range(30))),
    ],
)
def test_classes_are_kept(y, expected):
    """Text, booleans, whole numbers, and few other numbers are classes in order."""
    table = label_table(y)
    assert table.codes.tolist() == expected
    assert table.notes == ()


def test_a_regression_label_is_binned_and_says_so():
    """Numbers with a fraction and many distinct values fall into equal-width bins."""
    y = np.arange(11) + 0.5
    table = label_table(y)
    assert table.codes.tolist() == pd.cut(y, 5, labels=False).tolist()
    (note,) = table.notes
    assert "binned into 5 bins" in note


def test_the_caller_may_decide_what_a_numeric_label_is():
    """Whole numbers can be binned, fractions can be kept, dates are a scale unless kept."""
    assert label_table(range(11), binned=True).n_codes == 5
    assert label_table(np.arange(11) + 0.5, binned=False).n_codes == 11
    days = np.arange("2020-01-01", "2020-01-12", dtype="datetime64[D]")
    assert label_table(days).n_codes == 5
    assert label_table(days, binned=False).n_codes == 11


def test_very_many_classes_are_pointed_out():
    """Hundreds of whole numbers are kept as classes, with a note."""
    (note,) = label_table(range(100)).notes
    assert "100 whole numbers, each a class" in note


def test_a_label_may_come_as_a_table_of_one_column():
    """It is the column's values that count, not its name."""
    assert label_table({"y": [3, 1, 3]}).codes.tolist() == [1, 0, 1]
    with pytest.raises(InputError, match="label 'y': expected at least two distinct labels"):
        label_table({"y": [1, 1]})


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([1, 1, 1], "label 'label': expected at least two distinct labels, got a constant one"),
        ([1, None, 0], "expected a label for every sample, got 1 missing"),
        (np.array([np.nan, 1.0]), "got 1 missing"),
        ([], "label 'label': expected at least one sample, got none"),
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
    with pytest.raises(InputError, match="shop: expected at least one sample, got none"):
        party_table("shop", np.zeros((0, 2)))


@pytest.mark.parametrize("make", [party_table, lambda name, X, **how: task_table(X, 3, name=name, **how)])
def test_bad_binning_is_refused_for_every_party(make):
    """Also by a party whose columns would not be binned."""
    with pytest.raises(InputError, match="bins must be"):
        make("shop", {"x": ["a", "b", "c"]}, bins=1)
    with pytest.raises(InputError, match="binning must be"):
        make("shop", {"x": ["a", "b", "c"]}, binning="tree")


def test_ids_name_each_sample_once():
    """Distinct ids pass; otherwise the message has their number and no id."""
    check_ids(["a", "b"])
    check_ids(np.array([7, 8]))
    with pytest.raises(InputError) as missing:
        check_ids(["secret-1", None, None])
    assert str(missing.value) == "column 'id': expected an id for every row, got 2 missing"
    with pytest.raises(InputError) as repeated:
        check_ids(pd.Series(["secret-1", "secret-1", "b", "b", "b"], name="customer"))
    assert str(repeated.value) == "column 'customer': expected distinct ids, got 3 duplicates among 5 rows"
