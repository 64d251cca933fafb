"""What the terms say about limits and rounding is what the roles enforce."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedvalue.agreement.explanation import explain_terms
from fedvalue.agreement.run_settings import terms_of
from fedvalue.crypto.ids import PackedIds
from fedvalue.errors import VerificationError
from fedvalue.information.contingency import Codebook
from fedvalue.protocol.readiness import check_own_table
from fedvalue.protocol.samples import CodedColumn, MemorySamples
from fedvalue.valuation.settings import ValuationSettings
from tests.support.consortium import manifest

PAIRS = Codebook(("a", "b"), np.array([[0, 0], [0, 1], [1, 0], [1, 1]]))
LABEL = np.arange(200) % 2


def words(**terms: Any) -> str:
    return " ".join(explain_terms(manifest(**terms)).split())


def refused(columns: str, codes: np.ndarray) -> bool:
    """Whether the task party's own software refuses a table of two columns, as both servers do."""
    agreed = manifest(n_samples=200, settings=ValuationSettings(columns=columns))
    table = [CodedColumn("x", codes, 4, PAIRS), CodedColumn("y", LABEL, 2)]
    try:
        check_own_table(terms_of(agreed), agreed.task.name, MemorySamples(PackedIds.of_rows(200), table))
    except VerificationError as error:
        return error.code == "E_GATE"
    return False


@pytest.mark.parametrize("columns", ["features", "joint"])
def test_the_terms_promise_the_gate_on_combinations_where_it_is_enforced(columns: str) -> None:
    """Every value of both columns has 20 samples or more; one combination has a single one."""
    rare_combination = np.repeat([0, 1, 2, 3], [99, 81, 19, 1])
    assert refused(columns, rare_combination) == (columns == "joint")
    text = words(settings=ValuationSettings(columns=columns))
    promised = "of every combination of the values of the task party's columns, or both servers refuse"
    warned = "Combinations of values of several columns are NOT limited"
    assert (promised in text) == (columns == "joint")
    assert (warned in text) == (columns == "features")


def test_the_terms_promise_a_gate_on_every_column_and_it_is_enforced() -> None:
    """A value of the first column has 9 samples."""
    assert refused("features", np.repeat([0, 1, 2, 3], [100, 91, 5, 4]))
    assert not refused("features", np.repeat([0, 1, 2, 3], [100, 80, 10, 10]))
    assert "10 samples of every label and of every value of each column of the task party" in words()


def test_where_nothing_is_counted_by_combination_there_is_no_warning() -> None:
    for terms in ({"epsilon": "1"}, {"protocol": "gram", "epsilon": "1"}):
        assert "NOT limited" not in words(**terms)


def test_the_terms_name_the_step_of_a_data_partys_numbers() -> None:
    """30 / 2,000 = 0.015; ln(2,000) / 2,000 = 0.0038."""
    text = words(n_samples=2000)
    assert "rounded at random to multiples of 0.015 with 2000 samples, more coarsely with fewer" in text
    assert "One label changes a value by up to about 0.004." in text
    assert "at random" not in words(n_samples=2000, research=True)
    assert "at random" not in words(n_samples=2000, epsilon="1")
