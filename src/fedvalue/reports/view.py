"""The contents of a report as plain data: a pure function of the result.

The template only does the layout. Lengths are percentages of a chart's width, so that the page scales with
the screen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fedvalue.decisions.acceptance import acceptance
from fedvalue.decisions.games import listing
from fedvalue.decisions.own_share import is_own_share
from fedvalue.decisions.selection import select
from fedvalue.reports import wording
from fedvalue.reports.charts import (
    Overlap,
    PriceCurve,
    Waterfall,
    overlap,
    price_curve,
    round_up,
    ticks,
    waterfall,
)
from fedvalue.reports.gain_scale import distinct_uplift
from fedvalue.reports.term_lists import asked, computation, glossary

if TYPE_CHECKING:
    from fedvalue.valuation.result import PartyValue, UpliftRow, Valuation

UPLIFT_PARTIES = 15
"""Up to here the table of gains has each party alone and all but each; beyond that, all and nobody."""

COLUMNS_LISTED = 12
"""Columns listed per party; a vendor may have hundreds."""

_KEPT = "Each data party read and coded its columns at home. Their names and values are not in this report."


@dataclass(frozen=True, slots=True)
class PartyRow:
    """One party: its bar in percent of the chart's width, and its numbers as text.

    Args:
        bar: Length of its bar: the learnable value, or Shapley-CMI without learnable values.
        low, high: The 95% interval of that number; None without one.
        share: Learnable share; empty where the total may be nothing.
        value: The number of the bar, in nats.
        interval: Its 95% interval.
        cmi: Shapley-CMI with its interval, if `value` is another number.
        text: Alt text.
    """

    name: str
    bar: float
    low: float | None
    high: float | None
    share: str
    value: str
    interval: str
    cmi: str
    text: str


@dataclass(frozen=True, slots=True)
class Fact:
    """A fact about parties or columns, as one sentence."""

    who: str
    sentence: str


@dataclass(frozen=True, slots=True)
class Gain:
    """Quality of the prediction with one set of parties, as text; empty if not known.

    Args:
        parties: The set.
        wrong: Errors per 1,000 cases.
        interval: 95% interval of the errors avoided, compared with nobody.
        auc_change, ks_change, log_loss_change: 95% intervals of the differences to nobody.
    """

    parties: str
    wrong: str
    interval: str
    auc: str
    auc_change: str
    ks: str
    ks_change: str
    log_loss: str
    log_loss_change: str


@dataclass(frozen=True, slots=True)
class ColumnRow:
    """How a column was coded, as text."""

    party: str
    name: str
    kind: str
    coding: str
    missing: str


@dataclass(frozen=True, slots=True)
class ReportView:
    """Everything in the report, in its order."""

    title: str
    decision: str
    more: tuple[str, ...]
    acceptance: tuple[str, str] | None
    about: str
    waterfall: Waterfall | None
    price_curve: PriceCurve | None
    learnable: bool
    measure: str
    shares: bool
    cmi: bool
    parties: tuple[PartyRow, ...]
    total: PartyRow
    axis: tuple[tuple[float, str], ...]
    chart_text: str
    cmi_reason: str
    facts: tuple[Fact, ...]
    notes: tuple[str, ...]
    overlap: Overlap | None
    wrong: str
    gains: tuple[Gain, ...]
    sensitivity: tuple[str, tuple[tuple[str, str], ...]] | None
    asked: tuple[tuple[str, str], ...]
    protection: str
    noise: str
    how: tuple[tuple[str, str], ...]
    columns: tuple[ColumnRow, ...]
    columns_note: str
    glossary: tuple[tuple[str, str], ...]


def view(
    valuation: Valuation, *, prices: Mapping[str, object] | None = None, budget: object | None = None
) -> ReportView:
    """The report of a result, with prices and a budget or without.

    Raises:
        InputError: A price is missing or wrong.
    """
    selection = select(valuation, prices, budget)
    sentences = wording.decision(valuation, selection)
    parties = sorted(valuation.parties, key=lambda party: -party.leading)
    learnable = valuation.learnable_total is not None
    measure = "learnable values" if learnable else "Shapley-CMI"
    top = round_up(max([*((_interval(p) or (0.0, p.leading))[1] for p in parties), 1e-9]))
    rows = tuple(_party(valuation, party, top) for party in parties)
    label = wording.label_of(valuation)
    return ReportView(
        title="What each party’s data is worth" + (f" for predicting “{label}”" if label else ""),
        decision=sentences[0],
        more=sentences[1:],
        acceptance=_acceptance(valuation),
        about=_about(valuation),
        waterfall=waterfall(valuation, selection),
        price_curve=price_curve(selection),
        learnable=learnable,
        measure=wording.measure(valuation),
        shares=any(row.share for row in rows),
        cmi=learnable and any(row.cmi for row in rows),
        parties=rows,
        total=_total(valuation, top),
        axis=tuple((round(100 * tick / top, 3), f"{tick:g}") for tick in ticks(top)),
        chart_text=f"Bar chart of {measure} in nats: {listing([f'{row.name} {row.value}' for row in rows])}.",
        cmi_reason=wording.no_interval(valuation) if learnable else "",
        facts=_facts(valuation),
        notes=tuple(str(note) for note in valuation.details.get("notes", ())),
        overlap=overlap(valuation),
        wrong=wording.PredictionWords.of(valuation).wrong,
        gains=_gains(valuation),
        sensitivity=_sensitivity(valuation, priced=prices is not None),
        asked=asked(valuation),
        protection=wording.PROTECTION.get(
            valuation.protocol, f"Computed with protocol {valuation.protocol}."
        ),
        noise="" if valuation.privacy is None else wording.noise(valuation.privacy),
        how=computation(valuation),
        columns=_columns(valuation),
        columns_note=_columns_note(valuation),
        glossary=glossary(valuation),
    )


def _about(valuation: Valuation) -> str:
    if is_own_share(valuation):
        return f"{valuation.n_samples:,} cases."
    n_parties = len(valuation.parties)
    return f"{valuation.n_samples:,} cases, {n_parties} data {'party' if n_parties == 1 else 'parties'}."


def _acceptance(valuation: Valuation) -> tuple[str, str] | None:
    """Verdict and sentence of an acceptance test."""
    outcome = acceptance(valuation)
    if outcome is None:
        return None
    return outcome.verdict.value, wording.acceptance_sentence(valuation, outcome)


def _interval(party: PartyValue) -> tuple[float, float] | None:
    return party.interval if party.learnable is None else party.learnable_interval


def _party(valuation: Valuation, party: PartyValue, top: float) -> PartyRow:
    def place(value: float) -> float:
        return round(100 * min(max(value, 0.0), top) / top, 3)

    ends, share = _interval(party), valuation.meaningful_share(party)
    what = "Shapley-CMI" if party.learnable is None else "learnable value"
    return PartyRow(
        name=party.name,
        bar=place(party.leading),
        low=None if ends is None else place(ends[0]),
        high=None if ends is None else place(ends[1]),
        share="" if share is None else wording.percent(share),
        value=wording.nats(party.leading),
        interval=wording.interval(ends),
        cmi=_cmi(party),
        text=f"{what} {wording.nats(party.leading)} nats",
    )


def _cmi(party: PartyValue) -> str:
    if party.learnable is None or party.value is None:
        return ""
    half = party.half_width
    return wording.nats(party.value) + ("" if half is None else f" ± {wording.nats(half)}")


def _total(valuation: Valuation, top: float) -> PartyRow:
    learned = valuation.learnable_total
    value = (valuation.total or 0.0) if learned is None else learned
    return PartyRow(
        name="all together",
        bar=min(100.0, 100 * max(value, 0.0) / top),
        low=None,
        high=None,
        share="",
        value=wording.nats(value),
        interval=wording.interval(valuation.learnable_total_interval),
        cmi="" if learned is None or valuation.total is None else wording.nats(valuation.total),
        text="",
    )


def _facts(valuation: Valuation) -> tuple[Fact, ...]:
    """Warnings of the run, flags of parties, and warnings about columns."""
    return (
        *(Fact("", sentence) for sentence in valuation.warnings),
        *(
            Fact(listing(names, wording.NAMES_SHOWN), sentence)
            for names, sentence in wording.flags(valuation)
        ),
        *(Fact(f"{c.party}: {c.name}", text) for c in valuation.columns for text in c.warnings),
    )


def _gains(valuation: Valuation) -> tuple[Gain, ...]:
    rows = distinct_uplift(valuation)
    if len(valuation.parties) > UPLIFT_PARTIES:
        rows = [row for row in rows if row.role in ("nobody", "all")]
    roles = [row.role for row in rows]
    rows.sort(key=lambda row: (roles.index(row.role), row.log_loss))
    return tuple(_gain(row, valuation) for row in rows)


def _gain(row: UpliftRow, valuation: Valuation) -> Gain:
    ends, lower = row.errors_avoided_interval, row.log_loss_gain_interval
    compared = row.role != "nobody"
    return Gain(
        parties=wording.uplift_name(valuation, row),
        wrong=wording.per_1000(1000 * (1 - row.accuracy)),
        interval=_range([wording.per_1000(end) for end in ends]) if ends and compared else "",
        auc="" if row.auc is None else f"{row.auc:.3f}",
        auc_change=_change(row.auc_gain_interval) if compared else "",
        ks="" if row.ks is None else f"{row.ks:.3f}",
        ks_change=_change(row.ks_gain_interval) if compared else "",
        log_loss=f"{row.log_loss:.3f}",
        log_loss_change=_change(None if lower is None else (-lower[1], -lower[0])) if compared else "",
    )


def _change(ends: tuple[float, float] | None) -> str:
    """An interval of a difference, with signs."""
    return "" if ends is None else _range([f"{end:+z.3f}".replace("-", "−") for end in ends])


def _range(ends: list[str]) -> str:
    return "0" if set(ends) in ({"0"}, {"+0.000"}) else " to ".join(ends)


def _sensitivity(valuation: Valuation, *, priced: bool) -> tuple[str, tuple[tuple[str, str], ...]] | None:
    """The sentence and the advice under each coding, which ignores prices."""
    sensitivity = valuation.details.get("sensitivity")
    if not isinstance(sensitivity, Mapping):
        return None
    runs = tuple(
        (str(run.get("coding", "")), _coding_advice(run))
        for run in sensitivity.get("runs", ())
        if isinstance(run, Mapping)
    )
    aside = "Prices and budget are left aside here. " if priced else ""
    return aside + str(sensitivity.get("sentence", "")), runs


def _coding_advice(run: Mapping[str, object]) -> str:
    parties = (run.get(key) for key in ("invite", "undecided"))
    invited, undecided = ([*map(str, names)] if isinstance(names, list | tuple) else [] for names in parties)
    advice = f"invite {listing(invited) or 'nobody'}"
    return f"{advice}; undecided: {listing(undecided)}" if undecided else advice


def _columns_note(valuation: Valuation) -> str:
    """Remarks on columns that are not listed, or not known here."""
    owners = {column.party for column in valuation.columns}
    kept = valuation.protocol and not owners & {party.name for party in valuation.parties}
    hidden = [
        f"{count - COLUMNS_LISTED:,} more columns of {party}"
        for party, count in Counter(column.party for column in valuation.columns).items()
        if count > COLUMNS_LISTED
    ]
    listed = f"Not listed: {listing(hidden)}. The result file has all of them." if hidden else ""
    return " ".join(filter(None, [listed, _KEPT if kept else ""]))


def _columns(valuation: Valuation) -> tuple[ColumnRow, ...]:
    seen: Counter[str] = Counter()
    shown = []
    for column in valuation.columns:
        seen[column.party] += 1
        if seen[column.party] <= COLUMNS_LISTED:
            shown.append(column)
    return tuple(
        ColumnRow(
            party=column.party,
            name=column.name,
            kind=column.kind,
            coding=column.coding or f"{column.n_codes:,} codes",
            missing=f"{column.n_missing:,}" if column.n_missing else "",
        )
        for column in shown
    )
