"""Payouts: a pot divided by value, with floors and caps, exact to the cent.

Shares are proportional to the parties' values (negative ones count as 0). A floor or cap that binds fixes a
party's amount, and the others share the rest in proportion: amount_d = clamp(lambda value_d, floor, cap) with
the lambda that spends the whole pot. The arithmetic is rational; the only rounding is to whole cents, by
largest remainder, so the amounts add up to the pot.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import msgspec

from fedvalue.decisions import games, money
from fedvalue.decisions.contribution import Judge
from fedvalue.decisions.games import listing
from fedvalue.decisions.leaks import Leaks
from fedvalue.decisions.selection import select
from fedvalue.decisions.stability import NO_POT, NOT_CHECKED, Stability, stability_of
from fedvalue.errors import InputError
from fedvalue.untrusted_text import without_formula

if TYPE_CHECKING:
    from fedvalue.valuation.result import Valuation

_NOTICEABLE = 0.01  # part of the pot from which a payment for memorised value is mentioned


@dataclass(frozen=True, slots=True)
class Share:
    """What one party gets.

    Args:
        name: The party.
        value: The value on which the share is based, in nats.
        amount: Its part of the pot.
        percent: The same as a percentage of the pot.
        rank: 1 for the largest value; parties too close to rank have the rank of the first of them.
        tied: Another party has the same rank.
        bound: "floor", "cap" or "".
    """

    name: str
    value: float
    amount: Decimal
    percent: float
    rank: int
    tied: bool
    bound: str


@dataclass(frozen=True, slots=True)
class Payout:
    """A pot and its shares, in the order of the parties.

    Args:
        pot: The amount divided.
        by: The basis of the shares.
        shares: One per party.
        stability: None if not every coalition was valued or there are too many to check.
        memorised: By shapley-cmi: the parties whose amount is mostly for memorised value, with what they
            would get by learnable value. None if the result has no learnable values.
        idle: Parties that the advice does not invite, because they add nothing worth mentioning.
        undecided: Parties for which the rows do not show whether they add anything.
        leaks: Columns of paid parties that reproduce the label.
    """

    pot: Decimal
    by: str
    shares: tuple[Share, ...]
    stability: Stability | None
    memorised: Mapping[str, Decimal] | None
    idle: tuple[str, ...] = ()
    undecided: tuple[str, ...] = ()
    leaks: Leaks = field(default_factory=Leaks)

    def to_csv(self) -> str:
        """One line per party, for the books; a name that a spreadsheet would run as a formula is quoted."""
        out = io.StringIO()
        lines = csv.writer(out, lineterminator="\n")
        lines.writerow(["party", "amount", "percent", "value", "rank", "tied", "bound"])
        for s in self.shares:
            lines.writerow([
                without_formula(s.name), s.amount, f"{s.percent:.4f}", repr(s.value), s.rank,
                "yes" if s.tied else "no", s.bound,
            ])  # fmt: skip
        return out.getvalue()

    def remarks(self) -> tuple[str, ...]:
        """Remarks on the shares, one sentence each."""
        remarks = []
        paid = {share.name: share.amount for share in self.shares}
        if self.leaks.columns:
            remarks.append(f"Warning: {self.leaks.suspicion}; {self.leaks.remedy} before you pay.")
        for name, fair in (self.memorised or {}).items():
            remarks.append(
                f"Warning: {name} would be paid {paid[name]:,} mostly for memorised value; "
                f"by learnable value it gets {fair:,}."
            )
        if self.memorised is None:
            remarks.append(
                "Warning: without learnable values nobody can say how much of this pays for memorised value."
            )
        for names, reason in (
            (self.undecided, "these rows do not show whether it adds anything to the others"),
            (self.idle, "it adds nothing worth mentioning to the others"),
        ):
            remarks += [
                f"{name} is paid {paid[name]:,} although {reason}." for name in names if paid[name] > 0
            ]
        for rank in sorted({s.rank for s in self.shares if s.tied}):
            tied = [s.name for s in self.shares if s.rank == rank]
            remarks.append(
                f"Too close to rank: {listing(tied)}; their values differ by less than their error."
            )
        not_checked = NOT_CHECKED if self.pot else NO_POT
        stable = not_checked if self.stability is None else self.stability.sentence()
        if self.by == "shapley-cmi" and self.stability is not None:
            stable += " This is measured by Shapley-CMI, memorised value included."
        return (*remarks, stable)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready data; amounts are text, because JSON numbers are binary fractions."""
        data = {"schema": "fedvalue.payout/2", "pot": self.pot, "by": self.by, "shares": self.shares}
        if self.stability is not None:
            data["stability"] = self.stability
        if self.memorised:
            data["memorised"] = self.memorised
        return dict(msgspec.to_builtins(data))


