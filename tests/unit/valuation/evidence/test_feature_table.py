"""The feature table: what it takes, what it refuses, and how tables add up."""

from __future__ import annotations

import numpy as np
import pytest

from fedvalue.errors import InputError
from fedvalue.information.contingency import Codebook, JointCounts
from fedvalue.valuation.evidence.canonical_table import canonical_table
from fedvalue.valuation.evidence.evidence_values import evidence_values
from fedvalue.valuation.evidence.feature_table import TASK, FeatureTable
from tests.unit.valuation.evidence.worlds import random_table


def small() -> FeatureTable:
    return FeatureTable.from_columns(
        label=np.array([0, 1, 1, 0]),
        parties={
            "bank": {"age": np.array([0, 1, 1, 2])},
            "shop": [np.array([5, 5, 5, 9]), np.array([0, 0, 0, 1])],
        },
        task=[np.array([1, 0, 0, 1])],
        count=np.array([3, 1, 2, 1]),
    )


def test_columns_have_owners():
    table = small()
    assert table.owner == (TASK, 0, 1, 1)
    assert (table.n_samples, table.n_items, table.n_parties, table.n_columns) == (7, 4, 2, 4)


def test_rows_of_count_zero_are_left_out():
    table = FeatureTable.from_columns(
        label=np.array([0, 1]), parties={"a": [np.array([0, 1])]}, count=np.array([0, 4])
    )
    assert table.n_items == 1
    assert table.label.tolist() == [1]


def test_codebooks_give_the_same_table_as_columns():
    """A server sees one opaque code per party, and what each code stands for."""
    table = random_table(2, n=120, task=True)
    own = [
        [k for k, owner in enumerate(table.owner) if owner == party] for party in range(TASK, table.n_parties)
    ]
    rng = np.random.default_rng(0)
    codes, books = [], []
    for columns in own:
        rows, code = np.unique(table.codes[:, columns], axis=0, return_inverse=True)
        names = rng.permutation(len(rows))
        codes.append(names[code])
        book = np.empty_like(rows)
        book[names] = rows
        books.append(book)
    books = [Codebook(tuple(f"x{k}" for k in range(book.shape[1])), book) for book in books]
    parties = dict(zip(table.parties, codes[1:], strict=True))
    counts = JointCounts.from_columns(
        label=table.label, task=codes[0], parties=parties, codebooks=books[1:], task_codebook=books[0]
    )
    rebuilt = FeatureTable.from_counts(counts)
    assert rebuilt.owner == table.owner
    assert evidence_values(rebuilt).values.tolist() == evidence_values(table).values.tolist()
    short = [Codebook(books[1].features, books[1].codes[:1]), *books[2:]]
    with pytest.raises(InputError, match="codebook of party 'p0'"):
        FeatureTable.from_counts(
            JointCounts.from_columns(label=table.label, task=codes[0], parties=parties, codebooks=short)
        )


def test_a_negative_code_in_a_codebook_is_refused():
    """Codes are narrowed to unsigned types, in which -1 would be another code."""
    codes = np.array([0, 1, 1, 0])
    book = Codebook(("x",), np.array([[0], [-1]]))
    counts = JointCounts.from_columns(label=codes, parties={"a": codes}, codebooks=[book])
    with pytest.raises(InputError, match="codebook of party 'a': codes must not be negative"):
        FeatureTable.from_counts(counts)


def test_joint_codes_are_one_column_per_party():
    counts = JointCounts.from_columns(
        label=np.array([0, 1, 1, 0]), parties={"a": np.array([0, 1, 1, 0]), "b": np.array([0, 0, 1, 1])}
    )
    table = FeatureTable.from_joint_codes(counts)
    assert table.owner == (TASK, 0, 1)
    assert table.n_samples == 4


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"label": np.array([0, 1])}, "expected 4 labels"),
        ({"owner": (0,)}, "expected 4 owners"),
        ({"parties": ()}, "at least one data party"),
        ({"count": np.array([1, 0, 1, 1])}, "counts must be at least 1"),
        ({"label": np.array([0, -1, 1, 0])}, "codes must not be negative"),
        ({"owner": (TASK, 0, 1, 2)}, "party 2 of 2"),
    ],
)
def test_tables_that_make_no_sense_are_refused(change, message):
    table = small()
    fields = {name: getattr(table, name) for name in ("codes", "label", "count", "owner", "parties")}
    with pytest.raises(InputError, match=message):
        FeatureTable(**{**fields, **change})


def test_columns_of_another_length_and_empty_tables_are_refused():
    with pytest.raises(InputError, match="column 'x' of 'a': expected 2 rows, got 3"):
        FeatureTable.from_columns(label=np.array([0, 1]), parties={"a": {"x": np.array([0, 1, 2])}})
    with pytest.raises(InputError, match="at least one sample"):
        FeatureTable.from_columns(label=np.array([], dtype=int), parties={"a": [np.array([], dtype=int)]})


def test_large_codes_are_kept_apart():
    codes = np.array([0, 2**40, 2**40 + 1, 0])
    table = canonical_table(FeatureTable.from_columns(label=np.array([0, 1, 0, 1]), parties={"a": [codes]}))
    assert table.n_codes == (3,)


def test_copies_are_one_column_with_several_holders():
    column = np.array([0, 1, 2, 1, 0, 2])
    table = FeatureTable.from_columns(
        label=np.array([0, 1, 0, 1, 1, 0]),
        parties={"a": [column], "b": [column[::-1] * 0 + (column + 1) % 3, np.arange(6)], "c": [2 - column]},
    )
    canonical = canonical_table(table)
    assert canonical.members == ((0, 1, 3), (2,))
    assert canonical.holders == (0b111, 0b010)


def test_a_subset_by_content_is_the_same_under_any_numbering():
    table = random_table(7, n=500)
    rng = np.random.default_rng(1)
    order = rng.permutation(table.n_items)
    renamed = np.stack([rng.permutation(20)[table.codes[order, k]] for k in range(table.n_columns)], axis=1)
    other = FeatureTable(renamed, 1 - table.label[order], table.count[order], table.owner, table.parties)
    one, two = canonical_table(table).first_items(60), canonical_table(other).first_items(60)
    assert 60 <= one.n_items < 200
    assert one.key.tolist() == two.key.tolist()
    assert one.count.tolist() == two.count.tolist()
