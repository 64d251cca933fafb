"""The best set of parties to invite, with or without prices and a budget.

1. Up to 20 parties every set is compared, so the best one is exact for this game. Beyond that,
   parties are taken greedily by gain per price, and the best single party is kept if it beats that: at
   least (1 - 1/e)/2, about 32%, of the best value where returns fall (Khuller, Moss, Naor, 1999; Leskovec
   et al., 2007).
2. Parties whose contribution to the others of the set is not clearly above 0 leave it, the weakest first,
   and parties that clearly add something to the rest enter it.
3. For more parties than a table can hold, without prices: the result has exact values of the sets along one
   order of joining. Starting with everybody, the last party of the order leaves as long as it does not
   clearly add anything to those before it.
4. Parties that would be invited beside those if money did not matter are over budget. They are found
   together, because two that need each other may each add nothing alone.
5. The steps list everybody in the order of joining: the invited parties, those over budget, the others. A
   party is invited if and only if its step says so, so the advice and its table cannot contradict each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from fedvalue.decisions import games
from fedvalue.decisions.contribution import Contribution, ContributionVerdict, Judge
from fedvalue.decisions.games import Game
from fedvalue.decisions.money import Purse

if TYPE_CHECKING:
    from fedvalue.valuation.result import JoiningStep, Valuation

MAX_PARTIES_EXACT = 20
"""Up to here all sets, about a million, are compared."""

GREEDY_BOUND = 0.31606027941427883
"""(1 - 1/e)/2."""

_SAME = 1e-12  # nats; a smaller difference is rounding


@dataclass(frozen=True, slots=True)
class Point:
    """One step of the curve: the best value for this cost and less."""

    cost: Decimal
    value: float
    parties: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Step:
    """One more party, after those of the steps before it.

    Args:
        party: The party.
        price: Its price; None without prices.
        invited: The advice is to invite it.
        adds: Its contribution to the parties before it. The verdict of an invited party is about its
            contribution to all other invited ones, that of one over budget also to the others over budget.
        value: Value of all parties up to this one.
    """

    party: str
    price: Decimal | None
    invited: bool
    adds: Contribution
    value: float

    @property
    def only_together(self) -> bool:
        """The party is invited for what it adds to later parties."""
        return self.invited and self.adds.low is not None and self.adds.low <= 0


@dataclass(frozen=True, slots=True)
class Selection:
    """The answer to "whom do I invite?".

    Args:
        parties: The parties to invite, in the order of joining.
        value: Their value together, in nats.
        total: The value of all parties.
        steps: All parties, one by one.
        undecided_together: The joint contribution of all undecided parties to the invited ones; None with
            fewer than two.
        budget: None without prices.
        cost: Of the invited parties; None without prices.
        curve: Best value over cost, regardless of the budget; every party costs 1 without prices.
        method: "exact" or "greedy".
        by: The basis of the selection, "learnable" or "shapley-cmi".
        basis: How sets were valued (see `games`).
    """

    parties: tuple[str, ...]
    value: float
    total: float
    steps: tuple[Step, ...]
    undecided_together: Contribution | None
    budget: Decimal | None
    cost: Decimal | None
    curve: tuple[Point, ...]
    method: str
    by: str
    basis: str

    @property
    def undecided(self) -> tuple[Step, ...]:
        """Parties for which these rows do not show whether they add anything."""
        return _others(self.steps, ContributionVerdict.UNDECIDED)

    @property
    def idle(self) -> tuple[Step, ...]:
        """Parties that add nothing worth mentioning to those before them."""
        return _others(self.steps, ContributionVerdict.NOTHING)

    @property
    def unaffordable(self) -> tuple[Step, ...]:
        """Parties that would add something to the invited ones but do not all fit into the budget."""
        return _others(self.steps, ContributionVerdict.ADDS)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready data; amounts are text, because JSON numbers are binary fractions."""
        return {
            "schema": "fedvalue.selection/2",
            **msgspec.to_builtins(self),
            "undecided": [step.party for step in self.undecided],
            "guarantee": 1.0 if self.method == "exact" else GREEDY_BOUND,
        }


def _others(steps: tuple[Step, ...], verdict: ContributionVerdict) -> tuple[Step, ...]:
    return tuple(step for step in steps if not step.invited and step.adds.verdict is verdict)


