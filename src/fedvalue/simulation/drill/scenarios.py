"""Every way to cheat, with the table and parameters that expose it, and the prediction of the formulas.

Tables are chosen so that a lie shows: no two cells have the same count, so that a wrong count cannot be
mistaken for a right one. The task party has the label alone; data parties have one binary code.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from fedvalue.federated.cast import CodedTables
from fedvalue.protocol.computation_server import ComputationServer
from fedvalue.protocol.mirror.upload import MirrorWork
from fedvalue.protocol.outcome import Valuer
from fedvalue.protocol.party_roles import DataParty
from fedvalue.protocol.samples import CodedColumn
from fedvalue.protocol.tokens.asking import TokenWork
from fedvalue.protocol.validation_server import ValidationServer
from fedvalue.simulation.drill import detection
from fedvalue.simulation.drill import mirror_cheats as mirror
from fedvalue.simulation.drill import party_cheats as parties
from fedvalue.simulation.drill import token_cheats as tokens
from fedvalue.simulation.drill.plot import Plot, cheating, following


def table_of(counts: Sequence[int], n_parties: int) -> CodedTables:
    """Binary columns whose cells, in the order (y, a, b, …) with the last one fastest, have these counts."""
    shape = (2,) * (n_parties + 1)
    codes = np.unravel_index(np.repeat(np.arange(2 ** (n_parties + 1)), counts), shape)
    label, *data = map(CodedColumn, ("label", *"abcdefgh"[:n_parties]), codes, (2,) * (n_parties + 1))
    return CodedTables(label, data)


DISTINCT = table_of([3, 5, 2, 7, 4, 1, 6, 8], 2)
"""No two cells have the same count: the size of an intersection names its cell."""

EXCLUSIVE = table_of([5, 0, 0, 5, 0, 5, 5, 0], 2)
"""The label is the exclusive or of both parties, whose codes are equally frequent."""

BALANCED = table_of([6, 4, 4, 6], 1)
"""Equal marginals: the table 10, 0, 0, 10 has the same ones."""

UNLIKE = CodedTables(
    DISTINCT.label,
    [DISTINCT.parties[0], CodedColumn("b", DISTINCT.parties[0].codes + DISTINCT.parties[1].codes, 3)],
)
"""Parties with different numbers of codes."""


@dataclass(frozen=True, slots=True)
class Cheats:
    """The roles of a trial, some of which cheat: makers for `make_cast`.

    Args:
        computation: Makes the computation server.
        validation: Makes the validation server.
        data_party: Makes a data party.
        valuer: Turns the honest valuer into the one that both servers use.
    """

    computation: Callable[..., ComputationServer] = ComputationServer
    validation: Callable[..., ValidationServer] = ValidationServer
    data_party: Callable[..., DataParty] = DataParty
    valuer: Callable[[Valuer], Valuer] = lambda honest: honest


Cheat: TypeAlias = Callable[[Plot], Cheats]


@dataclass(frozen=True, slots=True)
class Scenario:
    """One behaviour.

    Args:
        behaviour: Its name in the output.
        paper: The cheat in the paper's protocol; None where it does not apply.
        mirror: The cheat under `mirror`; None where it does not apply.
        tables: The data.
        n_r: Adversarial samples per cell in `paper`; the drill's number when None.
        cell: Number of real samples in the cell to falsify; 0 for any.
        dropped: Number of samples to drop.
        missed: Probability that the published check misses it, from (q, n_r).
        replays: The computation server needs the memory of an earlier run.
        collusion: Both servers cheat together, which no protocol here detects.
    """

    behaviour: str
    paper: Cheat | None
    mirror: Cheat | None
    tables: CodedTables = DISTINCT
    n_r: int | None = None
    cell: int = 0
    dropped: int = 1
    missed: Callable[[int, int], float] = lambda q, n_r: 0.0
    replays: bool = False
    collusion: bool = False


def _tokens(trick: tokens.Trick) -> Cheat:
    return _computation(tokens.TrickyCounting, trick=trick)


def _mirror(fiddle: mirror.Fiddle, **when: Any) -> Cheat:
    return _computation(mirror.FiddlingCounting, fiddle=fiddle, **when)


def _computation(part: type, **options: Any) -> Cheat:
    return lambda plot: Cheats(computation=cheating(ComputationServer, part, plot, **options))


def _validation(part: type, **options: Any) -> Cheat:
    return lambda plot: Cheats(validation=cheating(ValidationServer, part, plot, **options))


def _party(work: type[MirrorWork] | type[TokenWork]) -> Cheat:
    """Honest servers, and a party `a` that cheats."""
    return lambda plot: Cheats(data_party=parties.cheating_party("a", work, plot))


def _paper_collusion(plot: Plot) -> Cheats:
    return Cheats(
        computation=cheating(ComputationServer, tokens.ForgingCounting, plot),
        validation=cheating(ValidationServer, tokens.AcceptingChecking, plot),
    )


SCENARIOS: tuple[Scenario, ...] = (
    Scenario(
        "drop one", _tokens(tokens.drop), _mirror(mirror.drop), cell=3,
        missed=lambda q, n_r: detection.miss_dropping(3 + n_r, 1, q, n_r),
    ),
    Scenario(
        "drop many", _tokens(tokens.drop), _mirror(mirror.drop), cell=3, dropped=2,
        missed=lambda q, n_r: detection.miss_dropping(3 + n_r, 2, q, n_r),
    ),
    Scenario(
        "drop the only one", _tokens(tokens.drop), _mirror(mirror.drop_only), cell=1, n_r=0,
        missed=lambda q, n_r: detection.miss_dropping(1, 1, q, 0),
    ),
    Scenario(
        "zero", _tokens(tokens.zero), _mirror(mirror.zero), cell=7,
        missed=lambda q, n_r: detection.miss_dropping(7 + n_r, 7 + n_r, q, n_r),
    ),
    Scenario("wrong count", _computation(tokens.MiscountingCounting), _mirror(mirror.more)),
    Scenario(
        "inject random tokens", _tokens(tokens.inject), _mirror(mirror.more), cell=5,
        missed=lambda q, n_r: detection.miss_injecting(q),
    ),
    Scenario("duplicate tokens", _tokens(tokens.duplicate), _mirror(mirror.double), cell=5),
    Scenario("replay another query", _tokens(tokens.replay_query), None),
    Scenario(
        "replay another run", _tokens(tokens.replay_run),
        lambda plot: Cheats(following(plot, mirror.ReplayingServer)), cell=5, replays=True,
    ),
    Scenario(
        "return one party's upload", _tokens(tokens.return_upload), _mirror(mirror.scatter), cell=5,
        missed=lambda q, n_r: 1.0,
    ),
    Scenario(
        "ignore a party", _tokens(tokens.ignore_party), _mirror(mirror.scatter), cell=5,
        missed=lambda q, n_r: 1.0,
    ),
    Scenario("swap cells", _computation(tokens.SwappingCounting), _mirror(mirror.swap)),
    Scenario("merge cells", _tokens(tokens.merge), _mirror(mirror.merge)),
    Scenario(
        "marginal-preserving forgery", _computation(tokens.ForgingCounting),
        _mirror(mirror.keep_marginals),
        tables=BALANCED, n_r=0, cell=6, missed=lambda q, n_r: 1.0,
    ),
    Scenario(
        "different answers to different parties", _computation(tokens.MiscountingCounting, only="a"),
        _mirror(mirror.swap, after_agreement=True, only="a"),
    ),
    Scenario("change the result after both agreed", None, _mirror(mirror.swap, after_agreement=True)),
    Scenario(
        "validation server lies",
        _validation(tokens.LyingChecking), _validation(mirror.FiddlingCounting, fiddle=mirror.swap),
    ),
    Scenario("a party sends the servers different columns", None, _party(parties.SplitWork)),
    Scenario("a party signs two roots", None, _party(parties.TwoRootsWork)),
    Scenario("a party changes another's column", None, _party(parties.ShiftingWork)),
    Scenario("a party declares other columns", None, _party(parties.TurnedWork), tables=UNLIKE),
    Scenario(
        "a party's sets depend on the cell", _party(parties.CellWork), None, missed=lambda q, n_r: 1.0,
    ),
    Scenario(
        "a party takes another's value", _party(parties.CellWork), None, tables=EXCLUSIVE, n_r=0,
        missed=lambda q, n_r: 1.0,
    ),
    Scenario(
        "both servers share one lie", _paper_collusion,
        lambda plot: Cheats(valuer=partial(mirror.agreed_lie, plot)),
        tables=BALANCED, n_r=0, cell=6, missed=lambda q, n_r: 1.0, collusion=True,
    ),
)  # fmt: skip
