"""The settings of a valuation: one frozen object, validated once and passed down whole.

- The command line, `fedvalue.value`, the file and state paths and the manifest all build `ValuationSettings`.
- Only the engine reads it.
- Ranges of numbers are in `LIMITS` and nowhere else.
"""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, Literal, get_args

import msgspec

from fedvalue.documents import Document
from fedvalue.errors import InputError
from fedvalue.tables.coding_settings import CodingSettings
from fedvalue.valuation.acceptance_test import AcceptanceTest

Method = Literal["auto", "exact", "sampled"]
Columns = Literal["features", "joint"]

METHODS: tuple[str, ...] = get_args(Method)

LIMITS: dict[str, tuple[int, int]] = {
    "n_permutations": (2, 10**9),
    "seed": (0, 2**53 - 1),
}
"""Smallest and largest value of each whole number. Seeds stay below 2^53, as JSON numbers must."""

WORK_LIMIT = 2**32
"""Items times coalitions up to which a reproducible "auto" computes exact values. At the worst rate known,
1.5e-7 s (predicted for 200,000 items of 12 parties), that is eleven minutes of one core, less than a fifth of
the default deadline of a server's computation."""


class ValuationSettings(Document, frozen=True, kw_only=True):
    """How to compute values.

    Args:
        method: "exact", "sampled", or "auto": exact when that is predicted to be affordable.
        n_permutations: Permutations of the sampled method; an upper bound when `precision` is set.
        precision: Stop sampling when the largest standard error is at most this fraction of the total.
        seed: Of the sampled permutations.
        time_limit: Seconds after which exact values give way to sampled permutations; None for no limit.
        statistics: Whether to compute standard errors, learnable values, interactions and uplift.
        coalitions: Whether to keep the values of all coalitions, where there are few enough.
        columns: "features": `learnable` sees a party's columns one by one and in pairs. "joint": it sees
            one joint code per party, as Shapley-CMI does.
        coding: How columns become codes.
        acceptance: The acceptance test, if there is one.

    Raises:
        InputError: A setting is out of range.
    """

    method: Method = "auto"
    n_permutations: int = 5000
    precision: float | None = None
    seed: int = 0
    time_limit: float | None = None
    statistics: bool = True
    coalitions: bool = True
    columns: Columns = "features"
    coding: CodingSettings = msgspec.field(default_factory=CodingSettings)
    acceptance: AcceptanceTest | None = None

    def __post_init__(self) -> None:
        _one_of("method", self.method, METHODS)
        _one_of("columns", self.columns, get_args(Columns))
        for name, (low, high) in LIMITS.items():
            msgspec.structs.force_setattr(self, name, _whole(name, getattr(self, name), low, high))
        if self.acceptance is not None and not self.statistics:
            raise InputError("an acceptance test needs statistics: without them there is no uplift to test")
        if self.precision is not None:
            _number("precision", self.precision, "a fraction of the total between 0 and 1", 0.0, 1.0)
        if self.time_limit is not None:
            _number("time_limit", self.time_limit, "a positive number of seconds", 0.0, float("inf"))
            if self.method == "sampled":
                raise InputError(
                    "time_limit bounds exact values: it cannot be used with the method 'sampled'"
                )


def _one_of(name: str, value: object, known: tuple[str, ...]) -> None:
    if value not in known:
        raise InputError(f"{name} must be one of {', '.join(known)}, got {value!r}")


def _whole(name: str, value: Any, low: int, high: int) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise InputError(f"{name} must be a whole number, got {value!r}")
    whole = int(value)  # a NumPy integer would not go into JSON
    if whole < low:
        bound = "must not be negative" if low == 0 else f"must be at least {low}"
        raise InputError(f"{name} {bound}, got {whole}")
    if whole > high:
        raise InputError(f"{name} must be at most {high}, got {whole}")
    return whole


def _number(name: str, value: Any, what: str, low: float, high: float) -> None:
    if isinstance(value, bool) or not isinstance(value, Real) or not low < float(value) < high:
        raise InputError(f"{name} must be {what}, got {value!r}")
