"""A good order of joining for many parties: the least useful one leaves first, and the order is reversed.

With more than 12 parties a result does not list every coalition. What advice needs is one chain of sets from
nobody to everybody whose values are those of the game itself, and leaving out the party that is missed least,
again and again, makes a good one: a copy of another party leaves as soon as it is not missed, and parties
that need each other stay together, which adding the best party first would miss.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping

ORDER_DIGITS = 9


def joining_order(
    n_parties: int, value: Callable[[int], float], known: Mapping[int, float]
) -> tuple[tuple[int, float], ...]:
    """Parties in the order of joining, each with the value of all parties up to it.

    A party is missed more when others have left, unless they needed it. So a loss computed earlier is taken
    for a lower bound, and only the party in front is valued again: two or three sets per party instead of
    half a square of them.

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
        """Rounded: two machines must not order parties by rounding errors."""
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
