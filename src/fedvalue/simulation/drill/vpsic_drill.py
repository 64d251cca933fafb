"""`vpsic` under the drill: servers that move rows between cells, with and without knowing q."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from fedvalue.crypto.ids import PackedIds
from fedvalue.errors import RemoteProtocolError, VerificationError
from fedvalue.federated.cast import CodedTables
from fedvalue.federated.vpsic_run import vpsic_counts
from fedvalue.information.contingency import JointCounts
from fedvalue.protocol.vpsic import VpsicSettings
from fedvalue.simulation.drill import vpsic_cheats as cheats
from fedvalue.simulation.drill.plot import Plot
from fedvalue.simulation.drill.runner import DrillRow
from fedvalue.simulation.drill.scenarios import DrillColumn


@dataclass(frozen=True, slots=True)
class VpsicScenario:
    """One way to cheat.

    Args:
        behaviour: Its name in the output.
        server: Makes the server.
        published: Probability that the published checks detect it.
        hardened: The same with marginals.
    """

    behaviour: str
    server: Callable[[Plot], cheats.MovingServer]
    published: float
    hardened: float


def blind_detection(settings: VpsicSettings) -> float:
    """Probability that a guessed q, drawn once from 2 to 8, is found out.

    It passes where in every round q divides it and the quotient is the same, so where all q are equal.
    """
    drawn = range(settings.least_q, settings.most_q + 1)
    dividing = sum(guess % q == 0 for guess in range(2, 9) for q in drawn)
    return float(1.0 - dividing / 7 / len(drawn) ** settings.rounds)


def scenarios(settings: VpsicSettings, n_samples: int) -> tuple[VpsicScenario, ...]:
    """Every way to cheat, with its prediction: that q is read rightly."""
    two, rectangle = cheats.between_two_cells, cheats.round_a_rectangle
    total = cheats.QOfTotal(n_samples)
    return (
        VpsicScenario(
            "move rows between two cells, guessing q",
            lambda plot: cheats.MovingServer(plot, two, read=None), blind_detection(settings), 1.0,
        ),
        VpsicScenario(
            "move a row between two cells, reading q", lambda plot: cheats.MovingServer(plot, two), 0.0, 1.0
        ),
        VpsicScenario(
            "move rows round a rectangle, reading q",
            lambda plot: cheats.MovingServer(plot, rectangle), 0.0, 0.0,
        ),
        VpsicScenario(
            "move a row between two cells, knowing n",
            lambda plot: cheats.MovingServer(plot, two, read=total), 0.0, 1.0,
        ),
        VpsicScenario(
            "move rows round a rectangle, knowing n",
            lambda plot: cheats.MovingServer(plot, rectangle, read=total), 0.0, 0.0,
        ),
    )  # fmt: skip


def uniform_tables(n_samples: int, n_parties: int, n_codes: int, rng: np.random.Generator) -> CodedTables:
    """Independent uniform codes and a binary label."""
    columns = [
        DrillColumn(f"party-{k + 1}", rng.integers(0, n_codes, n_samples), n_codes) for k in range(n_parties)
    ]
    return CodedTables(DrillColumn("label", rng.integers(0, 2, n_samples), 2), columns)


def vpsic_rows(
    *,
    trials: int,
    seed: int = 0,
    settings: VpsicSettings | None = None,
    n_samples: int = 400,
    n_parties: int = 3,
    n_codes: int = 8,
) -> Iterator[DrillRow]:
    """Each way to cheat against the published and the hardened checks.

    Args:
        trials: Runs per row, each with its own table and secrets.
        seed: Of tables and dice.
        settings: Of the protocol; `harden` is varied.
        n_samples: Rows of a table.
        n_parties: Data parties.
        n_codes: Codes of each.
    """
    settings = settings or VpsicSettings()
    for scenario in scenarios(settings, n_samples):
        for hardened in (False, True):
            rng = np.random.default_rng([seed, trials])
            codes: Counter[str] = Counter()
            for _ in range(trials):
                tables = uniform_tables(n_samples, n_parties, n_codes, rng)
                codes[_trial(scenario, tables, replace(settings, harden=hardened), rng)] += 1
            missed = codes.pop("", 0)
            yield DrillRow(
                protocol="vpsic",
                hardened=hardened,
                behaviour=scenario.behaviour,
                trials=trials,
                detected=trials - missed,
                predicted=scenario.hardened if hardened else scenario.published,
                codes=dict(sorted(codes.items())),
            )


def _trial(
    scenario: VpsicScenario, tables: CodedTables, settings: VpsicSettings, rng: np.random.Generator
) -> str:
    """The code of the error that the run ends with, or "" where a false table was accepted."""
    plot = Plot(rng)
    ids = PackedIds.of_rows(len(tables.label.codes))
    secret = secrets.token_bytes(32)
    try:
        found = vpsic_counts(tables, settings, ids=ids, server=scenario.server(plot), secret=secret)
    except (VerificationError, RemoteProtocolError) as error:
        assert plot.fired, "the run failed before the server cheated"
        return error.code
    assert plot.fired, "the server had no occasion to cheat"
    truth = vpsic_counts(tables, settings, ids=ids, secret=secret)
    assert _rows(found) != _rows(truth), "the lie made no difference"
    return ""


def _rows(counts: JointCounts) -> list[tuple[int, ...]]:
    columns = np.column_stack([counts.label, counts.task, counts.parties, counts.count])
    return sorted(map(tuple, columns.tolist()))
