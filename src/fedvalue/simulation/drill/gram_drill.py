"""`gram` under the drill: one cheating server, one cheating party, and both together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedvalue.crypto.ids import PackedIds
from fedvalue.errors import RemoteProtocolError, VerificationError
from fedvalue.federated.cast import Cast, CodedTables, make_cast, make_terms
from fedvalue.federated.in_process import InProcessTransport
from fedvalue.federated.options import Gram
from fedvalue.protocol.outcome import Answer
from fedvalue.simulation.drill import gram_cheats as cheats
from fedvalue.simulation.drill.runner import DrillRow
from fedvalue.simulation.drill.vpsic_drill import uniform_tables

N_SAMPLES, N_PARTIES, N_CODES = 60, 3, 4


@dataclass(frozen=True, slots=True)
class GramScenario:
    """One way to cheat.

    Args:
        behaviour: Its name in the output.
        server: What one server does.
        party: What one data party does.
        predicted: Probability that it is detected.
    """

    behaviour: str
    server: cheats.ServerCheat | None = None
    party: cheats.PartyCheat | None = None
    predicted: float = 1.0


SCENARIOS = (
    GramScenario("shift a sum", cheats.shift_a_sum),
    GramScenario("shift a sum and its check", cheats.shift_a_sum_and_its_check),
    GramScenario("add noise of its own choice", cheats.add_other_noise),
    GramScenario("open other sums than committed to", cheats.open_other_sums),
    GramScenario("misreport the check of rows", cheats.misreport_rows),
    GramScenario("misreport the check of entries", cheats.misreport_entries),
    GramScenario("open another coin than committed to", cheats.open_another_coin),
    GramScenario("show the two others different coins", cheats.show_different_coins),
    GramScenario("party: count a person 20 times", None, cheats.count_a_person_twenty_times),
    GramScenario("party: give two codes at once", None, cheats.give_two_codes_at_once),
    GramScenario("party: give no code", None, cheats.give_no_code),
    GramScenario("party: entries 2 and -1", None, cheats.balance_a_row),
    GramScenario("party: check column that points at a person", None, cheats.point_at_a_person),
    GramScenario("party: reveal other weights", None, cheats.reveal_other_weights),
    GramScenario("party: split the upload", None, cheats.split_the_upload),
    GramScenario("party with a server: entries 2 and -1", cheats.forge_entries, cheats.balance_a_row, 0.0),
)
"""The last one is documented as not detected (decision 0321)."""


def gram_rows(*, trials: int, seed: int = 0) -> Iterator[DrillRow]:
    """Each way to cheat, by another server in every trial.

    Args:
        trials: Runs per row, each with its own table and secrets.
        seed: Of the tables.
    """
    for scenario in SCENARIOS:
        rng = np.random.default_rng([seed, trials])
        codes: Counter[str] = Counter()
        for trial in range(trials):
            tables = uniform_tables(N_SAMPLES, N_PARTIES, N_CODES, rng)
            codes[_trial(scenario, tables, trial)] += 1
        missed = codes.pop("", 0)
        yield DrillRow(
            protocol="gram",
            hardened=True,
            behaviour=scenario.behaviour,
            trials=trials,
            detected=trials - missed,
            predicted=scenario.predicted,
            codes=dict(sorted(codes.items())),
        )


def spoilt(cast: Cast, scenario: GramScenario, number: int) -> None:
    """Let server `number` and the first data party cheat."""
    server: Any = cast.servers[number % len(cast.servers)]
    party: Any = cast.parties[0]
    if scenario.server is not None:
        _after(server, "_make_gram", scenario.server)
    if scenario.party is not None:
        _after(party, "_make_work", scenario.party)


def _after(role: Any, method: str, cheat: Any) -> None:
    honest = getattr(role, method)

    def made(*args: Any) -> Any:
        found = honest(*args)
        cheat(found)
        return found

    setattr(role, method, made)


def _trial(scenario: GramScenario, tables: CodedTables, number: int) -> str:
    """The code of the error that the run ends with, or "" where parties accepted the sums."""
    terms = make_terms(tables, Gram(epsilon="1"))
    cast = make_cast(terms, tables, ids=PackedIds.of_rows(N_SAMPLES), valuer=lambda *_: Answer({}, {}, ()))
    spoilt(cast, scenario, number)
    try:
        InProcessTransport(threads=1).run(cast.everyone())
    except (VerificationError, RemoteProtocolError) as error:
        return error.code or "E_PROTOCOL"
    return ""
