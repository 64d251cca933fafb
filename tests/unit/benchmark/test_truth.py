"""The truth is computed once, coalition by coalition, and survives a stop."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedvalue.benchmark.problem import Problem
from fedvalue.benchmark.truth import Truth, TruthCache, compute_truth, default_cache, missing
from fedvalue.engines import thread_engine
from fedvalue.errors import InputError
from tests.unit.benchmark.tables import small_problem


@pytest.fixture
def executor() -> Iterator[ThreadPoolExecutor]:
    with thread_engine(1) as pool:
        yield pool


def two_parties() -> Problem:
    problem = small_problem(60, 60)
    assert problem.unseen is not None
    keep = {
        side: replace(table, parties={k: v for k, v in table.parties.items() if k != "text"})
        for side, table in (("table", problem.table), ("unseen", problem.unseen))
    }
    return replace(problem, **keep)


def test_a_stopped_run_continues_with_what_is_missing(tmp_path: Path, executor: ThreadPoolExecutor) -> None:
    problem, cache = two_parties(), TruthCache(tmp_path)
    assert missing(problem, cache) == [1, 2, 3]
    assert cache.truth(problem) is None

    def stop(done: float, total: float, note: str = "") -> None:
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compute_truth([problem], cache, executor=executor, progress=stop)
    assert missing(problem, cache) == [3]

    seen: list[tuple[float, float]] = []
    compute_truth(
        [problem], cache, executor=executor, progress=lambda done, total, note="": seen.append((done, total))
    )
    assert seen == [(0, 1), (1, 1)]
    truth = cache.truth(problem)
    assert truth is not None
    assert truth.game[0] == 0
    assert truth.game[3] > truth.game[2] - 0.05
    assert truth.halves is not None
    assert truth.halves.mean(axis=0) == pytest.approx(truth.game)

    compute_truth(
        [problem], cache, executor=executor, progress=lambda done, total, note="": seen.append((done, total))
    )
    assert len(seen) == 2  # nothing left to do
    assert [path.suffix for path in (tmp_path / "truth").iterdir()] == [".json"]


def test_other_data_has_another_truth(tmp_path: Path, executor: ThreadPoolExecutor) -> None:
    problem, cache = two_parties(), TruthCache(tmp_path)
    cache.write(problem, {})
    other = replace(problem, seed=problem.seed + 1)
    cache.write(other, {})
    assert len(list((tmp_path / "truth").iterdir())) == 2


def test_a_known_game_needs_no_models(tmp_path: Path, executor: ThreadPoolExecutor) -> None:
    game = np.array([0.0, 0.1, 0.0, 0.1])
    problem, cache = replace(two_parties(), game=game), TruthCache(tmp_path)
    compute_truth([problem], cache, executor=executor)
    truth = cache.truth(problem)
    assert isinstance(truth, Truth)
    assert truth.game is game
    assert truth.halves is None
    assert not list(tmp_path.iterdir())


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    problem, cache = two_parties(), TruthCache(tmp_path)
    cache.write(problem, {})
    (file,) = (tmp_path / "truth").iterdir()
    file.write_text('{"coalitions": {"1": [0.5]}}')
    with pytest.raises(
        InputError, match=r"\.json is damaged .* remove it, and the next run computes it again"
    ):
        cache.truth(problem)


def test_the_cache_follows_the_users_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert default_cache() == Path("/somewhere/fedvalue/benchmark")
