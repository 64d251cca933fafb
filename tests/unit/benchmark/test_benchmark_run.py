"""A whole run on small problems, its result and its page."""

from __future__ import annotations

import importlib.util
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedvalue.benchmark.benchmark_page import render, view, write_page
from fedvalue.benchmark.benchmark_problems import PROFILES, known_problem, known_problems, plan
from fedvalue.benchmark.benchmark_run import BenchmarkResult, run_benchmark, with_truth
from fedvalue.benchmark.methods.method import Method
from fedvalue.benchmark.methods.method_registry import chosen
from fedvalue.benchmark.problem import VerticalTable
from fedvalue.benchmark.retraining import CoalitionGain
from fedvalue.benchmark.truth import TruthCache
from fedvalue.datasets import locate, small_worlds
from fedvalue.errors import InputError
from fedvalue.paper.extras import require_extra
from tests.unit.benchmark.tables import small_problem


class Fails(Method):
    name = "fails"
    about = "raises on <every> table"

    def value(self, table: VerticalTable) -> dict[str, float]:
        raise ValueError("no")


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> BenchmarkResult:
    worthless = replace(known_problem(small_worlds()[0], 50), name="worthless", game=np.zeros(16), noise=None)
    return run_benchmark(
        [small_problem(80, 200), known_problem(small_worlds()[0], 300), worthless],
        [*chosen(["shapley-cmi", "learnable", "information-value"]), Fails()],
        cache=tmp_path_factory.mktemp("cache"),
        profile="quick",
        missing={"music": "the data set music is not on this machine: get it"},
    )


def test_finished_settings_are_those_with_every_coalition(tmp_path: Path) -> None:
    """A real problem counts when its last coalition is in the cache; a known one always."""
    real, known = small_problem(60, 60), known_problem(small_worlds()[0], 50)
    kept = TruthCache(tmp_path)
    some = {mask: CoalitionGain(0.1, (0.1, 0.1)) for mask in range(1, (1 << real.table.n_parties) - 1)}
    kept.write(real, some)
    assert with_truth([real, known], tmp_path) == [known]
    kept.write(real, {**some, len(some) + 1: CoalitionGain(0.1, (0.1, 0.1))})
    assert with_truth([real, known], tmp_path) == [real, known]


def test_real_and_known_problems_are_summarised_apart(result: BenchmarkResult) -> None:
    assert [problem.name for problem in result.of_kind(known=False)] == ["small"]
    assert [problem.name for problem in result.of_kind(known=True)] == ["redundancy"]
    assert not next(problem for problem in result.problems if problem.name == "worthless").scored
    by_name = {row.name: row for row in result.real}
    assert by_name["learnable"].difference is None
    assert by_name["shapley-cmi"].means["tv"].n == 1
    assert by_name["information-value"].means["total"].value is None
    assert by_name["fails"].failed == {"small": "ValueError: no"}
    assert by_name["fails"].means["tv"].value is None
    assert result.real[-1].name == "fails"


def test_the_result_is_json(result: BenchmarkResult) -> None:
    text = json.dumps(result.to_dict(), allow_nan=False)
    back = json.loads(text)
    assert back["schema"] == "fedvalue.benchmark/1"
    true = back["problems"][0]["parties"]
    assert set(true) == {"good", "text", "noise"}
    assert sum(true.values()) == pytest.approx(back["problems"][0]["total"])
    assert back["scores"]["shapley-cmi"]["small"]["tv"] > 0


def test_the_page_shows_what_a_reader_must_know(result: BenchmarkResult, tmp_path: Path) -> None:
    shown = view(result)
    assert shown.lead.startswith("1 vertical splits of 1 data sets.")
    assert shown.scores is not None
    assert {row[0] for row in shown.scores.rows} == {"shapley-cmi", "learnable", "information-value", "fails"}
    assert shown.known is not None
    assert shown.known.header == ("method", "redundancy")
    assert shown.notes[0] == "Left out: the data set music is not on this machine: get it."
    assert "Not scored, because the true total is below 0.01 nats: worthless." in shown.notes
    assert "fails failed on small: ValueError: no" in shown.notes
    assert len(shown.drawings) == 3
    page = write_page(result, tmp_path / "out")
    text = page.read_text()
    assert text == render(shown)
    assert text.count("<svg") == 3
    assert "<?xml" not in text
    assert "http://" not in text.replace("http://www.w3.org", "").replace("http://purl.org", "").replace(
        "http://creativecommons.org", ""
    )
    assert json.loads((tmp_path / "out" / "benchmark.json").read_text())["profile"] == "quick"


def test_known_problems_only(tmp_path: Path) -> None:
    result = run_benchmark([known_problem(small_worlds()[0], 200)], chosen(["shapley-cmi"]), cache=tmp_path)
    shown = view(result)
    assert shown.scores is None
    assert shown.settings is None
    assert shown.drawings == ()
    assert shown.lead == "1 populations with known values."


def test_known_problems_carry_the_populations_game() -> None:
    problems = known_problems(500)
    assert [problem.source for problem in problems[-6:]] == [
        f"{name} {scenario}" for name in ("LINEAR", "MONKLarge") for scenario in ("S0", "S1", "S2")
    ]
    assert all(problem.game is not None for problem in problems)
    assert [problem.noise for problem in problems[:5]] == [None, "nothing", "nothing", "nothing", "nothing"]


def test_a_missing_data_set_is_named_with_what_gets_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FEDVALUE_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(locate, "__file__", str(tmp_path / "site-packages/a/b/c/locate.py"))
    problems, missing = plan("quick", data_sets=["wine", "bank"])
    assert [problem.name for problem in problems] == ["wine/2/1"]
    assert "`fedvalue datasets --download bank` fetches it" in missing["bank"]
    nothing, missing = plan("quick", data_sets=["bank"])
    with pytest.raises(InputError, match="nothing to run: the data set bank is not on this machine"):
        run_benchmark(nothing, chosen([]), missing=missing, cache=tmp_path)


def test_design_and_judging_splits_are_apart() -> None:
    judged = {problem.key for problem in plan("quick", data_sets=["wine"])[0]}
    designed = {problem.key for problem in plan("quick", data_sets=["wine"], design=True)[0]}
    assert not judged & designed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("night",), "profile must be one of quick, full, got 'night'"),
        (("quick", ["iris"]), "unknown data set 'iris'; choose from wine"),
    ],
)
def test_unknown_names_are_refused(arguments: tuple[object, ...], message: str) -> None:
    profile, *data_sets = arguments
    with pytest.raises(InputError, match=message):
        plan(str(profile), data_sets=data_sets[0] if data_sets else ())  # type: ignore[arg-type]
    assert set(PROFILES) == {"quick", "full"}


def test_a_missing_extra_is_named_with_what_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec

    def find_spec(name: str) -> object:
        return None if name in ("lightgbm", "scipy") else real(name)

    monkeypatch.setattr(importlib.util, "find_spec", find_spec)
    with pytest.raises(
        InputError, match=r"not installed: lightgbm, scipy; pip install 'fedvalue\[benchmark\]'"
    ):
        require_extra("benchmark")
