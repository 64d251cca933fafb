"""Labels: what is a class and what an amount, and what is pointed out."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from fedvalue.information.contingency import Codebook, JointCounts
from fedvalue.tables.coding_settings import CodingSettings
from fedvalue.tables.column_report import ColumnCoding
from fedvalue.tables.label import leak_warnings, with_leaks
from fedvalue.tables.party_table import label_table


def test_diabetes_progression_is_an_amount():
    """scikit-learn's diabetes has 214 different whole numbers in 442 rows: five quantile bins."""
    from sklearn.datasets import load_diabetes

    y = load_diabetes().target
    assert len(np.unique(y)) == 214
    table = label_table(y)
    assert table.columns[0].kind == "amount"
    assert table.codes.tolist() == pd.qcut(y, 5, labels=False).tolist()
    assert "is an amount and was cut into 5 bins" in table.notes[0]


def test_amounts_have_quantile_bins_and_a_number_of_their_own():
    """`label_bins` cuts the label alone; "width" is the paper's."""
    y = np.arange(100) ** 2 + 0.5
    assert np.bincount(label_table(y).codes).tolist() == [20] * 5
    assert label_table(y, CodingSettings(label_bins=4)).n_codes == 4
    width = label_table(y, CodingSettings(binning="width"))
    assert width.codes.tolist() == pd.cut(y, 5, labels=False).tolist()


@pytest.mark.parametrize(
    ("y", "kind"),
    [
        (list(range(20)), "class"),
        (list(range(21)), "amount"),
        ([0.5, 1.5, 2.5, 3.5, 4.5], "class"),
        ([0.5, 1.5, 2.5, 3.5, 4.5, 5.5], "amount"),
        (np.arange("2020-01-01", "2020-01-12", dtype="datetime64[D]"), "amount"),
        ([f"class-{k}" for k in range(40)], "class"),
        ([True, False], "class"),
    ],
)
def test_numbers_are_classes_while_they_are_few(y, kind):
    """Up to 20 whole numbers, up to `bins` others; text always."""
    assert label_table(y).columns[0].kind == kind


def test_a_label_named_as_categorical_has_a_class_per_value():
    """The caller decides."""
    table = label_table({"y": list(range(30))}, CodingSettings(categorical=("y",)))
    assert (table.n_codes, table.columns[0].kind) == (30, "class")


def test_labels_that_differ_only_in_case_or_blanks_are_pointed_out():
    """They stay apart: which is right is for a person to say."""
    table = label_table({"churn": ["yes", "YES ", "yes ", "no", "no"]})
    assert table.n_codes == 4
    assert table.warnings == (
        "label 'churn': 'YES ', 'yes', 'yes ' differ only in case or blanks and count as 3 classes; "
        "--clean-labels makes them one",
    )
    clean = label_table({"churn": ["yes", "YES ", "yes ", "no", "no"]}, CodingSettings(clean_labels=True))
    assert (clean.codes.tolist(), clean.warnings) == ([1, 1, 1, 0, 0], ())
    assert clean.columns[0].categories == ("no", "yes")


def test_imbalance_and_rare_classes_are_pointed_out():
    """97 of 100 rows in one class, three in the other."""
    (most, few) = label_table({"fraud": ["no"] * 97 + ["yes"] * 3}).warnings
    assert most == "label 'fraud': 97.0% of the rows are 'no'"
    assert few == "label 'fraud': few rows have the classes 'yes' (3)"
    assert label_table({"fraud": ["no"] * 90 + ["yes"] * 10}).warnings == ()


def counts_of(y, **features):
    codes = np.column_stack(list(features.values()))
    rows, joint = np.unique(codes, axis=0, return_inverse=True)
    return JointCounts.from_columns(
        label=np.asarray(y),
        parties={"shop": joint.reshape(-1)},
        codebooks=[Codebook(tuple(features), rows)],
    )


def leaks_of(counts, classes=()):
    """The warnings about leaks among columns of which only owner and name matter."""
    label = ColumnCoding(party="label", name="y", kind="class", n_codes=2, categories=classes)
    books = counts.codebooks or [None] * len(counts.names)
    columns = [
        ColumnCoding(party=party, name=name, kind="number", n_codes=2)
        for party, book in zip(counts.names, books, strict=True)
        for name in ([party] if book is None else book.features)
    ]
    return leak_warnings(with_leaks([label, *columns], counts))


def test_a_column_that_reproduces_the_label_is_named():
    """Under other codes, too; a column that is right in 7 of 10 rows and a row number are not."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 300)
    noisy = np.where(rng.random(300) < 0.6, y, rng.integers(0, 3, 300))
    counts = counts_of(y, copied=(y + 1) % 3, noisy=noisy, row=np.arange(300))
    assert leaks_of(counts) == (
        "column 'copied' of party 'shop' reproduces the label: check that it is known before the label is",
    )


def test_a_column_that_nearly_gives_the_label_away_is_remarked_on():
    """Of 400 errors of guessing 0, `closed` leaves 60, 15%, and `score` 100, 25%."""
    y = np.repeat([0, 1], [600, 400])
    closed, score = y.copy(), y.copy()
    closed[570:630], score[550:650] = 1 - y[570:630], 1 - y[550:650]
    assert leaks_of(counts_of(y, closed=closed, score=score)) == (
        "column 'closed' of party 'shop' alone avoids 85% of the errors of guessing the label: is it too "
        "good to be known beforehand?",
    )


def test_without_codebooks_the_joint_code_is_the_column():
    """As after a run that knows no features."""
    y = np.array([0, 1] * 10)
    counts = JointCounts.from_columns(label=y, parties={"a": 1 - y, "b": np.arange(20) // 10})
    (warning,) = leaks_of(counts)
    assert "column 'a' of party 'a'" in warning


def test_a_leak_is_found_below_several_spellings_of_a_class():
    """A copy of the clean label says nothing about the spelling of the dirty one."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 400)
    dirty = np.where((y == 1) & (rng.random(400) < 0.3), 2, y)
    counts = counts_of(dirty, loss=y)
    assert leaks_of(counts) == ()
    (warning,) = leaks_of(counts, classes=("no", "yes", "Yes "))
    assert "column 'loss' of party 'shop'" in warning
