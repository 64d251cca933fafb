"""Every way to cheat, with the table and parameters that show it, and what the formulas predict.

Tables are chosen so that a lie shows: every cell has another count, so that a wrong one cannot be
mistaken for a right one. The task party has the label alone; data parties have one binary code.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from fedvalue.protocol.computation_server import ComputationServer
from fedvalue.protocol.mirror.upload import MirrorWork
from fedvalue.protocol.party_roles import DataParty
from fedvalue.protocol.role import Role
from fedvalue.protocol.tokens.asking import TokenWork
from fedvalue.protocol.validation_server import ValidationServer
from fedvalue.simulation.drill import detection
from fedvalue.simulation.drill import mirror_cheats as mirror
from fedvalue.simulation.drill import party_cheats as parties
from fedvalue.simulation.drill import token_cheats as tokens
from fedvalue.simulation.drill.plot import Plot

Factory: TypeAlias = Callable[..., Role]


@dataclass(frozen=True, slots=True)
class DrillColumn:
    """Codes of one party."""

    name: str
    codes: np.ndarray[Any, np.dtype[np.int64]] = field(repr=False)
    n_codes: int


@dataclass(frozen=True, slots=True)
class DrillTable:
    """A small joint table: the label and binary data parties."""

    label: DrillColumn
    parties: tuple[DrillColumn, ...]

    @classmethod
    def of(cls, counts: Sequence[int], n_parties: int) -> DrillTable:
        """Cells in the order (y, a, b, …), the last one fastest, with these counts."""
        shape = (2,) * (n_parties + 1)
        codes = np.unravel_index(np.repeat(np.arange(2 ** (n_parties + 1)), counts), shape)
        names = ["label", *"abcdefgh"[:n_parties]]
        columns = [
            DrillColumn(name, code.astype(np.int64), 2) for name, code in zip(names, codes, strict=True)
        ]
        return cls(columns[0], tuple(columns[1:]))


DISTINCT = DrillTable.of([3, 5, 2, 7, 4, 1, 6, 8], 2)
"""Every cell another count: the size of an intersection names its cell."""

EXCLUSIVE = DrillTable.of([5, 0, 0, 5, 0, 5, 5, 0], 2)
"""The label is the exclusive or of both parties, whose codes are equally frequent."""

BALANCED = DrillTable.of([6, 4, 4, 6], 1)
"""Equal marginals: the table 10, 0, 0, 10 has the same ones."""


UNLIKE = DrillTable(
    DISTINCT.label,
    (DISTINCT.parties[0], DrillColumn("b", DISTINCT.parties[1].codes + DISTINCT.parties[0].codes, 3)),
)
"""Parties that differ in the number of their codes."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """One behaviour.

    Args:
        behaviour: Its name in the output.
        paper: Makes the cheating servers of the paper's protocol; None where it does not apply.
        mirror: Makes the cheating servers of `mirror`; None where it does not apply.
        table: The data.
        n_r: Adversarial samples per cell in `paper`; the drill's own when None.
        cell: Number of real samples in the cell that is falsified; 0 for any.
        dropped: How many samples are dropped.
        missed: Probability that the published check misses it, from (q, n_r).
        collusion: Both servers cheat together: no protocol here detects that.
    """

    behaviour: str
    paper: Callable[[Plot], Servers] | None
    mirror: Callable[[Plot], Servers] | None
    table: DrillTable = DISTINCT
    n_r: int | None = None
    cell: int = 0
    dropped: int = 1
    missed: Callable[[int, int], float] = lambda q, n_r: 0.0
    collusion: bool = False


@dataclass(frozen=True, slots=True)
class Servers:
    """How to make the two servers of a trial, and its data parties."""

    computation: Factory = ComputationServer
    validation: Factory = ValidationServer
    data_party: Callable[..., DataParty] = DataParty
    shared_lie: bool = False
    needs_earlier_run: bool = False


def _tokens(*, needs_earlier_run: bool = False, **cheat: Any) -> Callable[[Plot], Servers]:
    """A computation server that counts tokens falsely: with `trick`, or its own kind of `counting`."""
    return lambda plot: Servers(
        partial(tokens.CheatingComputationServer, plot=plot, **cheat), needs_earlier_run=needs_earlier_run
    )


def _mirror(fiddle: mirror.Fiddle, **when: Any) -> Callable[[Plot], Servers]:
    """A computation server under `mirror` that falsifies its counts."""
    return lambda plot: Servers(partial(mirror.FiddlingComputationServer, plot=plot, fiddle=fiddle, **when))


def _party(work: type[MirrorWork] | type[TokenWork]) -> Callable[[Plot], Servers]:
    """Honest servers, and a party `a` that cheats."""
    return lambda plot: Servers(data_party=parties.cheating_party("a", work, plot))


def _miscount(only: str | None) -> Callable[[Plot], Servers]:
    return lambda plot: Servers(partial(tokens.MiscountingComputationServer, plot=plot, only=only))


def _validation(kind: Factory, **cheat: Any) -> Callable[[Plot], Servers]:
    return lambda plot: Servers(validation=partial(kind, plot=plot, **cheat))


def _paper_collusion(plot: Plot) -> Servers:
    return Servers(
        computation=partial(tokens.CheatingComputationServer, plot=plot, counting=tokens.ForgingCounting),
        validation=partial(tokens.CheatingValidationServer, plot=plot, checking=tokens.AcceptingChecking),
    )


SCENARIOS: tuple[Scenario, ...] = (
    Scenario(
        "drop one", _tokens(trick=tokens.drop), _mirror(mirror.drop), cell=3,
        missed=lambda q, n_r: detection.miss_dropping(3 + n_r, 1, q, n_r),
    ),
    Scenario(
        "drop many", _tokens(trick=tokens.drop), _mirror(mirror.drop), cell=3, dropped=2,
        missed=lambda q, n_r: detection.miss_dropping(3 + n_r, 2, q, n_r),
    ),
    Scenario(
        "drop the only one", _tokens(trick=tokens.drop), _mirror(mirror.drop_only), cell=1, n_r=0,
        missed=lambda q, n_r: detection.miss_dropping(1, 1, q, 0),
    ),
    Scenario(
        "zero", _tokens(trick=tokens.zero), _mirror(mirror.zero), cell=7,
        missed=lambda q, n_r: detection.miss_dropping(7 + n_r, 7 + n_r, q, n_r),
    ),
    Scenario("wrong count", _miscount(None), _mirror(mirror.more)),
    Scenario(
        "inject random tokens", _tokens(trick=tokens.inject), _mirror(mirror.more), cell=5,
        missed=lambda q, n_r: detection.miss_injecting(q),
    ),
    Scenario("duplicate tokens", _tokens(trick=tokens.duplicate), _mirror(mirror.double), cell=5),
    Scenario("replay another query", _tokens(trick=tokens.replay_query), None),
    Scenario(
        "replay another run", _tokens(trick=tokens.replay_run, needs_earlier_run=True),
        lambda plot: Servers(partial(mirror.ReplayingComputationServer, plot=plot), needs_earlier_run=True),
        cell=5,
    ),
    Scenario(
        "return one party's upload", _tokens(trick=tokens.return_upload), _mirror(mirror.scatter), cell=5,
        missed=lambda q, n_r: 1.0,
    ),
    Scenario(
        "ignore a party", _tokens(trick=tokens.ignore_party), _mirror(mirror.scatter), cell=5,
        missed=lambda q, n_r: 1.0,
    ),
    Scenario("swap cells", _tokens(counting=tokens.SwappingCounting), _mirror(mirror.swap)),
    Scenario("merge cells", _tokens(trick=tokens.merge), _mirror(mirror.merge)),
    Scenario(
        "marginal-preserving forgery", _tokens(counting=tokens.ForgingCounting),
        _mirror(mirror.keep_marginals),
        table=BALANCED, n_r=0, cell=6, missed=lambda q, n_r: 1.0,
    ),
    Scenario(
        "different answers to different parties", _miscount("a"), _mirror(mirror.swap, late=True, only="a"),
    ),
    Scenario("change the result after both agreed", None, _mirror(mirror.swap, late=True)),
    Scenario(
        "validation server lies",
        _validation(tokens.CheatingValidationServer, checking=tokens.LyingChecking),
        _validation(mirror.FiddlingValidationServer, fiddle=mirror.swap),
    ),
    Scenario("a party sends the servers different columns", None, _party(parties.SplitWork)),
    Scenario("a party signs two roots", None, _party(parties.TwoRootsWork)),
    Scenario("a party changes another's column", None, _party(parties.ShiftingWork)),
    Scenario("a party declares other columns", None, _party(parties.TurnedWork), table=UNLIKE),
    Scenario(
        "a party's sets depend on the cell", _party(parties.CellWork), None, missed=lambda q, n_r: 1.0,
    ),
    Scenario(
        "a party takes another's value", _party(parties.CellWork), None, table=EXCLUSIVE, n_r=0,
        missed=lambda q, n_r: 1.0,
    ),
    Scenario(
        "both servers share one lie", _paper_collusion, lambda plot: Servers(shared_lie=True),
        table=BALANCED, n_r=0, cell=6, missed=lambda q, n_r: 1.0, collusion=True,
    ),
)  # fmt: skip
