"""Runs every scenario against every protocol, and counts detections."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fedvalue.crypto.ids import PackedIds
from fedvalue.errors import InputError, RemoteProtocolError, VerificationError
from fedvalue.federated.cast import make_cast, make_terms
from fedvalue.federated.in_process import InProcessTransport
from fedvalue.federated.options import Mirror, Paper
from fedvalue.federated.valuers import make_valuer
from fedvalue.protocol.computation_server import ComputationServer
from fedvalue.protocol.outcome import Outcome, same_outcome
from fedvalue.protocol.settings import RunTerms
from fedvalue.simulation.drill import detection
from fedvalue.simulation.drill.mirror_cheats import RecordingServer
from fedvalue.simulation.drill.plot import Plot, cheating, following
from fedvalue.simulation.drill.scenarios import SCENARIOS, Cheats, Scenario
from fedvalue.simulation.drill.token_cheats import TrickyCounting
from fedvalue.valuation.settings import ValuationSettings

PROTOCOLS = ("paper", "mirror")
_VALUER = make_valuer(ValuationSettings(method="exact", statistics=False))


@dataclass(frozen=True, slots=True)
class DrillRow:
    """How one behaviour fared against one protocol.

    Args:
        protocol: "paper" or "mirror".
        hardened: H1 to H3 were on; `mirror` has no weaker form.
        behaviour: The way to cheat.
        trials: Number of runs.
        detected: Trials that ended without a result.
        predicted: Probability of detection by the formulas.
        codes: Detections by error code.
        q: Encryption ids per sample (`paper`).
        n_r: Adversarial samples per cell (`paper`).
    """

    protocol: str
    hardened: bool
    behaviour: str
    trials: int
    detected: int
    predicted: float
    codes: dict[str, int] = field(default_factory=dict)
    q: int | None = None
    n_r: int | None = None

    @classmethod
    def of(cls, protocol: str, behaviour: str, codes: Counter[str], **named: Any) -> DrillRow:
        """The row of trials that ended with these error codes, "" where nothing was detected."""
        detections = {code: n for code, n in sorted(codes.items()) if code}
        return cls(
            protocol=protocol,
            behaviour=behaviour,
            trials=codes.total(),
            detected=sum(detections.values()),
            codes=detections,
            **named,
        )

    @property
    def surprising(self) -> bool:
        """The detections are more than 4 standard deviations from the prediction."""
        p = self.predicted
        deviation = (self.trials * p * (1 - p)) ** 0.5
        # A probability within 2^-32 of 0 or 1 admits no exception at any number of trials here.
        return bool(abs(self.detected - self.trials * p) > max(4 * deviation, 1e-6))


def run_drill(
    *,
    protocols: tuple[str, ...] = PROTOCOLS,
    trials: int = 100,
    q: int = 2,
    n_r: int = 1,
    seed: int = 0,
    behaviours: tuple[str, ...] | None = None,
) -> Iterator[DrillRow]:
    """Every behaviour against every protocol, row by row.

    Args:
        protocols: Which of "paper" (as published, and hardened) and "mirror".
        trials: Runs per row.
        q: Encryption ids per sample.
        n_r: Adversarial samples per cell, where the scenario does not need another number.
        seed: Seeds the cheats; keys are drawn from the system.
        behaviours: Names of scenarios; all when None.

    Raises:
        InputError: An unknown protocol, or a number out of range.
    """
    if unknown := set(protocols) - set(PROTOCOLS):
        raise InputError(f"protocol must be paper or mirror, got {', '.join(sorted(unknown))}")
    if trials < 1 or q < 1 or n_r < 0:
        raise InputError(f"expected trials >= 1, q >= 1, n_r >= 0, got {trials}, {q}, {n_r}")
    for scenario in SCENARIOS:
        if behaviours is not None and scenario.behaviour not in behaviours:
            continue
        for protocol in protocols:
            for hardened in (False, True) if protocol == "paper" else (True,):
                if (scenario.paper if protocol == "paper" else scenario.mirror) is not None:
                    yield _row(scenario, protocol, hardened, trials, q, n_r, seed)


def _row(
    scenario: Scenario, protocol: str, hardened: bool, trials: int, q: int, n_r: int, seed: int
) -> DrillRow:
    n_r = n_r if scenario.n_r is None else scenario.n_r
    rng = np.random.default_rng([seed, trials])
    trial = Trial(scenario, protocol, hardened=hardened, q=q, n_r=n_r)
    codes = Counter(trial.run(rng) for _ in range(trials))
    predicted = _predicted(scenario, protocol, hardened, q, n_r)
    sizes = {"q": q, "n_r": n_r} if protocol == "paper" else {}
    return DrillRow.of(protocol, scenario.behaviour, codes, hardened=hardened, predicted=predicted, **sizes)


def _predicted(scenario: Scenario, protocol: str, hardened: bool, q: int, n_r: int) -> float:
    if scenario.collusion:
        return 0.0
    if protocol == "mirror":
        return 1.0
    return 1.0 - (detection.HARDENED_MISS if hardened else scenario.missed(q, n_r))


class Trial:
    """One scenario against one protocol, to be run many times with fresh keys."""

    def __init__(self, scenario: Scenario, protocol: str, *, hardened: bool, q: int, n_r: int) -> None:
        self._scenario = scenario
        self._protocol = protocol
        self._options = Mirror() if protocol == "mirror" else Paper(harden=hardened, q=q, n_r=n_r)
        self._q = q
        self._n_r = n_r
        self._truth = self._run(Cheats())
        self._stolen: list[Any] = []

    def run(self, rng: np.random.Generator) -> str:
        """One run with a cheat: the code of the error that it ends with, or "".

        Raises:
            AssertionError: No role cheated, or the lie made no difference: such a trial proves nothing.
        """
        scenario = self._scenario
        if scenario.replays and not self._stolen:
            self._stolen = self._memory_of_a_run(rng)
        plot = Plot(
            rng,
            q=self._q,
            target=scenario.cell + self._n_r if scenario.cell else 0,
            n_samples=scenario.dropped,
            stolen=self._stolen,
        )
        cheat = scenario.paper if self._protocol == "paper" else scenario.mirror
        assert cheat is not None
        try:
            outcome = self._run(cheat(plot))
        except (VerificationError, RemoteProtocolError) as error:
            assert plot.fired, "the run failed before anybody cheated"
            return error.code
        assert plot.fired, "no role had an opportunity to cheat"
        assert not same_outcome(self._truth, outcome), "the lie made no difference"
        return ""

    def _run(self, cheats: Cheats) -> Outcome:
        tables = self._scenario.tables
        cast = make_cast(
            self._terms(),
            tables,
            ids=PackedIds.of_rows(len(tables.label.codes)),
            valuer=cheats.valuer(_VALUER),
            computation=cheats.computation,
            validation=cheats.validation,
            data_party=cheats.data_party,
        )
        InProcessTransport().run(cast.everyone())
        assert cast.task.outcome is not None
        return cast.task.outcome

    def _terms(self) -> RunTerms:
        return make_terms(self._scenario.tables, self._options)

    def _memory_of_a_run(self, rng: np.random.Generator) -> list[Any]:
        """The messages that a computation server could replay: intersections, or its result."""
        spy = Plot(rng, q=self._q, fired=True)
        if self._protocol == "paper":
            self._run(Cheats(cheating(ComputationServer, TrickyCounting, spy)))
        else:
            self._run(Cheats(following(spy, RecordingServer)))
        return spy.memory
