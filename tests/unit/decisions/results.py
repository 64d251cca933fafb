"""Results made by hand, for decisions about them."""

from __future__ import annotations

import numpy as np

from fedvalue.valuation.result import PartyValue, Valuation, interval_of
from fedvalue.valuation.shapley_indices import shapley_of


def result_of_game(
    table, *, names=None, se=0.0, coalitions=True, n_samples=10**12, learnable=True
) -> Valuation:
    """A result whose two games are both `table`, by bit mask; by default with too many rows for any error."""
    table = np.asarray(table, dtype=float)
    p = len(table).bit_length() - 1
    names = names or [f"p{k}" for k in range(p)]
    values = shapley_of(table)
    total = float(table[-1])
    parties = tuple(
        PartyValue(
            name=names[k],
            value=float(values[k]),
            share=float(values[k] / total) if total else 0.0,
            alone=float(table[1 << k]),
            last=float(table[-1] - table[-1 - (1 << k)]),
            n_codes=4,
            se_data=se,
            interval=interval_of(float(values[k]), se),
            learnable=float(values[k]) if learnable else None,
            learnable_share=float(values[k] / total) if learnable and total else None,
            learnable_interval=interval_of(float(values[k]), se) if learnable else None,
            se_learnable=0.0 if learnable else None,
        )
        for k in range(p)
    )
    both = {"value": tuple(table), "learnable": tuple(table)}
    return Valuation(
        parties=parties,
        total=total,
        label_entropy=2.0 * total + 0.1,
        n_samples=n_samples,
        method="exact",
        learnable_total=total if learnable else None,
        coalitions=both if coalitions else None,
    )


def result_of_values(values, *, se=0.0, names=None, n_samples=10**12) -> Valuation:
    """A result in which parties neither replace nor complement each other, without a table."""
    table = np.zeros(1 << len(values))
    for k, v in enumerate(values):
        table[1 << k : 1 << (k + 1)] = table[: 1 << k] + v
    return result_of_game(table, se=se, names=names, coalitions=False, n_samples=n_samples)


def random_monotone_game(rng, p):
    """A game of random gains, with some parties that add nothing to some coalitions."""
    table = np.zeros(1 << p)
    for mask in range(1, 1 << p):
        best = max(table[mask ^ (1 << k)] for k in range(p) if mask >> k & 1)
        table[mask] = best + (rng.random() if rng.random() < 0.5 else 0.0)
    return table
