"""The interface of an experiment: independent pieces of work, a summary, a verdict, tables and a drawing.

A `Unit` is the smallest piece whose result is kept: one repeat on one data set, one timing. Units of
different experiments with the same key are shared (Fig. 2 and Fig. 3 read the same repeats).
Summary and verdict are pure functions of the units' results: a wrong number changes the verdict, and
nothing else does.
"""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

from fedvalue.errors import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Numbers: TypeAlias = dict[str, Any]
"""JSON-ready numbers: of one unit, or of a whole experiment."""

PROFILES = ("quick", "paper")

_CLASSES = {
    "table1": "paper_tables:Table1",
    "table2": "paper_tables:Table2",
    "fig2": "correlation_figures:Fig2",
    "fig3": "correlation_figures:Fig3",
    "fig4": "fig4:Fig4",
    "fig5": "timing_figures:Fig5",
    "fig6": "timing_figures:Fig6",
    "fig7": "error_figures:Fig7",
    "fig8": "error_figures:Fig8",
}
NAMES = tuple(_CLASSES)
"""The experiments in the paper's order."""


@dataclass(frozen=True, slots=True)
class Unit:
    """One piece of work.

    Args:
        key: Its name, unique within an out folder; parts are joined with "/".
        call: A function at module level that takes the settings and returns JSON-ready numbers.
        settings: Its keyword arguments, JSON-ready.
        cost: Predicted seconds, for the estimate of the time left.
        alone: It measures time, so nothing else may run beside it.
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
    """How the numbers compare with the paper's claim: one word, and a sentence or two."""

    verdict: Literal["reproduced", "partly", "not reproduced"]
    measured: str

    @classmethod
    def of(cls, claims: Iterable[bool], measured: str) -> Verdict:
        """Reproduced when all claims hold, partly when some do."""
        held = list(claims)
        return cls("reproduced" if all(held) else "partly" if any(held) else "not reproduced", measured)


@dataclass(frozen=True, slots=True)
class Table:
    """A table whose cells are formatted text."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    caption: str = ""


class Experiment(ABC):
    """One table or figure of the paper.

    Attributes:
        name: On the command line.
        title: For people.
        claim: The paper's claim.
        notes: Differences from the paper's set-up, one sentence each.
        data: Data sets it reads.
        models: It trains the reference models (extra `paper`).
    """

    name: ClassVar[str]
    title: ClassVar[str]
    claim: ClassVar[str]
    notes: ClassVar[Sequence[str]] = ()
    data: ClassVar[tuple[str, ...]] = ()
    models: ClassVar[bool] = False

    @abstractmethod
    def units(self, profile: str, seed: int) -> list[Unit]:
        """The work."""

    @abstractmethod
    def summarise(self, results: Mapping[str, Numbers]) -> Numbers:
        """Results by unit key -> the experiment's numbers."""

    @abstractmethod
    def judge(self, numbers: Numbers) -> Verdict:
        """The numbers -> verdict."""

    @abstractmethod
    def tables(self, numbers: Numbers) -> list[Table]:
        """The numbers -> tables."""

    @abstractmethod
    def draw(self, numbers: Numbers) -> Figure:
        """The numbers -> figure."""


def experiment(name: str) -> Experiment:
    """The experiment of that name; its module is loaded only now.

    Raises:
        InputError: There is no such experiment.
    """
    if name not in _CLASSES:
        raise InputError(f"unknown experiment {name!r}; choose from {', '.join(NAMES)} and all")
    module, _, kind = _CLASSES[name].partition(":")
    instance: Experiment = getattr(import_module(f"fedvalue.paper.experiments.{module}"), kind)()
    return instance


def chosen(names: Sequence[str]) -> list[Experiment]:
    """The named experiments in the paper's order; `all` selects every experiment."""
    wanted = {experiment(name).name for name in names if name != "all"}
    return [experiment(name) for name in NAMES if name in wanted or "all" in names]


def unit_seed(seed: int, key: str) -> int:
    """The seed of a unit, the same in every run and on every machine."""
    return zlib.crc32(f"{seed}/{key}".encode())


def data_sets_of(results: Mapping[str, Numbers]) -> list[str]:
    """The data sets of results, from the second part of their keys, in order."""
    return list(dict.fromkeys(key.split("/")[1] for key in results))
