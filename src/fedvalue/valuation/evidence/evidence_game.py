"""The learnable game: what each coalition's pooled evidence gains over the task party alone.

v(S) = mean_i [ln p_S(y_i | i) - ln p_nobody(y_i | i)], in nats per row. Coalitions with the same
evidences have the same value, to the bit: a party without evidence adds exactly nothing.

v is 0 for nobody. It is not forced to be monotone: useless columns cost a little (of the order of 1/n), and
cutting that off at zero would pay noise.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from fedvalue.valuation.evidence.canonical_table import canonical_table
from fedvalue.valuation.evidence.evidence_pool import (
    PRIOR_WEIGHT,
    ArrayPasses,
    CompiledPasses,
    EvidenceArrays,
    Passes,
    PoolFit,
    fit_pool,
)
from fedvalue.valuation.evidence.label_evidence import base_log_odds, column_evidence
from fedvalue.valuation.evidence.pair_search import VISITS, PairSearch, search_pairs

if TYPE_CHECKING:
    from fedvalue.typing import Floats
    from fedvalue.valuation.evidence.feature_table import FeatureTable


@dataclass(frozen=True, slots=True, eq=False)
class EvidenceGame:
    """The evidences of a table, and which of them a coalition has.

    Args:
        parties: Names of the data parties.
        arrays: The evidences and the rows.
        holders: Per evidence and needed column the parties that hold it, as bit masks; -1 where the task
            party does.
        pair_search: What the search for pairs found and left out.
        n_samples: Number of samples.
        n_labels: Number of labels.
    """

    parties: tuple[str, ...]
    arrays: EvidenceArrays = field(repr=False)
    holders: tuple[tuple[int, ...], ...] = field(repr=False)
    pair_search: PairSearch
    n_samples: int
    n_labels: int

    @classmethod
    def of(cls, table: FeatureTable, *, pair_visits: int = VISITS) -> EvidenceGame:
        """Read all evidence from a table.

        Args:
            table: The rows.
            pair_visits: Items times pairs that the search for pairs may visit.
        """
        canonical = canonical_table(table)
        base = base_log_odds(canonical)
        columns = [column_evidence(canonical, k, base) for k in range(canonical.n_columns)]
        pairs, record = search_pairs(canonical, columns, base, visits=pair_visits)
        evidences = [evidence for evidence in columns if evidence is not None] + pairs
        mask_of = [
            -1 if task else mask for task, mask in zip(canonical.at_task, canonical.holders, strict=True)
        ]
        return cls(
            parties=table.parties,
            arrays=EvidenceArrays.stack(evidences, base, canonical.label, canonical.count),
            holders=tuple(tuple(mask_of[k] for k in evidence.columns) for evidence in evidences),
            pair_search=record,
            n_samples=canonical.n_samples,
            n_labels=canonical.n_labels,
        )

    @property
    def n_parties(self) -> int:
        """Number of data parties."""
        return len(self.parties)

    def evidences_of(self, coalition: int) -> tuple[int, ...]:
        """The evidences that a coalition (a bit mask) has, the task party's included."""
        return tuple(
            k for k, needed in enumerate(self.holders) if all(mask < 0 or mask & coalition for mask in needed)
        )


@dataclass(frozen=True, slots=True)
class FitTask:
    """Some coalitions whose pools one worker fits, one after the other.

    Args:
        keys: Evidences of each coalition; neighbours should differ little, since each fit starts at the last.
        coefficients: How each coalition counts in each party's contributions, shape (n_keys, n_parties).
        compiled: Whether to use the compiled passes.
    """

    keys: tuple[tuple[int, ...], ...]
    coefficients: Floats = field(repr=False)
    compiled: bool


def fit_coalitions(arrays: EvidenceArrays, n_samples: int, task: FitTask) -> tuple[Floats, Floats]:
    """Fit the pools of several coalitions; one unit of work for a worker.

    Returns:
        (sum over the samples of ln p(y_i | i) per coalition, sum over the coalitions of coefficient times
        ln p(y_i | i), shape (n_parties, n_items)).
    """
    start = np.full(arrays.n_evidences, PRIOR_WEIGHT)
    sums = np.zeros(len(task.keys))
    rows = np.zeros((task.coefficients.shape[1], arrays.n_items))
    for k, chosen in enumerate(task.keys):
        fit = fit_evidences(arrays, chosen, n_samples, start=start, compiled=task.compiled)
        start[list(chosen)] = fit.weights
        likelihood = fit.log_likelihood
        sums[k] = float(np.sum(arrays.count * likelihood))
        rows += task.coefficients[k][:, None] * likelihood
    return sums, rows


def fit_evidences(
    arrays: EvidenceArrays,
    chosen: tuple[int, ...],
    n_samples: int,
    *,
    compiled: bool,
    start: Floats | None = None,
) -> PoolFit:
    """Fit the pool of some evidences.

    Args:
        arrays: Evidences and rows.
        chosen: Which evidences.
        n_samples: Number of samples.
        compiled: Whether to use the compiled passes.
        start: First guess of the weight of every evidence of the table.
    """
    if len(chosen) == 0:
        return PoolFit(np.zeros(0), np.ascontiguousarray(arrays.base[arrays.label].T), 0)
    places = np.array(chosen, dtype=np.int64)
    passes: Passes = CompiledPasses(arrays, places) if compiled else ArrayPasses(arrays, places)
    guess = np.full(len(chosen), PRIOR_WEIGHT) if start is None else start[places]
    return fit_pool(passes, guess, n_samples)
