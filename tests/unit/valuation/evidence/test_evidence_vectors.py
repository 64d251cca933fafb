"""Pooled evidence against the values of an independent prototype."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from fedvalue.valuation.evidence.evidence_values import evidence_values
from fedvalue.valuation.evidence.feature_table import FeatureTable

VECTORS = json.loads(
    (Path(__file__).resolve().parents[3] / "vectors" / "pooled-evidence.json").read_text(encoding="utf-8")
)
CASES = {case["name"]: case for case in VECTORS["cases"]}


def table_of(case):
    columns = [np.array(column) for column in case["columns"]]
    return FeatureTable.from_columns(
        label=np.array(case["labels"]),
        parties={str(k): [columns[f] for f in own] for k, own in enumerate(case["party_columns"])},
        task=[columns[f] for f in case["task_columns"]],
    )


@pytest.mark.parametrize("name", CASES)
def test_coalition_and_shapley_values_agree_with_the_prototype(name):
    """To the 1e-4 that the file promises; the prototype stops its Newton steps early.

    With a duplicate party the two differ by design: here two equal columns are one column with two holders,
    there they are two columns and a pair.
    """
    case = CASES[name]
    found = evidence_values(table_of(case))
    tolerance = 1e-4 if "duplicate" in name else 2e-7
    assert found.every_coalition == pytest.approx(case["values_by_mask"], abs=tolerance)
    assert found.values == pytest.approx(case["shapley"], abs=tolerance)
    assert found.total == pytest.approx(case["values_by_mask"][-1], abs=tolerance)


@pytest.mark.parametrize("name", [name for name in CASES if "duplicate" not in name])
def test_the_same_pairs_of_columns_are_kept(name):
    kept = evidence_values(table_of(CASES[name])).pair_search.kept
    assert sorted(kept) == [tuple(pair) for pair in CASES[name]["pairs_kept"]]
