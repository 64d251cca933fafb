"""The two checks of rows that servers make together, before anything is opened.

- *One-hot*: every entry is 0 or 1, and every feature has one 1 per row. Otherwise a person could count more
  than once, beyond what the noise covers.
- *Check columns*: U = Z rho for the weights rho that were revealed. Otherwise a party could read a row from
  the difference.

A value that two servers hold must be the same from both; products across components are masked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from fedvalue.errors import VerificationError
from fedvalue.protocol.gram.components import held_by
from fedvalue.protocol.gram.gram_layout import N_CHECKS, GramLayout
from fedvalue.protocol.gram.prime_field import (
    Elements,
    expanded,
    from_bytes,
    minus,
    plus,
    products,
    reduced,
    times,
)
from fedvalue.protocol.gram.row_sums import N_TRIALS, Totals

if TYPE_CHECKING:
    from fedvalue.protocol.messages import GramCheck, GramTest


def row_check(layout: GramLayout, coin: bytes, totals: Totals, held: tuple[int, int]) -> Elements:
    """Row sums minus 1, per held component, trial and party; they add up to 0 over all components."""
    of_feature = expanded(coin, "gram-features", (N_TRIALS, len(layout.sizes)))
    sums = np.zeros((2, N_TRIALS, len(layout.everybody)), dtype=np.uint64)
    for p, party in enumerate(layout.everybody):
        for f in layout.features_of(party):
            for place, component in enumerate(held):
                total = reduced(totals.weighted[place][:, layout.columns(f)].sum(axis=1))
                if component == 0:
                    total = minus(total, totals.weights)
                sums[place, :, p] = plus(sums[place, :, p], times(of_feature[:, f], total))
    return sums


def entry_check(layout: GramLayout, coin: bytes, totals: Totals) -> Elements:
    """Our term of x² - x over all entries, per trial and party; the three servers' add up to 0."""
    of_column = expanded(coin, "gram-columns", (N_TRIALS, layout.width))
    entries = np.zeros((N_TRIALS, len(layout.everybody)), dtype=np.uint64)
    for p, party in enumerate(layout.everybody):
        own = layout.columns_of(party)
        excess = minus(totals.entries[:, own], totals.weighted[0][:, own])
        entries[:, p] = reduced(times(of_column[:, own], excess).sum(axis=1))
    return entries


def verify_one_hot(layout: GramLayout, checks: Mapping[str, GramCheck], servers: tuple[str, ...]) -> None:
    """All servers' row and entry checks.

    Raises:
        VerificationError: A row is not one-hot (E_ONE_HOT), or a server is wrong (E_SUMS).
    """
    shape = (N_TRIALS, len(layout.everybody))
    sums = agreed(shape, {server: checks[server].sums for server in servers})
    entries = np.zeros(shape, dtype=np.uint64)
    for server in servers:
        entries = plus(entries, from_bytes(checks[server].entries, shape, who=server))
    for p, party in enumerate(layout.everybody):
        if sums[:, p].any() or entries[:, p].any():
            raise VerificationError(
                f"a row of {party!r} does not have exactly one code per feature, or a server miscounts",
                code="E_ONE_HOT",
            )


def column_test(layout: GramLayout, totals: Totals, rho: Mapping[str, bytes]) -> tuple[Elements, Elements]:
    """Weighted sums of U - Z rho per held component, trial, check column and party; and all parties' rho."""
    values = np.zeros((2, N_TRIALS, N_CHECKS, len(layout.everybody)), dtype=np.uint64)
    revealed = []
    for p, party in enumerate(layout.everybody):
        own = layout.columns_of(party)
        weights = from_bytes(rho[party], (N_CHECKS, layout.width_of(party)), who=party)
        revealed.append(weights)
        checks = slice(layout.width + N_CHECKS * p, layout.width + N_CHECKS * (p + 1))
        for place, weighted in enumerate(totals.weighted):
            due = products(np.ascontiguousarray(weighted[:, own].T), np.ascontiguousarray(weights.T))
            values[place, :, :, p] = minus(weighted[:, checks], due)
    return values, np.concatenate(revealed, axis=1)


def verify_columns(layout: GramLayout, tests: Mapping[str, GramTest], servers: tuple[str, ...]) -> None:
    """All servers' tests of check columns.

    Raises:
        VerificationError: A check column is not what its weights say, or other weights were revealed than
            shared (E_CHECK_COLUMN); or a server is wrong (E_SUMS).
    """
    if len({test.weights for test in tests.values()}) > 1:
        raise VerificationError("a party revealed other check weights than it shared", code="E_CHECK_COLUMN")
    shape = (N_TRIALS, N_CHECKS, len(layout.everybody))
    values = agreed(shape, {server: tests[server].values for server in servers})
    for p, party in enumerate(layout.everybody):
        if values[:, :, p].any():
            raise VerificationError(
                f"a check column of {party!r} is not what its weights say", code="E_CHECK_COLUMN"
            )


def agreed(shape: tuple[int, ...], values: Mapping[str, bytes]) -> Elements:
    """The sum over all components of values that every holder sent, by server in their order.

    Raises:
        VerificationError: The two holders of a component sent different ones (E_SUMS).
    """
    by_component: dict[int, Elements] = {}
    for number, (server, data) in enumerate(values.items()):
        held = from_bytes(data, (2, *shape), who=server)
        for component, value in zip(held_by(number), held, strict=True):
            if component in by_component and not np.array_equal(by_component[component], value):
                raise VerificationError(
                    "two servers differ about what both hold: one is wrong", code="E_SUMS"
                )
            by_component[component] = value
    return reduced(sum(by_component.values(), np.zeros(shape, dtype=np.uint64)))
