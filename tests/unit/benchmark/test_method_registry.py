"""Methods by name, and a researcher's own by where it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedvalue.benchmark.methods.method_registry import METHODS, REFERENCE, chosen
from fedvalue.errors import InputError
from tests.unit.benchmark.tables import small_table

# The example of the documentation, word for word.
OWN = """
from fedvalue.benchmark import Method


class Columns(Method):
    name = "columns"
    about = "number of columns"

    def value(self, table):
        return {party: float(len(columns)) for party, columns in table.parties.items()}
"""


def test_all_of_them_or_those_that_are_named() -> None:
    assert [method.name for method in chosen([])] == list(METHODS)
    assert [method.name for method in chosen(["shapley-cmi", "learnable", "shapley-cmi"])] == [
        "shapley-cmi",
        "learnable",
    ]
    assert REFERENCE in METHODS
    assert all(method.about for method in METHODS.values())


def test_ones_own_method_from_a_file_in_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my_methods.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    (method,) = chosen(["my_methods:Columns"])
    assert method.value(small_table(20, 0)) == {"good": 1.0, "text": 1.0, "noise": 1.0}


def test_the_documented_example_is_the_tested_one() -> None:
    page = Path(__file__).resolve().parents[3] / "docs" / "benchmark.md"
    assert OWN.strip() in page.read_text()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("shap", r"unknown method 'shap'; choose from learnable, .* or name your own as module:Class"),
        ("no_such_module:Thing", "cannot load the method 'no_such_module:Thing'"),
        ("json:JSONDecoder", "json:JSONDecoder is not a method"),
        ("json:Nothing", "cannot load the method 'json:Nothing'"),
    ],
)
def test_what_is_no_method_is_refused(name: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        chosen([name])


def test_two_methods_of_one_name_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "same_name.py").write_text(OWN.replace('"columns"', '"learnable"'))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="two methods are named learnable"):
        chosen(["learnable", "same_name:Columns"])
