"""`fedvalue benchmark` as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fedvalue import benchmark
from fedvalue.benchmark.benchmark_problems import known_problem
from fedvalue.datasets import small_worlds
from tests.cli.here import fedvalue_here
from tests.cli.runner import fedvalue


@pytest.fixture
def small_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    """One small problem instead of those of the profiles."""
    monkeypatch.setattr(
        benchmark,
        "plan",
        lambda *_, **__: ([known_problem(small_worlds()[0], 200)], {"bank": "no bank"}),
    )


@pytest.mark.usefixtures("small_plan")
def test_a_run_prints_a_table_and_leaves_a_page(tmp_path: Path) -> None:
    out = tmp_path / "out"
    ran = fedvalue_here(
        "benchmark", "--method", "shapley-cmi", "--method", "information-value", "--out", out,
        "--cache", tmp_path,
    )  # fmt: skip
    assert ran.code == 0, ran.err
    assert "left out: no bank" in ran.err
    assert f"results: {out / 'index.html'}" in ran.err
    lines = [line.split() for line in ran.out.splitlines()]
    assert ["method", "redundancy"] in lines
    assert any(line[:1] == ["information-value"] and line[1].endswith("%") for line in lines)
    assert {path.name for path in out.iterdir()} == {"index.html", "benchmark.json"}


@pytest.mark.usefixtures("small_plan")
def test_json_is_alone_on_stdout(tmp_path: Path) -> None:
    ran = fedvalue_here(
        "benchmark", "--method", "shapley-cmi", "--out", tmp_path / "out", "--cache", tmp_path, "--json", "-"
    )
    assert json.loads(ran.out)["schema"] == "fedvalue.benchmark/1"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--profile", "night"), "profile must be one of quick, full, got 'night'"),
        (("--method", "magic"), "unknown method 'magic'"),
        (("--data", "iris"), "unknown data set 'iris'"),
    ],
)
def test_wrong_arguments(arguments: tuple[str, ...], message: str, tmp_path: Path) -> None:
    ran = fedvalue_here("benchmark", *arguments, "--out", tmp_path / "out")
    assert ran.code == 3
    assert message in ran.err
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_a_real_data_set_from_nothing(tmp_path: Path) -> None:
    """Wine ships with scikit-learn, so this is what a fresh installation can do."""
    ran = fedvalue(
        "benchmark", "--data", "wine", "--method", "learnable", "--method", "shapley-cmi",
        "--out", tmp_path / "out", "--cache", tmp_path / "cache", timeout=900,
    )  # fmt: skip
    assert ran.code == 0
    assert "1 vertical splits of 1 data sets" in ran.out


@pytest.mark.usefixtures("small_plan")
def test_ctrl_c_says_that_the_same_command_continues(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(benchmark, "run_benchmark", interrupted)
    ran = fedvalue_here("benchmark", "--method", "shapley-cmi", "--out", tmp_path / "out")
    assert ran.code == 130
    assert "what was computed so far is kept: the same command continues" in ran.err