def select(
    valuation: Valuation,
    prices: Mapping[str, object] | None = None,
    budget: object | None = None,
    *,
    by: str | None = None,
    game: Game | None = None,
) -> Selection:
    """The best set of a result's parties.

    Args:
        valuation: The result.
        prices: Price of each party; prices of others are ignored. None if prices do not matter.
        budget: None for no limit. Only with prices.
        by: "learnable" or "shapley-cmi"; None for the learnable value if the result has it.
        game: The value of sets; read from the result if None.

    Raises:
        InputError: A price is missing or wrong, or the budget is negative or has no prices.
    """
    if by is None:
        by = "learnable" if valuation.learnable_total is not None else "shapley-cmi"
    purse = Purse.of(valuation, prices, budget)
    judge = Judge(valuation, by)
    if game is None and by == "learnable" and valuation.joining is not None and not purse.priced:
        return _along_the_order(valuation, valuation.joining, judge)
    game = game or games.game_of(valuation, by)
    choice = _Choice(valuation, game, purse, judge)
    exact = len(game.names) <= MAX_PARTIES_EXACT
    best, curve = _compare_all(game, purse) if exact else _take_greedily(game, purse)
    invited = choice.settle(best)
    steps = choice.steps(invited)
    undecided = _others(steps, ContributionVerdict.UNDECIDED)
    together = None
    if len(undecided) > 1:
        group = sum(1 << game.names.index(step.party) for step in undecided)
        gain = game.value(invited | group) - game.value(invited)
        together = judge.several(gain, [step.adds for step in undecided])
    return Selection(
        parties=tuple(step.party for step in steps if step.invited),
        value=game.value(invited),
        total=game.value(game.everybody),
        steps=steps,
        undecided_together=together,
        budget=purse.budget,
        cost=purse.cost(invited) if purse.priced else None,
        curve=curve,
        method="exact" if exact else "greedy",
        by=by,
        basis=game.basis,
    )


def _along_the_order(valuation: Valuation, joining: Sequence[JoiningStep], judge: Judge) -> Selection:
    """The advice from the values of one chain of sets, from nobody to everybody."""
    before = 0.0
    adds = []
    for joined in joining:
        adds.append(judge.single(valuation[joined.party], joined.learnable - before))
        before = joined.learnable
    n_invited = len(joining)
    while n_invited and adds[n_invited - 1].verdict is not ContributionVerdict.ADDS:
        n_invited -= 1
    steps = tuple(
        Step(
            party=joined.party,
            price=None,
            invited=k < n_invited,
            adds=replace(contribution, verdict=ContributionVerdict.ADDS, rows_needed=None)
            if k < n_invited
            else contribution,
            value=joined.learnable,
        )
        for k, (joined, contribution) in enumerate(zip(joining, adds, strict=True))
    )
    value = steps[n_invited - 1].value if n_invited else 0.0
    undecided = _others(steps, ContributionVerdict.UNDECIDED)
    return Selection(
        parties=tuple(step.party for step in steps[:n_invited]),
        value=value,
        total=before,
        steps=steps,
        undecided_together=judge.several(before - value, [step.adds for step in undecided])
        if len(undecided) > 1
        else None,
        budget=None,
        cost=None,
        curve=(
            Point(Decimal(0), 0.0, ()),
            *(
                Point(Decimal(k), steps[k - 1].value, tuple(step.party for step in steps[:k]))
                for k in range(1, len(steps) + 1)
            ),
        ),
        method="greedy",
        by="learnable",
        basis=games.CHAIN,
    )


