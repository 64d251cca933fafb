"""Whether a party's value changed when rows were added.

Two effects move a Shapley-CMI although nothing changed.

- Noise: the later valuation contains the earlier one's rows. For a mean over n' samples, of which the
  first n gave the earlier mean, the variance of the difference is s² (1/n - 1/n'), with s² = n' · se²
  from the later valuation.
- Drift: the plug-in estimate is too high on few samples, more so with more codes, and falls as rows are
  added. It is measured: n rows drawn from all n' rows without replacement, several times, stand for
  the earlier rows under no change; their mean value is the expected earlier one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from fedvalue.valuation.result import Z95

if TYPE_CHECKING:
    from fedvalue.information.contingency import JointCounts
    from fedvalue.typing import Floats
    from fedvalue.valuation.result import PartyValue, Valuation

N_DRAWS = 16
"""Draws for the drift. Their own error is a quarter of the difference's, which widens it by 3%."""

_FEW_PARTIES = 8
_PERMUTATIONS = 256
# NumPy draws without replacement from fewer rows than this; beyond, with replacement is as good.
_DRAWABLE = 10**9


@dataclass(frozen=True, slots=True)
class Change:
    """One party's value before and after.

    Args:
        name: The party.
        before: Its earlier value.
        after: Its later value.
        expected: What the earlier value would be, on average, had nothing changed.
        error: Standard error of `before - expected`; None where an error of the data is not known.
    """

    name: str
    before: float
    after: float
    expected: float
    error: float | None

    @property
    def beyond_error(self) -> bool | None:
        """Whether the change is more than noise and drift explain, at 95%; None if unknown."""
        if self.error is None:
            return None
        return abs(self.before - self.expected) > Z95 * self.error

    def to_dict(self) -> dict[str, Any]:
        """The change as JSON-ready data; what is not known has no key."""
        found: dict[str, Any] = {
            "name": self.name, "before": self.before, "after": self.after, "expected": self.expected,
        }  # fmt: skip
        if self.error is not None:
            found |= {"error": self.error, "beyond_error": self.beyond_error}
        return found


def changes(before: Valuation, after: Valuation, drift: Mapping[str, float]) -> tuple[Change, ...]:
    """How each party's value moved in a later valuation on more rows, given its drift (`drift_of`)."""
    earlier = {party.name: party for party in before.parties}
    return tuple(
        Change(
            name=party.name,
            before=before.values[party.name],
            after=after.values[party.name],
            expected=after.values[party.name] + drift.get(party.name, 0.0),
            error=_error(earlier[party.name], party, before.n_samples, after.n_samples),
        )
        for party in after.parties
        if party.name in earlier
    )


def drift_of(counts: JointCounts, n_before: int) -> dict[str, float]:
    """By how much each value is higher, on average, on `n_before` of the rows than on all.

    Exact for few parties; for more, by the same few permutations on both sides, whose noise cancels
    in the difference.
    """
    if n_before >= counts.n_samples:
        return dict.fromkeys(counts.names, 0.0)
    rng = np.random.default_rng(0)
    whole = _values(counts)
    draws = [_values(_drawn(counts, n_before, rng)) - whole for _ in range(N_DRAWS)]
    return dict(zip(counts.names, np.mean(draws, axis=0).tolist(), strict=True))


def _values(counts: JointCounts) -> Floats:
    from fedvalue.valuation.engine import value_counts
    from fedvalue.valuation.settings import ValuationSettings

    settings = ValuationSettings(
        method="exact" if counts.n_parties <= _FEW_PARTIES else "sampled",
        n_permutations=_PERMUTATIONS,
        statistics=False,
    )
    result = value_counts(counts, settings)
    return np.array([party.value for party in result.parties])


def _drawn(counts: JointCounts, n: int, rng: np.random.Generator) -> JointCounts:
    """`n` of the counted samples, drawn without replacement."""
    if counts.n_samples < _DRAWABLE:
        drawn = rng.multivariate_hypergeometric(counts.count, n, method="marginals")
    else:
        drawn = rng.multinomial(n, counts.count / counts.n_samples)
    kept = drawn > 0
    return replace(
        counts,
        task=counts.task[kept],
        parties=counts.parties[kept],
        label=counts.label[kept],
        count=drawn[kept],
    )


def _error(before: PartyValue, after: PartyValue, n_before: int, n_after: int) -> float | None:
    if after.se_data is None:
        return None
    spread = n_after * after.se_data**2
    noise = spread * max(1 / n_before - 1 / n_after, 0.0)
    sampling = (before.se_sampling or 0.0) ** 2 + (after.se_sampling or 0.0) ** 2
    return sqrt(noise * (1 + 1 / N_DRAWS) + sampling)
