"""Whom to invite: the best subset of parties under a budget, and when to stop.

Up to 20 parties every subset is compared, so the answer is exact for the game at hand. Beyond, parties
are taken greedily by gain per price, and the best single party is kept if it beats that: at least (1 -
1/e)/2, about 32%, of the best value where the game has falling returns (Khuller, Moss, Naor, 1999;
Leskovec et al., 2007). Parties that complement each other break that condition, so the selection says
which method it used.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedvalue.decisions import games, money
from fedvalue.decisions.games import Game
from fedvalue.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fedvalue.valuation.result import Valuation

MAX_PARTIES_EXACT = 20
"""Up to here all subsets are compared: about a million."""

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
    """Inviting one more party, in the best order.

    Args:
        party: Who comes next: the most gain per price.
        price: Its price.
        gain: What it adds to those before it.
        value: What all up to it are worth.
        noise: Half of the party's 95% interval; None when not known.
    """

    party: str
    price: Decimal
    gain: float
    value: float
    noise: float | None

    @property
    def above_noise(self) -> bool:
        """Whether the gain is more than noise; any gain, where the noise is not known."""
        return self.gain > max(self.noise or 0.0, _SAME)


@dataclass(frozen=True, slots=True)
class Selection:
    """The answer to "whom do I invite with this budget?".

    Args:
        budget: What may be spent.
        parties: Whom to invite.
        cost: What they cost together.
        value: What they are worth together, in nats.
        total: What everybody would be worth.
        method: "exact" or "greedy".
        by: The value that the selection goes by.
        basis: How subsets were valued (see `games`).
        curve: Best value over cost, without regard to the budget.
        order: In which order to invite, without regard to the budget.
        enough: Number of parties of `order` after which nobody adds more than noise.
    """

    budget: Decimal
    parties: tuple[str, ...]
    cost: Decimal
    value: float
    total: float
    method: str
    by: str
    basis: str
    curve: tuple[Point, ...]
    order: tuple[Step, ...]
    enough: int

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready data; amounts are text."""
        data = asdict(self)
        data["schema"] = "fedvalue.selection/1"
        data["guarantee"] = 1.0 if self.method == "exact" else GREEDY_BOUND
        for step, item in zip(self.order, data["order"], strict=True):
            item["above_noise"] = step.above_noise
        return {key: _plain(item) for key, item in data.items()}


def read_prices(path: str | Path) -> dict[str, Decimal]:
    """Prices from a CSV file with the columns party and price (a header line of these names, or none).

    Raises:
        InputError: The file cannot be read, a line is not a party and a price, or a party comes twice.
    """
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            lines = [row for row in csv.reader(file) if any(cell.strip() for cell in row)]
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path} is not a CSV file: {error}") from error
    if lines and [cell.strip().lower() for cell in lines[0]] == ["party", "price"]:
        lines = lines[1:]
    prices: dict[str, Decimal] = {}
    for row in lines:
        if len(row) != 2:
            raise InputError(f"{path}: expected a party and a price per line, got {len(row)} cells")
        name = row[0].strip()
        if name in prices:
            raise InputError(f"{path}: party {name!r} has two prices")
        prices[name] = money.amount(row[1], f"the price of party {name!r}")
    return prices


def select(
    result: Valuation,
    prices: Mapping[str, object],
    budget: object,
    *,
    by: str = "learnable",
    game: Game | None = None,
) -> Selection:
    """The best subset of a result's parties under a budget.

    Args:
        result: The valuation.
        prices: Price of each party; prices of others are ignored.
        budget: What may be spent.
        by: "learnable" or "shapley-cmi".
        game: The value of subsets; read from the result when None.

    Raises:
        InputError: A price is missing or wrong, or the budget is negative.
    """
    games.check_by(by)
    names = tuple(party.name for party in result.parties)
    missing = [name for name in names if name not in prices]
    if missing:
        raise InputError(f"no price for {', '.join(repr(name) for name in missing)}")
    price = [money.amount(prices[name], f"the price of party {name!r}") for name in names]
    limit = money.amount(budget, "the budget")
    game = game or games.game_of(result, by)
    noise = [games.half_width(party, by, result.n_samples) for party in result.parties]
    order = _best_order(game, price, noise)
    if len(names) <= MAX_PARTIES_EXACT:
        mask, curve = _exact(game, price, limit)
        method = "exact"
    else:
        mask, curve = _greedy(game, price, limit, order)
        method = "greedy"
    enough = max((k for k, step in enumerate(order, start=1) if step.above_noise), default=0)
    return Selection(
        budget=limit,
        parties=games.members(mask, names),
        cost=_cost(mask, price),
        value=game.value(mask),
        total=game.value(game.everybody),
        method=method,
        by=by,
        basis=game.basis,
        curve=curve,
        order=order,
        enough=enough,
    )


