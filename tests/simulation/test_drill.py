"""Cheats against every protocol: hardened and mirrored runs detect each server and party every time."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, pairwise

import msgspec
import numpy as np
import pytest

from fedvalue.errors import InputError
from fedvalue.protocol.tokens.queries import estimate
from fedvalue.simulation.drill.detection import advise, miss_dropping
from fedvalue.simulation.drill.runner import DrillRow, Trial, run_drill
from fedvalue.simulation.drill.scenarios import SCENARIOS, Scenario
from tests.simulation.world import World

BEHAVIOURS = tuple(scenario.behaviour for scenario in SCENARIOS)
COLLUSION = "both servers share one lie"
EXPECTED_CODES = {
    ("paper", "drop the only one"): {"E_MARGINAL"},
    ("paper", "zero"): {"E_FLOOR"},
    ("paper", "wrong count"): {"E_COUNT"},
    ("paper", "inject random tokens"): {"E_GROUP"},
    ("paper", "duplicate tokens"): {"E_GROUP"},
    ("paper", "replay another query"): {"E_GROUP"},
    ("paper", "replay another run"): {"E_GROUP"},
    ("paper", "return one party's upload"): {"E_AUTH"},
    ("paper", "ignore a party"): {"E_AUTH"},
    ("paper", "marginal-preserving forgery"): {"E_AUTH"},
    ("paper", "validation server lies"): {"E_COUNT"},
    ("mirror", "drop one"): {"E_MIRROR"},
    ("mirror", "change the result after both agreed"): {"E_MIRROR"},
    ("mirror", "a party sends the servers different columns"): {"E_MIRROR"},
    ("mirror", "a party signs two roots"): {"E_SPLIT"},
    ("mirror", "a party changes another's column"): {"E_AUTH"},
    ("mirror", "a party declares other columns"): {"E_DECLARED"},
    ("paper", "a party's sets depend on the cell"): {"E_MARGINAL"},
    ("paper", "a party takes another's value"): {"E_MARGINAL"},
    ("mirror", "replay another run"): {"E_REPLAY"},
    ("mirror", "swap cells"): {"E_MIRROR"},
    ("mirror", "merge cells"): {"E_MIRROR"},
    ("mirror", "marginal-preserving forgery"): {"E_MIRROR"},
    ("mirror", "validation server lies"): {"E_MIRROR"},
}


@pytest.fixture(scope="module")
def rows() -> list[DrillRow]:
    return list(run_drill(trials=6, seed=1))


def test_every_behaviour_meets_every_protocol(rows: list[DrillRow]) -> None:
    seen = {(row.protocol, row.hardened, row.behaviour) for row in rows}
    wanted = {
        ("paper", hardened, one.behaviour) for hardened in (False, True) for one in SCENARIOS if one.paper
    }
    wanted |= {("mirror", True, one.behaviour) for one in SCENARIOS if one.mirror}
    assert {behaviour for *_, behaviour in wanted} == set(BEHAVIOURS)
    assert seen == wanted


def test_hardened_and_mirrored_runs_detect_every_single_server(rows: list[DrillRow]) -> None:
    for row in rows:
        if row.hardened and row.behaviour != COLLUSION:
            assert row.detected == row.trials, row
            assert row.predicted == pytest.approx(1.0, abs=2**-40)


def test_codes_say_which_check_saw_it(rows: list[DrillRow]) -> None:
    found = {(row.protocol, row.behaviour): set(row.codes) for row in rows if row.hardened}
    for key, codes in EXPECTED_CODES.items():
        assert found[key] == codes


def test_two_servers_with_one_lie_are_never_detected(rows: list[DrillRow]) -> None:
    """The documented limit: integrity rests on two servers that do not collude."""
    for row in rows:
        if row.behaviour == COLLUSION:
            assert (row.detected, row.predicted) == (0, 0.0)


@pytest.mark.parametrize(
    "behaviour",
    [
        "drop the only one", "return one party's upload", "ignore a party", "marginal-preserving forgery",
        "a party's sets depend on the cell", "a party takes another's value",
    ],
)  # fmt: skip
def test_the_published_check_is_fooled(rows: list[DrillRow], behaviour: str) -> None:
    """Attacks A1, A2 and A7, and two of a data party, pass Steps 3 and 4 with probability 1."""
    row = next(r for r in rows if r.behaviour == behaviour and r.protocol == "paper" and not r.hardened)
    assert (row.detected, row.predicted) == (0, 0.0)


@pytest.mark.parametrize(
    ("behaviour", "trials"),
    [
        ("drop one", 300),
        ("drop many", 300),
        pytest.param("drop one", 10_000, marks=pytest.mark.slow),
        pytest.param("drop many", 10_000, marks=pytest.mark.slow),
    ],
)
def test_the_published_check_keeps_its_predicted_rates(behaviour: str, trials: int) -> None:
    """Measured rates within 4 standard deviations of F1 (a wrong formula, 1 / C(M q, q), is off by more)."""
    scenario = next(s for s in SCENARIOS if s.behaviour == behaviour)
    trial, rng = Trial(scenario, "paper", hardened=False, q=2, n_r=1), np.random.default_rng(2)
    detected = sum(trial.run(rng) != "" for _ in range(trials))
    row = DrillRow("paper", False, behaviour, trials, detected, 1 - scenario.missed(2, 1))
    assert not row.surprising, row
    assert 0 < row.detected < row.trials


@pytest.mark.slow
@pytest.mark.parametrize(("q", "n_r"), [(2, 1), (2, 3), (3, 1)])
def test_the_published_check_keeps_its_predicted_rates_over_many_runs(q: int, n_r: int) -> None:
    chosen = ("drop one", "drop many", "drop the only one", "return one party's upload", "ignore a party")
    for row in run_drill(protocols=("paper",), trials=4000, q=q, n_r=n_r, seed=3, behaviours=chosen):
        assert not row.surprising, row


@pytest.mark.parametrize(("m", "s", "q"), [(2, 1, 2), (3, 1, 2), (3, 2, 2), (2, 1, 3), (4, 1, 1)])
def test_formula_f1_by_counting_all_cases(m: int, s: int, q: int) -> None:
    """Of all choices of s·q of m·q tokens, count those that are whole samples."""
    tokens = [(sample, copy) for sample in range(m) for copy in range(q)]
    choices = list(combinations(tokens, s * q))
    whole = sum(len({sample for sample, _ in choice}) == s for choice in choices)
    assert miss_dropping(m, s, q, 0) == pytest.approx(whole / len(choices))


def test_published_values_of_f1() -> None:
    """The table of the analysis: M = 2, 5, 10, 100 for q = 2, 3, 4."""
    expected = {2: (0.333, 0.100, 0.029), 5: (0.111, 0.011, 0.001), 10: (0.053, 0.0025, 1.1e-4)}
    for m, row in expected.items():
        for q, value in zip((2, 3, 4), row, strict=True):
            assert miss_dropping(m, 1, q, 0) == pytest.approx(value, rel=0.07)
    assert miss_dropping(100, 1, 3, 0) == pytest.approx(2.2e-5, rel=0.03)
    assert miss_dropping(3, 3, 2, 1) == 0.0  # below the floor of n_r


def test_advice_says_what_the_published_check_never_sees() -> None:
    choices = advise(cells=128, samples=10_000, parties=5)
    published = [c for c in choices if c.protocol == "paper" and not c.hardened]
    assert all(c.whole_upload == 0.0 for c in published)
    assert all(c.detection == pytest.approx(1 - miss_dropping(c.n_r + 1, 1, c.q, c.n_r)) for c in published)
    assert all(a.detection < b.detection for a, b in pairwise(published) if a.q == b.q)
    hardened = next(c for c in choices if c.protocol == "paper" and c.hardened)
    assert (hardened.q, hardened.n_r, hardened.whole_upload) == (1, 0, 1.0)
    mirror = next(c for c in choices if c.protocol == "mirror")
    assert mirror.n_bytes == 16 * 10_000 * 6


def test_advice_agrees_with_the_estimate_of_a_real_run() -> None:
    """Equal ranges: the token count is q Σ_p n Π of the others' sizes."""
    world = World.drawn(1, n=50, sizes=(2, 2, 2), n_task=1)
    settings = world.settings("paper", q=3, n_r=5, harden=False)
    choice = next(c for c in advise(cells=16, samples=50, parties=3) if (c.q, c.n_r) == (3, 5))
    assert choice.n_bytes == 16 * estimate(settings).n_tokens


