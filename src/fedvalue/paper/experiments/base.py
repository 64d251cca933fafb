"""What an experiment is: independent pieces of work, a summary, a verdict, a table and a drawing.

A `Unit` is the smallest piece whose result is kept: one repeat on one data set, one timing. Units of
different experiments with the same key are the same work (Fig. 2 and Fig. 3 read the same repeats).
Summary and verdict are pure functions of the units' results: a wrong number changes the verdict, and
nothing else does.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Numbers: TypeAlias = dict[str, Any]
"""JSON-ready numbers: of one unit, or of a whole experiment."""

VerdictWord: TypeAlias = Literal["reproduced", "partly", "not reproduced"]

PROFILES = ("quick", "paper")


@dataclass(frozen=True, slots=True)
class Unit:
    """One piece of work.

    Args:
        key: Its name, unique within an out folder; parts are joined with "/".
        call: A function at module level that takes the settings and returns JSON-ready numbers.
        settings: Its keyword arguments, JSON-ready.
        cost: Predicted seconds, for the estimate of the time left.
        alone: Nothing else may run beside it, because it measures time.
    """

    key: str
    call: Callable[..., Numbers]
    settings: Numbers = field(default_factory=dict)
    cost: float = 1.0
    alone: bool = False

    @property
    def data_set(self) -> str | None:
        """The data set it reads: its setting `name`."""
        return self.settings.get("name")


@dataclass(frozen=True, slots=True)
class Verdict:
    """How the numbers compare with the paper's claim, in one word and one sentence or two."""

    verdict: VerdictWord
    measured: str


@dataclass(frozen=True, slots=True)
class Table:
    """A table for people; cells are text already."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    caption: str = ""


@dataclass(frozen=True, slots=True)
class Experiment:
    """One table or figure of the paper.

    Args:
        name: On the command line.
        title: For people.
        claim: What the paper says.
        units: Profile and seed -> the work.
        summarise: Results by unit key -> the experiment's numbers.
        judge: The numbers -> verdict.
        tables: The numbers -> tables.
        draw: The numbers -> figure.
        notes: What differs from the paper's set-up, one sentence each.
        data: Data sets it reads.
        models: Whether it trains the reference models (extra `paper`).
    """

    name: str
    title: str
    claim: str
    units: Callable[[str, int], list[Unit]]
    summarise: Callable[[Mapping[str, Numbers]], Numbers]
    judge: Callable[[Numbers], Verdict]
    tables: Callable[[Numbers], list[Table]]
    draw: Callable[[Numbers], Figure]
    notes: Sequence[str] = ()
    data: tuple[str, ...] = ()
    models: bool = False


def unit_seed(seed: int, key: str) -> int:
    """A seed of its own for each unit, the same in every run and on every machine."""
    return zlib.crc32(f"{seed}/{key}".encode())
