"""Sensitivity of the advice to how numbers are cut into bins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from fedvalue.decisions.selection import select
from fedvalue.tables.coding_settings import CodingSettings

if TYPE_CHECKING:
    from fedvalue.typing import Progress
    from fedvalue.valuation.result import Valuation

BINS = (3, 5, 8)
BINNINGS = ("quantile", "width")


@dataclass(frozen=True, slots=True)
class CodingRun:
    """The advice under one coding.

    Args:
        coding: As in "5 bins, about equally filled".
        bins: Of a numeric column.
        binning: "quantile" or "width".
        invite: Parties to invite.
        undecided: Parties for which the rows do not show whether they add anything.
        learnable: Learnable value of each party.
    """

    coding: str
    bins: int
    binning: str
    invite: tuple[str, ...]
    undecided: tuple[str, ...]
    learnable: dict[str, float | None]


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """The advice under several codings, and whether all of them invite the same parties."""

    same_advice: bool
    sentence: str
    runs: tuple[CodingRun, ...]


def other_codings(coding: CodingSettings) -> tuple[CodingSettings, ...]:
    """Alternative codings: 3, 5 and 8 bins, about equally filled and of equal width."""
    every = [replace(coding, bins=bins, binning=binning) for binning in BINNINGS for bins in BINS]
    return tuple(other for other in every if other != coding)


def with_sensitivity(
    valuation: Valuation, again: Callable[[CodingSettings], Valuation], progress: Progress | None = None
) -> Valuation:
    """The result with the advice under other codings in `details`; `again` values the table with one."""
    assert valuation.settings is not None, "a valuation made here knows its settings"
    every = [valuation]
    others = other_codings(valuation.settings.coding)
    for k, coding in enumerate(others):
        if progress is not None:
            progress(k, len(others), f"{coding.bins} bins, {coding.binning}")
        every.append(again(coding))
    return replace(
        valuation, details={**valuation.details, "sensitivity": msgspec.to_builtins(sensitivity(every))}
    )


def sensitivity(valuations: Sequence[Valuation]) -> Sensitivity:
    """Compare the advice of valuations that differ in their coding only."""
    runs = tuple(_run(valuation) for valuation in valuations)
    names = [party.name for party in valuations[0].parties]
    n = len(runs)
    changing: list[str] = []
    for name in names:
        invited = sum(name in run.invite for run in runs)
        if 0 < invited < n:
            unsure = sum(name in run.undecided for run in runs)
            changing.append(
                f"{name} is invited in {invited} of {n} codings"
                + (f" and undecided in {unsure}" if unsure else "")
            )
    if changing:
        sentence = f"The advice depends on how numbers are cut into bins: {'; '.join(changing)}."
    else:
        sentence = (
            f"The advice does not depend on how numbers are cut into bins: "
            f"the same parties are invited in all {n} codings tried."
        )
    return Sensitivity(not changing, sentence, runs)


def _run(valuation: Valuation) -> CodingRun:
    selection = select(valuation)
    assert valuation.settings is not None, "a valuation made here knows its settings"
    coding = valuation.settings.coding
    return CodingRun(
        coding=coding.description,
        bins=coding.bins,
        binning=coding.binning,
        invite=selection.parties,
        undecided=tuple(step.party for step in selection.undecided),
        learnable=valuation.learnable,
    )
