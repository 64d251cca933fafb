"""Cross-checks on plain tables: bootstrap intervals and a permutation test.

Both repeat a valuation on changed tables, so they are slow and optional; the data errors of `influence`
say the same in one walk. They need the counts themselves and are not offered by a federated run.
The repeats are independent and go through a `concurrent.futures.Executor` when one is given.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from fedvalue.errors import InputError
from fedvalue.information.contingency import JointCounts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fedvalue.typing import Floats

Statistic = Callable[[JointCounts], "Floats"]
"""Numbers per party from a joint table; a module-level function, so that it reaches other processes."""

_CHUNK = 25  # repeats per task: few enough to spread, enough to hide the cost of sending the table


@dataclass(frozen=True, slots=True)
class Bootstrap:
    """Spread of a statistic over tables drawn again from the table.

    Args:
        se: Standard deviation per party.
        low: Lower end of the basic bootstrap interval per party.
        high: Upper end.
        level: Coverage that the interval aims at.
        n_repeats: Number of tables drawn.
    """

    se: Floats = field(repr=False)
    low: Floats = field(repr=False)
    high: Floats = field(repr=False)
    level: float
    n_repeats: int


def shapley_cmi(counts: JointCounts) -> Floats:
    """Exact Shapley-CMI per party, the statistic to repeat by default."""
    from fedvalue.valuation.items import item_table
    from tests.support.joint_tables import exact_values

    return exact_values(item_table(counts)).values


def bootstrap(
    counts: JointCounts,
    *,
    statistic: Statistic = shapley_cmi,
    n_repeats: int = 200,
    level: float = 0.95,
    seed: int = 0,
    executor: Executor | None = None,
) -> Bootstrap:
    """Draw n samples again with replacement, `n_repeats` times, and look at the spread.

    The interval is the basic one, 2 estimate - quantile: a resampled table has fewer distinct rows, so the
    plug-in estimate is shifted once more, by about the shift that the estimate already has; the
    basic interval takes that shift out, where a percentile interval would double it.

    Raises:
        InputError: Fewer than 2 repeats, or a level outside (0, 1).
    """
    if n_repeats < 2:
        raise InputError(f"n_repeats must be at least 2, got {n_repeats}")
    if not 0 < level < 1:
        raise InputError(f"level must be between 0 and 1, got {level}")
    estimate = statistic(counts)
    draws = _repeat(_resampled, counts, statistic, n_repeats, seed, executor)
    low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return Bootstrap(draws.std(axis=0, ddof=1), 2 * estimate - high, 2 * estimate - low, level, n_repeats)


def permutation_test(
    counts: JointCounts,
    party: str,
    *,
    statistic: Statistic = shapley_cmi,
    n_repeats: int = 199,
    seed: int = 0,
    executor: Executor | None = None,
) -> float:
    """p-value of "this party tells nothing beyond X_t": how often shuffled codes do as well.

    The party's codes are shuffled among the samples with the same X_t, which keeps its cardinality and its
    relation to X_t and breaks every other tie. With r shuffles the smallest p-value is 1/(r + 1).

    Raises:
        InputError: An unknown party, or no repeats.
    """
    if party not in counts.names:
        raise InputError(f"no party {party!r}; the parties are {', '.join(counts.names)}")
    if n_repeats < 1:
        raise InputError(f"n_repeats must be at least 1, got {n_repeats}")
    k = counts.names.index(party)
    observed = float(statistic(counts)[k])
    draws = _repeat(_Shuffled(k), counts, statistic, n_repeats, seed, executor)[:, k]
    # Ties count against the party; rounding must not decide one.
    return float((1 + np.count_nonzero(draws >= observed - 1e-12)) / (1 + n_repeats))


def _repeat(
    change: Callable[[JointCounts, np.random.Generator], JointCounts],
    counts: JointCounts,
    statistic: Statistic,
    n_repeats: int,
    seed: int,
    executor: Executor | None,
) -> Floats:
    """The statistic of changed tables, shape (n_repeats, n_parties), the same for any executor."""
    ranges = [range(a, min(a + _CHUNK, n_repeats)) for a in range(0, n_repeats, _CHUNK)]
    if executor is None:
        parts = [_chunk(change, counts, statistic, seed, chunk) for chunk in ranges]
    else:
        waiting = [executor.submit(_chunk, change, counts, statistic, seed, chunk) for chunk in ranges]
        parts = [future.result() for future in waiting]
    return np.concatenate(parts)


def _chunk(
    change: Callable[[JointCounts, np.random.Generator], JointCounts],
    counts: JointCounts,
    statistic: Statistic,
    seed: int,
    repeats: range,
) -> Floats:
    return np.array([statistic(change(counts, np.random.default_rng([seed, r]))) for r in repeats])


def _resampled(counts: JointCounts, rng: np.random.Generator) -> JointCounts:
    drawn = rng.multinomial(counts.n_samples, counts.count / counts.n_samples).astype(np.int64)
    kept = drawn > 0
    return replace(
        counts,
        task=counts.task[kept],
        parties=counts.parties[kept],
        label=counts.label[kept],
        count=drawn[kept],
    )


@dataclass(frozen=True, slots=True)
class _Shuffled:
    """Shuffles the codes of party k inside each X_t; a class, because closures do not reach processes."""

    k: int

    def __call__(self, counts: JointCounts, rng: np.random.Generator) -> JointCounts:
        row: NDArray[np.int64] = np.repeat(np.arange(counts.n_items), counts.count)
        parties = counts.parties[row]
        task = counts.task[row]
        order = np.argsort(task, kind="stable")
        # Sorting by (X_t, random) shuffles inside each X_t.
        shuffled = np.lexsort((rng.random(len(row)), task))
        parties[order, self.k] = parties[shuffled, self.k]
        columns = {name: parties[:, j] for j, name in enumerate(counts.names)}
        return JointCounts.from_columns(
            label=counts.label[row], task=task, parties=columns, n_codes=counts.n_codes
        )
