"""Stability of a payout: the payment of each group of parties against its value by itself.

The excess of a coalition S under a sharing x is v(S) - x(S): what its members would gain by leaving with S
alone. The least core is the set of sharings of v(N) whose largest excess is as small as possible, and
that smallest value is epsilon: at most 0 when the core is not empty (Maschler, Peleg, Shapley, 1979).

epsilon is a linear program with a constraint per coalition. Its dual is a search for balanced weights,
max sum_S lambda_S v(S) + mu v(N) with sum_S lambda_S = 1 and, for every party, the lambda of its
coalitions plus mu adding up to 0 (Bondareva, Shapley). It has p + 1 equations only, so a revised
simplex with one vectorised look at all coalitions per step solves it; its prices are a sharing in the
least core.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np

from fedvalue.decisions import money
from fedvalue.decisions.contribution import Judge
from fedvalue.decisions.games import game_of, listing
from fedvalue.errors import EngineError, InputError

if TYPE_CHECKING:
    from fedvalue.typing import Floats
    from fedvalue.valuation.result import Valuation

MAX_PARTIES = 15
"""Up to here every coalition is checked: 32,768 of them."""

_TOLERANCE = 1e-10
_MAX_STEPS = 5000
_BLAND_AFTER = 500  # steps by steepest excess, which is fast; then Bland's rule, which cannot cycle


@dataclass(frozen=True, slots=True)
class LeastCore:
    """The largest excess `epsilon` in the least core, and a sharing of v(N) in it."""

    epsilon: float
    shares: tuple[float, ...]


def excesses(table: Floats, shares: Floats) -> Floats:
    """v(S) - x(S) of all coalitions by bit mask; minus infinity for nobody and everybody."""
    p = len(table).bit_length() - 1
    if p > MAX_PARTIES:
        raise InputError(f"all coalitions are checked for at most {MAX_PARTIES} parties, got {p}")
    paid = np.zeros(len(table))
    for k in range(p):
        paid[1 << k : 1 << (k + 1)] = paid[: 1 << k] + shares[k]
    out = table - paid
    out[0] = out[-1] = -np.inf
    return out


def least_core(table: Floats) -> LeastCore:
    """Solve for the least core of a game given by bit mask.

    Raises:
        EngineError: The simplex did not finish, which would be a bug.
    """
    p = len(table).bit_length() - 1
    if p == 1:
        return LeastCore(0.0, (float(table[1]),))
    # Basis: mu (first, free, stays for ever) and the p single parties, each with weight 1/p.
    basis = [1 << k for k in range(p)]
    matrix = np.zeros((p + 1, p + 1))
    matrix[:p, 0] = 1.0
    for column, mask in enumerate(basis, start=1):
        matrix[:, column] = _column(mask, p)
    goal = np.zeros(p + 1)
    goal[p] = 1.0
    for step in range(_MAX_STEPS):
        cost = np.array([table[-1], *(table[mask] for mask in basis)])
        prices = np.linalg.solve(matrix.T, cost)
        shares, epsilon = prices[:p], float(prices[p])
        beyond = excesses(table, shares) - epsilon
        if step < _BLAND_AFTER:
            entering = int(np.argmax(beyond))
        else:
            positive = np.flatnonzero(beyond > _TOLERANCE)
            entering = int(positive[0]) if len(positive) else 1
        if beyond[entering] <= _TOLERANCE:
            return LeastCore(epsilon, tuple(float(x) for x in shares))
        weights = np.linalg.solve(matrix, goal)
        direction = np.linalg.solve(matrix, _column(entering, p))
        leaving = _ratio_test(np.asarray(weights), np.asarray(direction), basis)
        basis[leaving - 1] = entering
        matrix[:, leaving] = _column(entering, p)
    raise EngineError(f"the least core was not found in {_MAX_STEPS} steps")


def _ratio_test(weights: Floats, direction: Floats, basis: list[int]) -> int:
    """The basic coalition whose weight first reaches 0; the smallest mask among equals (Bland)."""
    best, leaving = np.inf, 0
    for k in range(1, len(direction)):
        if direction[k] > _TOLERANCE:
            ratio = max(weights[k], 0.0) / direction[k]
            if ratio < best - _TOLERANCE or (
                ratio < best + _TOLERANCE and leaving and basis[k - 1] < basis[leaving - 1]
            ):
                best, leaving = min(best, ratio), k
    if leaving == 0:
        raise EngineError("the least core is unbounded, which no game with finite values has")
    return leaving


def _column(mask: int, p: int) -> Floats:
    return np.array([*(float(mask >> k & 1) for k in range(p)), 1.0])


NOT_CHECKED = "Groups of parties were not checked: the result does not say what each group would bring."
NO_POT = "Groups of parties were not checked: there is nothing to divide."

_ROUNDING = 1e-9  # excess, relative to everybody's value, that is rounding


@dataclass(frozen=True, slots=True)
class Stability:
    """The group of parties whose payment falls short most of its value without the others.

    Args:
        stable: No group falls short by more than a negligible amount (see `contribution`) and its error.
        coalition: The group that falls short most, beyond its error if one does.
        excess: Its shortfall, as money.
        least: The largest shortfall under the best division of this pot, as money (0 if the core is not
            empty).
        within_error: The rows cannot tell whether the shortfall is there.
    """

    stable: bool
    coalition: tuple[str, ...]
    excess: Decimal
    least: Decimal
    within_error: bool = False

    def sentence(self) -> str:
        """The finding in a sentence."""
        if self.within_error:
            return "No group of parties clearly gets less than it would bring without the others."
        if self.stable:
            return (
                "Every group of parties gets at least what it would bring without the others: "
                "none has a reason to leave."
            )
        gets, it = ("gets", "it") if len(self.coalition) == 1 else ("get", "they")
        short = (
            f"{listing(self.coalition)} {gets} {self.excess:,} less than {it} would bring without the others"
        )
        if self.least == 0:
            return f"{short}; another division of this pot would leave no group short."
        return f"{short}. In every division of this pot some group falls short, by {self.least:,} at least."


def stability_of(valuation: Valuation, by: str, amounts: list[int], pot: int) -> Stability | None:
    """Check amounts in cents that add up to the pot; None if not every coalition has a value to check."""
    game = game_of(valuation, by)
    if game.table is None or not 2 <= len(game.names) <= MAX_PARTIES or pot == 0:
        return None
    everybody = float(game.table[-1])
    if everybody <= 0:
        return None
    # In units of the pot, so that value and money are compared as parts of the same whole.
    table = game.table / everybody
    shortfall = excesses(table, np.array(amounts) / pot)
    judge = Judge(valuation, by)
    # Rounding to the cent moves a coalition by less than a cent per member.
    tolerated = max(_ROUNDING, len(amounts) / pot, judge.negligible / everybody)
    short = np.flatnonzero(shortfall > tolerated)
    errors = np.array(
        [_half_width(valuation, judge, game.members(int(mask)), float(game.table[mask])) for mask in short]
    )
    clear = short[shortfall[short] > errors / everybody]
    candidates = clear if len(clear) else np.arange(len(table))
    worst = int(candidates[np.argmax(shortfall[candidates])])
    return Stability(
        stable=not len(clear),
        coalition=game.members(worst),
        excess=money.from_cents(round(float(shortfall[worst]) * pot)),
        least=money.from_cents(round(max(least_core(table).epsilon, 0.0) * pot)),
        within_error=bool(len(short)) and not len(clear),
    )


def _half_width(valuation: Valuation, judge: Judge, names: tuple[str, ...], value: float) -> float:
    """Half of the 95% interval of a group's value by itself; 0 if no error is known."""
    if len(names) > 1:
        return judge.usual_half_width(value)
    return judge.half_width(valuation[names[0]], value) or 0.0