def _exact(game: Game, price: list[Decimal], budget: Decimal) -> tuple[int, tuple[Point, ...]]:
    """Compare all subsets: the most valuable one in the budget, then the cheapest, then the smallest."""
    table = games.dense(game)
    units, unit = _whole_numbers(price)
    cost = np.zeros(len(table), dtype=np.int64)
    for k, own in enumerate(units):
        cost[1 << k : 1 << (k + 1)] = cost[: 1 << k] + own
    size = np.bitwise_count(np.arange(len(table), dtype=np.uint64))
    ranked = np.lexsort((size, -table, cost))
    # Among equal costs the most valuable comes first, so a new maximum is a point of the curve.
    reached = np.maximum.accumulate(table[ranked])
    best = [int(ranked[0]), *ranked[1:][table[ranked[1:]] > reached[:-1] + _SAME].tolist()]
    affordable = [mask for mask in best if Decimal(int(cost[mask])) * unit <= budget]
    curve = tuple(
        Point(Decimal(int(cost[m])) * unit, float(table[m]), games.members(m, game.names)) for m in best
    )
    return affordable[-1], curve


def _whole_numbers(price: list[Decimal]) -> tuple[NDArray[np.int64], Decimal]:
    """Prices as multiples of one unit, so that costs are compared exactly."""
    digits = max((-int(p.normalize().as_tuple().exponent) for p in price), default=0)
    unit = Decimal(1).scaleb(-max(digits, 0))
    units = [int(p / unit) for p in price]
    if sum(units) > 2**62:
        raise InputError("prices have too many digits to be added exactly")
    return np.array(units, dtype=np.int64), unit


def _greedy(
    game: Game, price: list[Decimal], budget: Decimal, order: tuple[Step, ...]
) -> tuple[int, tuple[Point, ...]]:
    """Gain per price while the money lasts, or the best single party if that is worth more."""
    chosen, left = 0, budget
    while True:
        affordable = [k for k in range(len(price)) if not chosen >> k & 1 and price[k] <= left]
        k, gain = _next(game, chosen, affordable, price)
        if k is None or gain <= _SAME:
            break
        chosen |= 1 << k
        left -= price[k]
    singles = [1 << k for k in range(len(price)) if price[k] <= budget]
    best_single = max(singles, key=game.value, default=0)
    if game.value(best_single) > game.value(chosen):
        chosen = best_single
    curve = [Point(Decimal(0), game.value(0), ())]
    mask = 0
    for step in order:
        if step.gain <= _SAME:
            break
        mask |= 1 << game.names.index(step.party)
        curve.append(Point(_cost(mask, price), step.value, games.members(mask, game.names)))
    return chosen, tuple(curve)


def _best_order(game: Game, price: list[Decimal], noise: list[float | None]) -> tuple[Step, ...]:
    """Everybody, the most gain per price first."""
    steps = []
    mask = 0
    while mask != game.everybody:
        rest = [k for k in range(len(price)) if not mask >> k & 1]
        k, gain = _next(game, mask, rest, price)
        assert k is not None
        mask |= 1 << k
        steps.append(Step(game.names[k], price[k], gain, game.value(mask), noise[k]))
    return tuple(steps)


def _next(game: Game, mask: int, candidates: list[int], price: list[Decimal]) -> tuple[int | None, float]:
    """The candidate with the most gain per price; a free one that gains anything comes first."""
    here = game.value(mask)
    best: tuple[float, float, int] | None = None
    for k in candidates:
        gain = game.value(mask | 1 << k) - here
        rate = gain / float(price[k]) if price[k] > 0 else (float("inf") if gain > _SAME else 0.0)
        if best is None or (rate, gain) > (best[0] + _SAME, best[1] + _SAME) or rate > best[0] + _SAME:
            best = (rate, gain, k)
    return (None, 0.0) if best is None else (best[2], best[1])


def _cost(mask: int, price: list[Decimal]) -> Decimal:
    return sum((p for k, p in enumerate(price) if mask >> k & 1), Decimal(0))


def _plain(item: Any) -> Any:
    if isinstance(item, Decimal):
        return str(item)
    if isinstance(item, dict):
        return {key: _plain(value) for key, value in item.items()}
    if isinstance(item, tuple | list):
        return [_plain(value) for value in item]
    return item
