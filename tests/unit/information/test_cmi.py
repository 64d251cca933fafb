"""CMI and entropy against closed forms and the naive twin."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedvalue import conditional_mutual_information
from fedvalue.errors import InputError
from fedvalue.information.cmi import cmi, conditional_entropy
from tests import naive


def test_entropy_of_a_fair_coin_is_ln_2() -> None:
    assert conditional_entropy(np.array([0, 1]), [], np.array([7, 7])) == pytest.approx(
        math.log(2), abs=1e-15
    )


def test_entropy_of_a_certain_outcome_is_zero() -> None:
    assert conditional_entropy(np.array([0, 1]), [], np.array([9, 0])) == pytest.approx(0, abs=1e-15)


def test_exclusive_or_is_worth_ln_2_given_the_other_input_and_nothing_alone() -> None:
    x, z = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])
    y = x ^ z
    assert cmi(x, y, z) == pytest.approx(math.log(2), abs=1e-15)
    assert cmi(x, y) == pytest.approx(0, abs=1e-15)


def test_a_noisy_channel_has_its_textbook_information() -> None:
    """Binary symmetric channel with error 1/10 and uniform input: ln 2 - H(1/10)."""
    table = np.array([[9, 1], [1, 9]])[:, :, None]
    expected = math.log(2) + 0.1 * math.log(0.1) + 0.9 * math.log(0.9)
    assert conditional_mutual_information(table) == pytest.approx(expected, abs=1e-15)


samples = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(0, 2), st.integers(1, 5)),
    min_size=1,
    max_size=40,
)


@given(samples)
def test_cmi_of_columns_and_of_a_table_are_eq_4(rows: list[tuple[int, int, int, int]]) -> None:
    x, y, z, w = (list(column) for column in zip(*rows, strict=True))
    expected = naive.cmi(x, y, z, w)
    columns = [np.array(c) for c in (x, y, z)]
    assert cmi(*columns, count=np.array(w)) == pytest.approx(expected, abs=1e-12)
    table = np.zeros((4, 3, 3), dtype=np.int64)
    np.add.at(table, tuple(columns), w)
    assert conditional_mutual_information(table) == pytest.approx(expected, abs=1e-12)


@given(samples)
def test_chain_rule(rows: list[tuple[int, int, int, int]]) -> None:
    """I(X, Z; Y) = I(Z; Y) + I(X; Y | Z)."""
    x, y, z, w = (np.array(column) for column in zip(*rows, strict=True))
    both = cmi(x * 10 + z, y, count=w)
    assert both == pytest.approx(cmi(z, y, count=w) + cmi(x, y, z, count=w), abs=1e-12)


@given(samples)
def test_information_is_never_negative_and_at_most_the_labels_entropy(
    rows: list[tuple[int, int, int, int]],
) -> None:
    x, y, z, w = (np.array(column) for column in zip(*rows, strict=True))
    assert -1e-12 <= cmi(x, y, z, count=w) <= conditional_entropy(y, [z], w) + 1e-12


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (np.ones((2, 2)), "shape"),
        (np.zeros((2, 2, 2)), "without samples"),
        (-np.ones((2, 2, 2)), "must not be negative"),
        (np.full((2, 2, 2), np.nan), "must be numbers"),
        (np.full((2, 2, 2), "a"), "must be numbers"),
    ],
)
def test_wrong_tables_are_refused(table: np.ndarray, message: str) -> None:
    with pytest.raises(InputError, match=message):
        conditional_mutual_information(table)


def test_entropy_without_samples_is_refused() -> None:
    with pytest.raises(InputError, match="without samples"):
        conditional_entropy(np.array([0]), [], np.array([0]))
