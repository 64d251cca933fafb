"""Joint counts: distinct rows, independent of row order."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedvalue.errors import InputError
from fedvalue.information.contingency import JointCounts, pack


def table(rows: list[tuple[int, ...]]) -> JointCounts:
    array = np.array(rows, dtype=np.int64)
    return JointCounts.from_columns(
        task=array[:, 0], label=array[:, 1], parties={"a": array[:, 2], "b": array[:, 3]}
    )


def as_counter(counts: JointCounts) -> Counter[tuple[int, ...]]:
    return Counter(
        {
            (int(t), int(y), *map(int, x)): int(k)
            for t, y, x, k in zip(counts.task, counts.label, counts.parties, counts.count, strict=True)
        }
    )


rows = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 3), st.integers(0, 2)),
    min_size=1,
    max_size=40,
)


@given(rows)
def test_counts_are_those_of_a_python_counter(table_rows: list[tuple[int, ...]]) -> None:
    assert as_counter(table(table_rows)) == Counter(table_rows)


def test_weights_count_as_repeated_rows_and_zero_weight_is_no_row() -> None:
    counts = JointCounts.from_columns(
        label=np.array([0, 1, 1]), parties={"a": np.array([0, 0, 5])}, count=np.array([3, 2, 0])
    )
    assert as_counter(counts) == {(0, 0, 0): 3, (0, 1, 0): 2}
    assert counts.n_samples == 5
    assert counts.n_items == 2


def test_codes_take_the_smallest_type_that_holds_them() -> None:
    columns = {"a": np.array([0, 255]), "b": np.array([3, 256])}
    counts = JointCounts.from_columns(label=np.array([0, 1]), parties=columns, task=np.array([0, 70_000]))
    assert (counts.label.dtype, counts.parties.dtype, counts.task.dtype) == (np.uint8, np.uint16, np.uint32)
    assert as_counter(counts) == {(0, 0, 0, 3): 1, (70_000, 1, 255, 256): 1}


def test_pack_leaves_its_columns_as_they_are() -> None:
    column = np.array([5, 3, 5])
    assert pack([column]).tolist() == [1, 0, 1]
    assert pack([column, np.array([2**50, 0, 7])]).tolist() == [2, 0, 1]
    assert column.tolist() == [5, 3, 5]


def test_pack_stays_injective_where_the_product_of_sizes_exceeds_64_bits() -> None:
    rng = np.random.default_rng(0)
    columns = [rng.integers(0, 1000, 500) for _ in range(12)]  # 10^36 possible tuples
    columns[0][1::2] = columns[0][::2]
    for column in columns[1:]:
        column[1::2] = column[::2]
    key = pack(columns)
    assert len(np.unique(key)) == len({tuple(row) for row in np.column_stack(columns)})
    assert (key[1::2] == key[::2]).all()


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"label": [0, 1], "parties": {}}, "at least one data party"),
        ({"label": [], "parties": {"a": []}}, "at least one sample"),
        ({"label": [0, 1], "parties": {"a": [0]}}, "party 'a': expected 2 samples as the label has, got 1"),
        ({"label": [0, 1], "parties": {"a": [0, -1]}}, "must not be negative"),
        ({"label": [0], "parties": {"a": [0]}, "count": [0]}, "at least one sample"),
        ({"label": [0], "parties": {"a": [0]}, "count": [1, 1]}, "expected 1 weights, got 2"),
    ],
)
def test_wrong_columns_are_refused(columns: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        JointCounts.from_columns(**columns)  # type: ignore[arg-type]
