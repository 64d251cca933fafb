"""The item table: sorted by label, dense codes, and nothing lost."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given, settings

from fedvalue.valuation.items import dense_codes, item_table
from tests.support.joint_tables import Table, tables


@given(tables(most_parties=4, most_items=30))
@settings(max_examples=60)
def test_table_holds_the_samples_of_the_counts(table: Table) -> None:
    """Up to the names of codes: each column is a renaming of its party's."""
    counts = table.counts()
    items = item_table(counts)
    assert (np.diff(items.label) >= 0).all()
    assert items.n_samples == counts.n_samples
    assert items.n_labels == len(set(table.label))
    columns = [*items.codes, items.label]
    originals = [*counts.parties.T, counts.task, counts.label]
    seen = Counter(zip(zip(*(c.tolist() for c in columns), strict=True), items.weight.tolist(), strict=True))
    assert sum(seen.values()) == counts.n_items
    order = np.argsort(counts.label, kind="stable")
    for column, original in zip(columns, originals, strict=True):
        pairs = set(zip(column.tolist(), original[order].tolist(), strict=True))
        assert len(pairs) == len(set(column.tolist())) == len(set(original.tolist()))


@given(tables(most_parties=3, most_items=30))
@settings(max_examples=60)
def test_items_of_a_task_code_stand_together_and_sorted_by_label(table: Table) -> None:
    items = item_table(table.counts())
    assert sorted(items.by_task.tolist()) == list(range(items.n_items))
    for code, (low, high) in enumerate(zip(items.task_start[:-1], items.task_start[1:], strict=True)):
        members = items.by_task[low:high]
        assert (items.codes[-1, members] == code).all()
        assert (np.diff(items.label[members]) >= 0).all()


def test_codes_are_numbered_in_order_of_appearance() -> None:
    assert dense_codes(np.array([7, 2, 7, 9, 2])).tolist() == [0, 1, 0, 2, 1]
    assert dense_codes(np.array([], dtype=np.uint32)).tolist() == []


def test_packed_labels_add_up_to_the_counts_of_a_block() -> None:
    table = Table([[0, 0, 0, 0]], [0, 1, 1, 2], [0, 1, 2, 3], [5, 2, 9, 1])
    items = item_table(table.counts())
    total = int(items.packed.sum())
    field = (1 << items.field_bits) - 1
    assert [total >> (k * items.field_bits) & field for k in range(3)] == [5, 11, 1]
