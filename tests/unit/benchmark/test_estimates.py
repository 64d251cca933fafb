"""Methods run on problems: failures are reported, slow methods are kept, an interrupt is an interrupt."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedvalue.benchmark.estimates import EstimateCache, estimate, value_all
from fedvalue.benchmark.methods.method import Estimate, Method
from fedvalue.benchmark.problem import Problem, VerticalTable
from fedvalue.benchmark.truth import Truth
from tests.unit.benchmark.tables import small_problem

GAME = np.array([0.0, 0.3, 0.1, 0.4, 0.0, 0.3, 0.1, 0.4])


class Counted(Method):
    """A slow method that counts how often it is asked."""

    name = "counted"
    version = 1
    calls = 0

    def value(self, table: VerticalTable) -> Estimate:
        type(self).calls += 1
        return Estimate({name: float(len(name)) for name in table.names}, GAME)


class Broken(Method):
    name = "broken"

    def value(self, table: VerticalTable) -> dict[str, float]:
        raise ZeroDivisionError("no rows left")


class Partial(Method):
    name = "partial"

    def value(self, table: VerticalTable) -> dict[str, float]:
        return {"good": 1.0}


class Plain(Method):
    name = "plain"

    def value(self, table: VerticalTable) -> dict[str, float]:
        return {"good": 0.3, "text": np.float64(0.1), "noise": 0}


def known() -> Problem:
    return replace(small_problem(60, 0), game=GAME)


def test_a_slow_method_is_asked_once_per_table(tmp_path: Path) -> None:
    cache, problem = EstimateCache(tmp_path), known()
    Counted.calls = 0
    first = estimate(Counted(), problem, cache)
    again = estimate(Counted(), problem, cache)
    assert Counted.calls == 1
    assert first.estimate is not None
    assert again.estimate is not None
    assert again.estimate.values == first.estimate.values == {"good": 4.0, "text": 4.0, "noise": 5.0}
    assert again.estimate.game is not None
    assert again.estimate.game.tolist() == GAME.tolist()
    assert again.seconds == first.seconds
    estimate(Counted(), replace(problem, seed=9), cache)
    assert Counted.calls == 2
    for file in (tmp_path / "estimates").iterdir():
        file.write_text("damaged")
    estimate(Counted(), problem, cache)
    assert Counted.calls == 3


def test_quick_methods_leave_nothing_on_disk(tmp_path: Path) -> None:
    timed = estimate(Plain(), known(), EstimateCache(tmp_path))
    assert timed.estimate is not None
    assert timed.estimate.values == {"good": 0.3, "text": 0.1, "noise": 0.0}
    assert not list(tmp_path.iterdir())


def test_a_method_that_fails_is_reported_and_the_others_go_on(tmp_path: Path) -> None:
    problem = known()
    valued = value_all(
        [Broken(), Partial(), Plain()], [problem], {"small": Truth(GAME)}, EstimateCache(tmp_path)
    )
    assert valued.failed == {
        "broken": {"small": "ZeroDivisionError: no rows left"},
        "partial": {"small": "partial gave no value to text, noise"},
        "plain": {},
    }
    assert valued.estimates["plain"]["small"] == {"good": 0.3, "text": 0.1, "noise": 0.0}
    assert valued.scores["plain"]["small"].tv == pytest.approx(0)


def test_ctrl_c_is_no_failure_of_a_method(tmp_path: Path) -> None:
    class Pressed(Method):
        name = "pressed"

        def value(self, table: VerticalTable) -> dict[str, float]:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        estimate(Pressed(), known(), EstimateCache(tmp_path))
