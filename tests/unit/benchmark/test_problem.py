"""A problem's key is its content."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fedvalue.benchmark.problem import Problem, VerticalTable
from fedvalue.errors import InputError
from tests.unit.benchmark.tables import small_problem, small_table


def changed(party: str, column: str, value: object) -> Problem:
    problem = small_problem()
    parties = {name: dict(columns) for name, columns in problem.table.parties.items()}
    cells = parties[party][column].copy()
    cells[3] = value
    parties[party][column] = cells
    return replace(problem, table=replace(problem.table, parties=parties))


def test_the_key_follows_content_not_name() -> None:
    problem = small_problem()
    assert replace(problem, name="other", source="other").key == problem.key
    others = [
        changed("good", "x", 0.123),
        changed("text", "colour", "grey"),
        replace(problem, unseen=None),
        replace(problem, unseen=small_table(400, 5)),
        replace(problem, seed=2),
        small_problem(task=True),
    ]
    assert len({problem.key, *(other.key for other in others)}) == len(others) + 1


def test_columns_of_a_coalition() -> None:
    table = small_table(10, 0, task=True)
    assert list(table.columns()) == ["task.t"]
    assert list(table.columns(0b110)) == ["task.t", "text.colour", "noise.z"]


def test_the_noise_party_is_one_of_the_parties() -> None:
    table = VerticalTable(np.zeros(2, dtype=np.int64), {}, {"a": {"x": np.zeros(2)}})
    with pytest.raises(InputError, match="the noise party 'b' is not one of"):
        Problem("p", "p", table, noise="b")
