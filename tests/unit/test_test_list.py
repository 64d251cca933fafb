"""The test list names tests that exist, says which are slow, and leaves out no number."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
ROWS = re.findall(
    r"^\| (\d+) \| .+ \| (.+) \|$", (TESTS.parent / "docs" / "test-list.md").read_text(), flags=re.MULTILINE
)


@cache
def found_in(file: str) -> dict[str, bool]:
    """Every test of a file, and whether `make test` leaves all of it out."""
    tree = ast.parse((TESTS / file).read_text())
    marks = [ast.unparse(node) for node in tree.body if isinstance(node, ast.Assign)]
    whole = any(mark.startswith("pytestmark") and "pytest.mark.slow" in mark for mark in marks)
    return {
        node.name: whole or any(ast.unparse(one) == "pytest.mark.slow" for one in node.decorator_list)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }


def test_every_number_has_its_row() -> None:
    assert [int(number) for number, _ in ROWS] == list(range(1, 42))


@pytest.mark.parametrize(("number", "cell"), ROWS, ids=[number for number, _ in ROWS])
def test_every_named_test_exists(number: str, cell: str) -> None:
    named = re.findall(r"`([\w/]+\.py)::(\w+)`( \*S\*)?", cell)
    assert len(named) == cell.count("<br>") + 1
    for file, name, slow in named:
        assert name in found_in(file), f"{file}::{name}"
        assert found_in(file)[name] == bool(slow), f"{file}::{name}"
