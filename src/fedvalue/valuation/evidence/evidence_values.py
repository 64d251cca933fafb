"""Learnable values by pooled evidence: Shapley values, interactions and errors of the game over parties.

Exact over all coalitions where that is affordable. The decision is a function of sizes alone, not of the
clock, so that every holder of the same rows takes the same one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from fedvalue import engines
from fedvalue.errors import InputError
from fedvalue.valuation.evidence import ESTIMATOR, ESTIMATOR_VERSION
from fedvalue.valuation.evidence.evidence_game import EvidenceGame, FitTask, fit_coalitions
from fedvalue.valuation.evidence.pair_search import VISITS, PairSearch
from fedvalue.valuation.evidence.shapley_indices import interactions_of, shapley_coefficients

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Executor

    from fedvalue.typing import Floats, Progress
    from fedvalue.valuation.evidence.feature_table import FeatureTable

    JointGame = Callable[[int], float]
    """Value of a coalition (a bit mask) in another game over the same parties."""

CALIBRATION = 1.5
"""Standard errors from row-wise contributions are this much too small (docs/statistics.md has the
coverage).
"""

MAX_PARTIES_LISTED = 12
"""Up to here a result carries the value of every coalition."""

COMPILE_ABOVE = 2.0e9
"""Multiplications from which compiled passes pay for their compilation: about two seconds of NumPy."""

TASKS = 32
"""Units of work of an exact game. Fixed, so that sums do not depend on the number of workers."""


@dataclass(frozen=True, slots=True)
class EvidenceSettings:
    """How a game of pooled evidence is computed.

    Args:
        pair_visits: Items times pairs of columns that the search for pairs may visit.
    """

    pair_visits: int = VISITS


@dataclass(frozen=True, slots=True, eq=False)
class EvidenceValues:
    """Learnable values of all parties, in nats per row.

    Args:
        parties: Names, in the order of all arrays.
        values: Shapley value of each party.
        total: v(all); the values sum to it.
        se: Standard error of each value that comes from having these rows and no more, calibrated.
        covariance: Raw covariance of the values from row-wise contributions, shape (p, p); `se` is
            CALIBRATION times the root of its diagonal.
        se_sampling: Standard error of each value from sampled orders; zeros when exact.
        interactions: Shapley interaction index of each pair, shape (p, p).
        method: "exact" or "sampled".
        coalition_values: v by bit mask (party k is bit k), up to 12 parties and when exact; None otherwise.
        pair_search: What the search for pairs of columns found and left out.
        n_samples: Number of samples.
        estimator: Name of the estimator.
        version: Its version.
    """

    parties: tuple[str, ...]
    values: Floats
    total: float
    se: Floats
    covariance: Floats = field(repr=False)
    se_sampling: Floats = field(repr=False)
    interactions: Floats = field(repr=False)
    method: str
    coalition_values: Floats | None = field(repr=False)
    pair_search: PairSearch
    n_samples: int
    estimator: str = ESTIMATOR
    version: str = ESTIMATOR_VERSION

    def coalition(self, *names: str) -> float:
        """Value of the named parties together.

        Raises:
            InputError: A name that is no party, or coalitions that were not listed.
        """
        unknown = [name for name in names if name not in self.parties]
        if unknown:
            raise InputError(f"no party {unknown[0]!r}; the parties are {', '.join(self.parties)}")
        if self.coalition_values is None:
            raise InputError(f"coalition values are listed for at most {MAX_PARTIES_LISTED} parties")
        return float(self.coalition_values[sum(1 << self.parties.index(name) for name in set(names))])


def evidence_values(
    table: FeatureTable,
    settings: EvidenceSettings | None = None,
    *,
    joint_game: JointGame | None = None,
    executor: Executor | None = None,
    progress: Progress | None = None,
) -> EvidenceValues:
    """Learnable values of all parties by pooled evidence.

    Args:
        table: The rows.
        settings: How to compute; the defaults when None.
        joint_game: Another game over the same parties that sees synergy of three or more columns; each
            coalition counts with the larger of the two values.
        executor: Where the work runs; threads of this machine when None.
        progress: Called with progress updates.
    """
    settings = settings or EvidenceSettings()
    game = EvidenceGame.of(table, pair_visits=settings.pair_visits)
    return _exact(game, joint_game, executor, progress)


def larger_game(pooled: Floats, joint: Floats) -> Floats:
    """The larger value of each coalition.

    Where `joint` is monotone and zero for nobody, the result is at least zero and at least `joint`; it is
    monotone wherever `joint` is the larger one.
    """
    return np.maximum(pooled, joint)


def _exact(
    game: EvidenceGame, joint_game: JointGame | None, executor: Executor | None, progress: Progress | None
) -> EvidenceValues:
    p, n = game.n_parties, game.n_samples
    number: dict[tuple[int, ...], int] = {}
    # Gray code: neighbours differ by one party, so each fit starts close to its answer.
    walk = [mask ^ mask >> 1 for mask in range(1 << p)]
    key_of = np.zeros(1 << p, dtype=np.int64)
    for mask in walk:
        key_of[mask] = number.setdefault(game.evidences_of(mask), len(number))
    coefficients = np.zeros((len(number), p))
    np.add.at(coefficients, key_of, shapley_coefficients(p))
    keys = tuple(number)
    work = float(sum(len(key) ** 2 + 8 * len(key) for key in keys)) * 7 * game.arrays.n_items
    work *= max(1, game.n_labels - 1)
    size = -(-len(keys) // TASKS)
    tasks = [
        FitTask(keys[at : at + size], coefficients[at : at + size], work > COMPILE_ABOVE)
        for at in range(0, len(keys), size)
    ]
    sums: list[Floats] = []
    rows = np.zeros((p, game.arrays.n_items))
    with engines.using(executor) as pool:
        arrays = engines.share(pool, game.arrays)
        for part, contributions in engines.map_in_order(
            pool, fit_coalitions, ((arrays, n, task) for task in tasks)
        ):
            sums.append(part)
            rows += contributions
            if progress is not None:
                progress(float(sum(map(len, sums))), float(len(keys)), "learnable values")
    likelihood = np.concatenate(sums)[key_of] / n
    values = likelihood - likelihood[0]
    if joint_game is not None:
        values = larger_game(values, np.array([joint_game(mask) for mask in range(1 << p)]))
    covariance = _row_covariance(rows, game.arrays.count)
    return EvidenceValues(
        parties=game.parties,
        values=values @ shapley_coefficients(p),
        total=float(values[-1]),
        se=CALIBRATION * np.sqrt(np.diag(covariance)),
        covariance=covariance,
        se_sampling=np.zeros(p),
        interactions=interactions_of(values),
        method="exact",
        coalition_values=values if p <= MAX_PARTIES_LISTED else None,
        pair_search=game.pair_search,
        n_samples=n,
    )


def _row_covariance(rows: Floats, count: Floats) -> Floats:
    """Covariance of the means of row-wise contributions, shape (p, p)."""
    n = float(count.sum())
    centred = rows - (rows @ count / n)[:, None]
    return np.asarray((centred * count) @ centred.T / (n * max(n - 1.0, 1.0)))
