"""What a report shows, as plain data: a pure function of the result.

The template only lays these out. Lengths are percentages of the chart's width, so that the page scales
with the reader's screen; coordinates of the curve are in the units of its own drawing (`curve`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fedvalue.decisions.redundancy import INTERACTIONS, redundancy
from fedvalue.reports import curve, wording
from fedvalue.valuation.statistics import guard

if TYPE_CHECKING:
    from fedvalue.valuation.result import PartyValue, Valuation


@dataclass(frozen=True, slots=True)
class Bar:
    """One party in the chart; lengths in percent of the chart's width."""

    name: str
    value: float
    learnable: float | None
    low: float | None
    high: float | None
    value_text: str
    learnable_text: str
    text: str


@dataclass(frozen=True, slots=True)
class Row:
    """One party in the table of numbers, as text."""

    name: str
    value: str
    interval: str
    learnable: str
    share: str
    alone: str
    last: str
    codes: str


@dataclass(frozen=True, slots=True)
class Flag:
    """A warning about a party."""

    party: str
    name: str
    sentence: str


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of the redundancy map: text, and how strong its colour is (0 to 1)."""

    text: str
    strength: float
    kind: str


@dataclass(frozen=True, slots=True)
class Map:
    """The redundancy map: a row for who is replaced, a column for who replaces."""

    names: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Cell, ...]], ...]
    sentences: tuple[str, ...]
    basis: str


@dataclass(frozen=True, slots=True)
class ReportView:
    """Everything that the report shows."""

    title: str
    answer: str
    facts: tuple[tuple[str, str, str], ...]
    bars: tuple[Bar, ...]
    axis: tuple[tuple[float, str], ...]
    chart_text: str
    rows: tuple[Row, ...]
    flags: tuple[Flag, ...]
    map: Map | None
    curve: curve.Curve | None
    how: tuple[tuple[str, str], ...]
    protection: str
    notes: tuple[str, ...]
    glossary: tuple[tuple[str, str], ...]
    noise: str


def view(
    result: Valuation,
    *,
    prices: Mapping[str, object] | None = None,
    budget: object | None = None,
) -> ReportView:
    """The report of a result.

    Args:
        result: The valuation.
        prices: Price of each party for the selection curve; every party counts 1 when None.
        budget: What may be spent; only with prices.

    Raises:
        InputError: A price is missing or wrong.
    """
    parties = sorted(result.parties, key=lambda party: -_rank(party))
    scale = _scale(result)
    return ReportView(
        title="What each party’s data is worth",
        answer=wording.answer(result),
        facts=_facts(result),
        bars=tuple(_bar(party, scale) for party in parties),
        axis=tuple((100 * tick / scale, f"{tick:g}") for tick in curve.ticks(scale)),
        chart_text=_chart_text(parties),
        rows=tuple(_row(party) for party in parties),
        flags=tuple(Flag(p.name, f, guard.describe(f)) for p in parties for f in p.flags),
        map=_map(result),
        curve=curve.curve(result, prices, budget),
        how=_how(result),
        protection=wording.PROTECTION.get(result.protocol, f"Computed with protocol {result.protocol}."),
        notes=tuple(str(note) for note in result.details.get("notes", ())),
        glossary=_glossary(result),
        noise="" if result.privacy is None else wording.noise(result.privacy),
    )


def _glossary(result: Valuation) -> tuple[tuple[str, str], ...]:
    """The terms that this report uses."""
    if result.privacy is None:
        return wording.GLOSSARY
    unused = {"Learnable", "Share", "Alone", "Last", "Replaceable", "Codes"} | dict(
        wording.NOISE_GLOSSARY
    ).keys()
    return wording.NOISE_GLOSSARY + tuple(term for term in wording.GLOSSARY if term[0] not in unused)


def _rank(party: PartyValue) -> float:
    return party.learnable if party.learnable is not None else party.value


def _scale(result: Valuation) -> float:
    """The right end of the chart, in nats: a round number beyond everything drawn."""
    ends = [party.interval[1] if party.interval else party.value for party in result.parties]
    learned = [party.learnable or 0.0 for party in result.parties]
    return curve.round_up(max([*ends, *learned, 1e-9]))


def _bar(party: PartyValue, scale: float) -> Bar:
    def place(value: float) -> float:
        return round(100 * min(max(value, 0.0), scale) / scale, 3)

    interval = party.interval
    text = f"Shapley-CMI {wording.nats(party.value)} nats"
    if party.learnable is not None:
        text += f", learnable {wording.nats(party.learnable)}"
    return Bar(
        name=party.name,
        value=place(party.value),
        learnable=None if party.learnable is None else place(party.learnable),
        low=None if interval is None else place(interval[0]),
        high=None if interval is None else place(interval[1]),
        value_text=wording.nats(party.value),
        learnable_text="" if party.learnable is None else wording.nats(party.learnable),
        text=text,
    )


def _row(party: PartyValue) -> Row:
    interval = party.interval
    absent = "not computed" if party.noise_scale is None else "not released"
    return Row(
        name=party.name,
        value=wording.nats(party.value),
        interval="not computed" if interval is None else " to ".join(wording.nats(end) for end in interval),
        learnable=absent if party.learnable is None else wording.nats(party.learnable),
        share=absent if party.share is None else wording.percent(party.share),
        alone=absent if party.alone is None else wording.nats(party.alone),
        last=absent if party.last is None else wording.nats(party.last),
        codes=absent if party.n_codes is None else f"{party.n_codes:,}",
    )


def _chart_text(parties: list[PartyValue]) -> str:
    """The chart in words, for who cannot see it."""
    said = []
    for party in parties:
        learned = "" if party.learnable is None else f" (learnable {wording.nats(party.learnable)})"
        said.append(f"{party.name} {wording.nats(party.value)}{learned}")
    return f"Bar chart of Shapley-CMI in nats: {wording.listing(said)}. The table below has all numbers."


def _facts(result: Valuation) -> tuple[tuple[str, str, str], ...]:
    """Figures under the answer: what, how much, and what that means."""
    before = result.label_entropy
    samples = ("Samples", f"{result.n_samples:,}", f"{len(result.parties)} data parties")
    if before is None:
        scale = result.privacy.noise_scale if result.privacy is not None else 0.0
        return (
            ("Told by all", f"{wording.nats(result.total)} nats", "the sum of the values, noise included"),
            ("Noise", f"{wording.nats(scale)} nats", "scale of the noise on every value"),
            samples,
        )
    part = wording.percent(result.total / before) if before > 0 else "0%"
    facts = [
        ("Unknown before", f"{wording.nats(before)} nats", "what the label still holds for the task party"),
        ("Told by all", f"{wording.nats(result.total)} nats", f"{part} of that, on these samples"),
    ]
    if result.learnable_total is not None:
        learned = wording.percent(result.learnable_total / before) if before > 0 else "0%"
        facts.append(
            ("Learnable", f"{wording.nats(result.learnable_total)} nats", f"{learned}, for new samples too")
        )
    return (*facts, samples)


def _map(result: Valuation) -> Map | None:
    found = redundancy(result)
    if found is None:
        return None
    rows = []
    for b, name in enumerate(found.names):
        cells = tuple(_cell(found.matrix[b, a], a == b) for a in range(len(found.names)))
        rows.append((name, cells))
    basis = (
        "Computed from pairwise Shapley interactions of the plug-in values, averaged over the other parties."
        if found.basis == INTERACTIONS
        else "Computed from what each pair of parties can teach together and apart."
    )
    return Map(found.names, tuple(rows), found.sentences[:6], basis)


def _cell(part: float, diagonal: bool) -> Cell:
    if diagonal:
        return Cell("–", 0.0, "self")
    if np.isnan(part):
        return Cell("·", 0.0, "nothing")
    if part <= -0.005:
        return Cell(f"+{min(-part, 9.99):.0%}", float(min(-part, 1.0)), "complements")
    told = abs(float(part)) if part > 0 else 0.0
    return Cell(f"{told:.0%}", told, "replaces")


_DETAIL_NAMES = {
    "learnable_search": "Learnable values",
    "policy": "Output policy",
    "certificate": "Certificate digest",
    "certificate_digest": "Certificate digest",
    "manifest": "Manifest digest",
    "manifest_digest": "Manifest digest",
    "q": "Encryption ids per sample (q)",
    "n_r": "Adversarial samples (n_r)",
    "harden": "Added checks",
}


def _how(result: Valuation) -> tuple[tuple[str, str], ...]:
    """How it was computed, as terms and their values."""
    if result.method == "exact":
        method = "exact, over all coalitions"
    elif result.n_permutations is None:
        method = f"in part exact, in part sampled, seed {result.seed}"
    else:
        method = f"sampled, {result.n_permutations:,} permutations, seed {result.seed}"
    rows = [("Method", method)]
    if result.method_reason:
        rows.append(("Chosen because", result.method_reason))
    if result.bins is not None:
        rows.append(("Bins of a numeric column", str(result.bins)))
    rows.append(("Samples", f"{result.n_samples:,}"))
    rows.append(("Protocol", result.protocol or "none, plain tables"))
    if result.run_id:
        rows.append(("Run", result.run_id))
    if result.privacy is not None:
        rows.append(("Noise on every value", f"Laplace, scale {result.privacy.noise_scale:.6g} nats"))
        rows.append(("Epsilon, delta", f"{result.privacy.epsilon:g}, {result.privacy.delta:g}"))
        rows.append(("Adjacency", result.privacy.adjacency))
        rows.append(("Observer", result.privacy.observer))
    for key, item in result.details.items():
        text = _detail(item)
        if text:
            rows.append((_DETAIL_NAMES.get(key, key.replace("_", " ").capitalize()), text))
    return tuple(rows)


def _detail(item: object) -> str:
    """A detail as text; lists have their own places in the report, or none."""
    if isinstance(item, bool):
        return "yes" if item else "no"
    if isinstance(item, Mapping):
        numbers = {k: v for k, v in item.items() if isinstance(v, int | float)}
        return ", ".join(f"{str(k).replace('_', ' ')} {v:,}" for k, v in numbers.items())
    return str(item) if isinstance(item, str | int | float) else ""
