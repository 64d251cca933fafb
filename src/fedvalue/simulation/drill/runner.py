"""Runs every scenario against every protocol, and counts what was detected."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from fedvalue.crypto.ids import PackedIds
from fedvalue.errors import InputError, RemoteProtocolError, VerificationError
from fedvalue.federated.cast import Cast, CodedTables, make_cast, make_terms
from fedvalue.federated.in_process import InProcessTransport
from fedvalue.federated.options import Mirror, Paper
from fedvalue.federated.valuers import make_valuer
from fedvalue.protocol import messages as m
from fedvalue.protocol.computation_server import ComputationServer
from fedvalue.protocol.outcome import Outcome, Valuer, same_outcome
from fedvalue.protocol.settings import RunTerms
from fedvalue.simulation.drill import detection, mirror_cheats
from fedvalue.simulation.drill import token_cheats as tokens
from fedvalue.simulation.drill.plot import Intersection, Plot
from fedvalue.simulation.drill.scenarios import SCENARIOS, Scenario, Servers
from fedvalue.valuation.settings import ValuationSettings

PROTOCOLS = ("paper", "mirror")


@dataclass(frozen=True, slots=True)
class DrillRow:
    """How one behaviour fared against one protocol.

    Args:
        protocol: "paper" or "mirror".
        hardened: Whether H1 to H3 were on; `mirror` has no weaker form.
        behaviour: The way to cheat.
        trials: Number of runs.
        detected: In how many trials the run ended without a result.
        predicted: Probability of detection by the formulas.
        codes: The error codes of the detections, and how often.
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
        found = {code: n for code, n in sorted(codes.items()) if code}
        return cls(
            protocol=protocol,
            behaviour=behaviour,
            trials=codes.total(),
            detected=sum(found.values()),
            codes=found,
            **named,
        )

    @property
    def surprising(self) -> bool:
        """Whether the number of detections is more than 4 standard deviations from the prediction."""
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
        self._tables = CodedTables(scenario.table.label, scenario.table.parties)
        self._options = Mirror() if protocol == "mirror" else Paper(harden=hardened, q=q, n_r=n_r)
        self._q = q
        self._n_r = n_r
        self._valuer = make_valuer(ValuationSettings(method="exact", statistics=False))
        self._truth = self._honest_outcome()
        self._stolen: list[Intersection] = []
        self._stolen_result: list[m.AnyMessage] = []

    def run(self, rng: np.random.Generator) -> str:
        """One run with a cheat: the code of the error that it ends with, or "".

        Raises:
            AssertionError: No role cheated, or the lie made no difference: such a trial proves nothing.
        """
        scenario = self._scenario
        plot = Plot(
            rng,
            q=self._q,
            target=scenario.cell + self._n_r if scenario.cell else 0,
            n_samples=scenario.dropped,
            stolen=self._stolen,
        )
        make = scenario.paper if self._protocol == "paper" else scenario.mirror
        assert make is not None
        servers = make(plot)
        if servers.needs_earlier_run:
            servers = self._after_earlier_run(plot, servers)
        valuer = mirror_cheats.agreed_lie(self._valuer, plot) if servers.shared_lie else self._valuer
        cast = self._cast(servers, valuer)
        try:
            InProcessTransport().run(cast.everyone())
        except (VerificationError, RemoteProtocolError) as error:
            assert plot.fired, "the run failed before anybody cheated"
            return error.code
        assert plot.fired, "the cheat had no occasion"
        assert not same_outcome(self._truth, _outcome(cast)), "the lie made no difference"
        return ""

    def _cast(self, servers: Servers, valuer: Valuer) -> Cast:
        return make_cast(
            self._terms(),
            self._tables,
            ids=PackedIds.of_rows(len(self._scenario.table.label.codes)),
            valuer=valuer,
            computation=servers.computation,
            validation=servers.validation,
            data_party=servers.data_party,
        )

    def _terms(self) -> RunTerms:
        return make_terms(self._tables, self._options)

    def _honest_outcome(self) -> Outcome:
        cast = self._cast(Servers(), self._valuer)
        InProcessTransport().run(cast.everyone())
        return _outcome(cast)

    def _after_earlier_run(self, plot: Plot, servers: Servers) -> Servers:
        """Let the server watch one honest run first, to have something to replay."""
        if self._protocol == "paper" and not self._stolen:
            spy = Plot(plot.rng, q=self._q, fired=True)
            watcher = partial(tokens.CheatingComputationServer, plot=spy)
            InProcessTransport().run(self._cast(Servers(watcher), self._valuer).everyone())
            self._stolen += spy.memory
        if self._protocol == "mirror":
            if not self._stolen_result:
                recording = Servers(partial(_Recording, seen=self._stolen_result))
                cast = self._cast(recording, self._valuer)
                InProcessTransport().run(cast.everyone())
            return Servers(partial(servers.computation, stolen=self._stolen_result))
        return servers


class _Recording(ComputationServer):
    """An honest server that remembers its result."""

    def __init__(self, *args: Any, seen: list[m.AnyMessage], **named: Any) -> None:
        super().__init__(*args, **named)
        self._seen_results = seen

    def receive(self, envelope: m.Envelope, *, checked: bool = False) -> list[m.Envelope]:
        """Remember what the task party is sent."""
        sent = super().receive(envelope, checked=checked)
        self._seen_results += [
            item.message
            for item in sent
            if item.recipient == self.terms.task and isinstance(item.message, m.ResultChunk | m.ResultSeal)
        ]
        return sent


def _outcome(cast: Cast) -> Outcome:
    outcome = cast.task.outcome
    assert outcome is not None
    return outcome