def payout(
    valuation: Valuation, pot: object, *, by: str = "learnable", floor: object = 0, cap: object | None = None
) -> Payout:
    """Divide a pot among the parties of a result.

    Args:
        valuation: The result.
        pot: Amount to divide, whole cents.
        by: "learnable" or "shapley-cmi". The latter also pays for memorised value, as the remarks say.
        floor: Least amount of every party, whole cents.
        cap: Largest amount of any party, whole cents, or None.

    Raises:
        InputError: An amount is wrong, floors or caps cannot be met, or no party has any value.
    """
    games.check_by(by)
    values = [games.worth(party, by) for party in valuation.parties]
    pot_cents = money.cents(money.amount(pot, "the pot"), "the pot")
    low = money.cents(money.amount(floor, "the floor"), "the floor")
    high = pot_cents if cap is None else money.cents(money.amount(cap, "the cap"), "the cap")
    ideal = divide(values, pot_cents, low, high)
    amounts = money.largest_remainder(ideal, pot_cents)
    judge = Judge(valuation, by)
    ranks = _ranks(values, [judge.half_width(p, v) for p, v in zip(valuation.parties, values, strict=True)])
    bounds = {Fraction(high): "cap"} if cap is not None else {}
    bounds |= {Fraction(low): "floor"} if low else {}
    shares = tuple(
        Share(
            name=party.name,
            value=values[k],
            amount=money.from_cents(amounts[k]),
            percent=100 * amounts[k] / pot_cents if pot_cents else 0.0,
            rank=ranks[k],
            tied=ranks.count(ranks[k]) > 1,
            bound=bounds.get(ideal[k], ""),
        )
        for k, party in enumerate(valuation.parties)
    )
    advice = select(valuation, by="learnable") if valuation.learnable_total is not None else None
    return Payout(
        pot=money.from_cents(pot_cents),
        by=by,
        shares=shares,
        stability=stability_of(valuation, by, amounts, pot_cents),
        memorised=_memorised(valuation, by, amounts, pot_cents),
        idle=() if advice is None else tuple(step.party for step in advice.idle),
        undecided=() if advice is None else tuple(step.party for step in advice.undecided),
        leaks=Leaks.of(valuation, [share.name for share in shares if share.amount > 0]),
    )


def _memorised(valuation: Valuation, by: str, amounts: list[int], pot: int) -> dict[str, Decimal] | None:
    """Parties whose amount by Shapley-CMI is more than twice what they would get by learnable value."""
    if by == "learnable":
        return {}
    if any(party.learnable is None for party in valuation.parties):
        return None
    learned = [max(party.learnable or 0.0, 0.0) for party in valuation.parties]
    total = sum(learned)
    fair = [round(pot * x / total) if total > 0 else 0 for x in learned]
    return {
        party.name: money.from_cents(fair[k])
        for k, party in enumerate(valuation.parties)
        if amounts[k] > 2 * fair[k] and amounts[k] > _NOTICEABLE * pot
    }


def divide(values: Sequence[float], pot: int, floor: int, cap: int) -> list[Fraction]:
    """clamp(lambda value, floor, cap) per party with the lambda that spends the pot, in exact fractions."""
    p = len(values)
    if any(not math.isfinite(v) for v in values):
        raise InputError("the value of a party is not finite")
    weights = [Fraction(max(v, 0.0)) for v in values]
    if p * floor > pot:
        raise InputError(
            f"a floor of {money.from_cents(floor)} for {p} parties takes {money.from_cents(p * floor)}, "
            f"more than the pot of {money.from_cents(pot)}"
        )
    if floor > cap:
        raise InputError(
            f"the floor of {money.from_cents(floor)} is above the cap of {money.from_cents(cap)}"
        )
    if not any(weights) and p * floor != pot:
        raise InputError(
            "no party has a value above 0, so the pot cannot be divided by value; agree on shares by other "
            "means"
        )
    most = sum(cap if w > 0 else floor for w in weights)
    if most < pot:
        raise InputError(
            f"with a cap of {money.from_cents(cap)} at most {money.from_cents(most)} can be paid, "
            f"less than the pot of {money.from_cents(pot)}"
        )
    return _water_fill(weights, pot, floor, cap)


def _water_fill(weights: list[Fraction], pot: int, floor: int, cap: int) -> list[Fraction]:
    """Raise lambda past each point where a floor stops or a cap starts to bind, until the pot is spent."""
    points = sorted({Fraction(b) / w for w in weights if w > 0 for b in (floor, cap)})

    def paid(level: Fraction) -> list[Fraction]:
        return [min(max(level * w, Fraction(floor)), Fraction(cap)) for w in weights]

    below = Fraction(0)
    for point in points:
        if sum(paid(point)) >= pot:
            break
        below = point
    amounts = paid(below)
    missing = pot - sum(amounts)
    if missing:
        # Between two points the sum is linear in lambda: its slope is the weight that moves.
        slope = sum((w for w in weights if w > 0 and floor <= below * w < cap), Fraction(0))
        amounts = paid(below + missing / slope)
    return amounts


def _ranks(values: list[float], half_widths: list[float | None]) -> list[int]:
    """Ranks by falling value; a party that is not clearly below the first of a group joins that group.

    Two values are clearly different if they differ by more than the 95% half-width of their difference, with
    independent errors.
    """

    def tied(a: int, b: int) -> bool:
        half_a, half_b = half_widths[a], half_widths[b]
        width = 0.0 if half_a is None or half_b is None else math.hypot(half_a, half_b)
        return abs(values[a] - values[b]) <= width

    order = sorted(range(len(values)), key=lambda k: -values[k])
    ranks = [0] * len(values)
    first = None
    for place, k in enumerate(order, start=1):
        if first is not None and tied(first, k):
            ranks[k] = ranks[first]
        else:
            ranks[k] = place
            first = k
    return ranks
