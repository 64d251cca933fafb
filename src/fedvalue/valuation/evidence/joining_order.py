"""An order of joining for many parties: backward elimination, reversed.

With more than 12 parties a result does not list every coalition, but advice needs one chain of sets from
nobody to everybody with the values of the game. Leaving out the party with the smallest loss, again and
again, gives a good one: a copy of another party leaves early, and parties that need each other stay together,
which adding the best party first would miss.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping

ORDER_DIGITS = 9
"""Decimals of the losses that are compared: two machines must not order parties by rounding errors."""


def joining_order(
    n_parties: int, value: Callable[[int], float], known: Mapping[int, float]
) -> tuple[tuple[int, float], ...]:
    """Parties in the order of joining, each with the value of all parties up to it.

    The loss of a party usually grows when others have left. So a loss computed earlier is taken for a lower
    bound, and only the first party of the queue is valued again: two or three sets per party instead of a
    number quadratic in the parties.

    Args:
        n_parties: Number of parties.
        value: Value of a coalition (a bit mask).
        known: Values that need no computing.
    """
    seen = dict(known)

    def worth(mask: int) -> float:
        if mask not in seen:
            seen[mask] = value(mask)
        return seen[mask]

    def loss(everybody: int, k: int) -> float:
        return round(worth(everybody) - worth(everybody ^ 1 << k), ORDER_DIGITS)

    rest = (1 << n_parties) - 1
    chain: list[tuple[int, float]] = []
    losses = [(loss(rest, k), k) for k in range(n_parties)]
    heapq.heapify(losses)
    fresh = set(range(n_parties))
    while losses:
        _, k = heapq.heappop(losses)
        if k not in fresh:
            now = loss(rest, k)
            fresh.add(k)
            if losses and (now, k) > losses[0]:
                heapq.heappush(losses, (now, k))
                continue
        chain.append((k, worth(rest)))
        rest ^= 1 << k
        fresh.clear()
    return tuple(reversed(chain))