@dataclass(frozen=True, slots=True)
class _Choice:
    """Turns the best set into the invited set and the steps of all parties."""

    valuation: Valuation
    game: Game
    purse: Purse
    judge: Judge

    def adds(self, k: int, mask: int) -> Contribution:
        """What party k adds to the other parties of a coalition."""
        return self.judge.single(
            self.valuation.parties[k], self.game.gain(k, mask), error=self.game.error_of(k)
        )

    def settle(self, mask: int, kept: int = 0) -> int:
        """A set in which every party clearly adds something, and to which no other party clearly would.

        Args:
            mask: Where to start.
            kept: Parties that stay in any case.
        """
        for _ in self.game.names:
            mask = self._without_weak(mask, kept)
            grown = self._with_strong(mask)
            if grown == mask:
                return mask
            mask = grown
        return self._without_weak(mask, kept)

    def over_budget(self, invited: int) -> int:
        """The parties that would be invited beside these if money did not matter."""
        if self.purse.budget is None:
            return 0
        wealthy = replace(self, purse=replace(self.purse, budget=None))
        return wealthy.settle(self.game.everybody, kept=invited) ^ invited

    def _without_weak(self, mask: int, kept: int) -> int:
        while True:
            weak = []
            for k in self._inside(mask & ~kept):
                adds = self.adds(k, mask)
                if adds.verdict is not ContributionVerdict.ADDS:
                    weak.append((adds.gain, -self.purse.price[k], k))
            if not weak:
                return mask
            mask ^= 1 << min(weak)[2]

    def _with_strong(self, mask: int) -> int:
        while True:
            strong = []
            for k in self._inside(self.game.everybody ^ mask):
                if self.purse.allows(mask | 1 << k):
                    adds = self.adds(k, mask)
                    if adds.verdict is ContributionVerdict.ADDS:
                        strong.append((adds.gain, -k))
            if not strong:
                return mask
            mask |= 1 << -max(strong)[1]

    def steps(self, invited: int) -> tuple[Step, ...]:
        steps = []
        over_budget = self.over_budget(invited)
        useful = invited | over_budget
        mask = 0
        for group in (invited, over_budget, self.game.everybody ^ useful):
            rest = self._inside(group)
            while rest:
                k, _ = _next(self.game, mask, rest, self.purse)
                rest.remove(k)
                adds = self.adds(k, mask)
                if 1 << k & useful:
                    adds = replace(adds, verdict=ContributionVerdict.ADDS, rows_needed=None)
                elif adds.verdict is ContributionVerdict.ADDS:
                    # It does so only beside parties that are themselves undecided.
                    needed = self.adds(k, useful).rows_needed
                    adds = replace(adds, verdict=ContributionVerdict.UNDECIDED, rows_needed=needed)
                mask |= 1 << k
                steps.append(
                    Step(
                        party=self.game.names[k],
                        price=self.purse.price[k] if self.purse.priced else None,
                        invited=bool(1 << k & invited),
                        adds=adds,
                        value=self.game.value(mask),
                    )
                )
        return tuple(steps)

    def _inside(self, mask: int) -> list[int]:
        return [k for k in range(len(self.game.names)) if mask >> k & 1]


def _compare_all(game: Game, purse: Purse) -> tuple[int, tuple[Point, ...]]:
    """Compare all sets: the most valuable one in the budget, then the cheapest, then the smallest."""
    table = game.dense()
    units, unit = purse.whole_numbers()
    cost = np.zeros(len(table), dtype=np.int64)
    for k, price in enumerate(units):
        cost[1 << k : 1 << (k + 1)] = cost[: 1 << k] + price
    size = np.bitwise_count(np.arange(len(table), dtype=np.uint64))
    ranked = np.lexsort((size, -table, cost))
    # Among equal costs the most valuable comes first, so a new maximum is a point of the curve.
    reached = np.maximum.accumulate(table[ranked])
    best = [int(ranked[0]), *ranked[1:][table[ranked[1:]] > reached[:-1] + _SAME].tolist()]
    affordable = [
        mask for mask in best if purse.budget is None or Decimal(int(cost[mask])) * unit <= purse.budget
    ]
    curve = tuple(Point(Decimal(int(cost[m])) * unit, float(table[m]), game.members(m)) for m in best)
    return affordable[-1], curve


def _take_greedily(game: Game, purse: Purse) -> tuple[int, tuple[Point, ...]]:
    """Gain per price while the money lasts, or the best single party if that is worth more."""
    everyone = list(range(len(game.names)))
    chosen = 0
    while True:
        rest = [k for k in everyone if not chosen >> k & 1 and purse.allows(chosen | 1 << k)]
        k, gain = _next(game, chosen, rest, purse) if rest else (0, 0.0)
        if gain <= _SAME:
            break
        chosen |= 1 << k
    best_single = max((1 << k for k in everyone if purse.allows(1 << k)), key=game.value, default=0)
    if game.value(best_single) > game.value(chosen):
        chosen = best_single
    curve = [Point(Decimal(0), game.value(0), ())]
    mask = 0
    while mask != game.everybody:
        k, gain = _next(game, mask, [k for k in everyone if not mask >> k & 1], purse)
        if gain <= _SAME:
            break
        mask |= 1 << k
        curve.append(Point(purse.cost(mask), game.value(mask), game.members(mask)))
    return chosen, tuple(curve)


def _next(game: Game, mask: int, candidates: list[int], purse: Purse) -> tuple[int, float]:
    """The candidate with the most gain per price; a free one that gains anything comes first."""
    best: tuple[float, float, int] | None = None
    for k in candidates:
        gain, price = game.gain(k, mask), purse.price[k]
        rate = gain / float(price) if price > 0 else (float("inf") if gain > _SAME else 0.0)
        if best is None or rate > best[0] + _SAME or (rate == best[0] and gain > best[1] + _SAME):
            best = (rate, gain, k)
    assert best is not None, "there is a candidate"
    return best[2], best[1]