@pytest.mark.parametrize("wrong", [{"protocols": ("single",)}, {"trials": 0}, {"q": 0}, {"n_r": -1}])
def test_a_drill_that_cannot_be_is_refused(wrong: dict) -> None:
    with pytest.raises(InputError):
        list(run_drill(**wrong))


def test_advice_that_cannot_be_is_refused() -> None:
    with pytest.raises(InputError):
        advise(cells=1)


def test_row_knows_what_is_surprising() -> None:
    assert DrillRow("paper", False, "x", 100, 60, 0.85).surprising
    assert not DrillRow("paper", False, "x", 100, 82, 0.85).surprising
    assert DrillRow("mirror", True, "x", 100, 99, 1.0).surprising
    assert not DrillRow("mirror", True, "x", 100, 100, 1.0 - 2.0**-64).surprising
    assert not DrillRow("paper", False, "x", int(np.int64(10)), 0, 0.0).surprising


def with_switches(scenario: Scenario, n_r: int, *, h1: bool, h2: bool) -> str:
    """One run of a cheat against `paper` with H1 and H2 switched one by one."""
    trial = Trial(scenario, "paper", hardened=False, q=2, n_r=n_r)
    trial._terms = lambda: msgspec.structs.replace(Trial._terms(trial), h1=h1, h2=h2)  # type: ignore[method-assign]
    return trial.run(np.random.default_rng(0))


def scenario_of(behaviour: str, **changes: object) -> Scenario:
    return replace(next(s for s in SCENARIOS if s.behaviour == behaviour), **changes)


def test_marginals_alone_miss_a_forgery_that_keeps_them() -> None:
    """A7: invisible to H1, seen by H2."""
    forgery = scenario_of("marginal-preserving forgery")
    assert with_switches(forgery, 0, h1=False, h2=False) == ""
    assert with_switches(forgery, 0, h1=True, h2=False) == ""
    assert with_switches(forgery, 0, h1=False, h2=True) == "E_AUTH"


def test_authenticators_alone_miss_a_dropped_only_sample() -> None:
    """A2: nothing was added, so H2 has nothing to see; H1 does."""
    only = scenario_of("drop the only one")
    assert with_switches(only, 0, h1=False, h2=True) == ""
    assert with_switches(only, 0, h1=True, h2=False) == "E_MARGINAL"


def test_a_region_of_one_sample_is_added_unseen_without_authenticators() -> None:
    """A3: beside the cell of 4 there is one sample more when the last party is ignored."""
    region = scenario_of("ignore a party", cell=4)
    assert with_switches(region, 1, h1=False, h2=False) == ""
    assert with_switches(region, 1, h1=False, h2=True) == "E_AUTH"
    assert with_switches(region, 1, h1=True, h2=False) == "E_MARGINAL"


def test_zero_passes_where_there_are_no_adversarial_samples() -> None:
    """A4: caught by the floor if n_r is at least 1, by H1 in any case."""
    zero = scenario_of("zero", cell=7)
    assert with_switches(zero, 0, h1=False, h2=False) == ""
    assert with_switches(zero, 1, h1=False, h2=False) == "E_FLOOR"
    assert with_switches(zero, 0, h1=True, h2=False) == "E_MARGINAL"
