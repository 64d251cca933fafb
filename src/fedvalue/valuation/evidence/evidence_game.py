"""The learnable game: the gain of each coalition's pooled evidence over the task party alone.

    v(S) = mean_i [ln p_S(y_i | i) - ln p_nobody(y_i | i)], in nats per row.

- Coalitions with the same evidences have the same value, to the bit: a party without evidence adds exactly
  nothing.
- v is 0 for nobody. It is not forced to be monotone: useless columns cost a little (of the order of 1/n), and
  cutting that off at zero would pay noise.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from fedvalue.engines import HERE, Execution
from fedvalue.valuation.evidence.canonical_table import CanonicalTable, canonical_table
from fedvalue.valuation.evidence.evidence_pool import (
    PRIOR_WEIGHT,
    EvidenceArrays,
    PoolFit,
    fit_pool,
)
from fedvalue.valuation.evidence.label_evidence import LabelEvidence, base_log_odds, column_evidence
from fedvalue.valuation.evidence.pair_search import VISITS, PairSearch, search_pairs
from fedvalue.valuation.evidence.row_scores import fitted_log_odds
from fedvalue.valuation.evidence.synergy import (
    MAX_SYNERGIES,
    synergistic_coalitions,
    synergy_evidence,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from fedvalue.typing import Floats
    from fedvalue.valuation.evidence.feature_table import FeatureTable
    from fedvalue.valuation.statistics.joint_table_game import JointTableGame

MAX_ITEMS = 1_000_000
"""Distinct rows that the pools of coalitions see: a standard error of some 0.0005 nats, in bounded memory."""

COMPILE_ABOVE = 0.3
"""Predicted seconds of plain NumPy from which fits are compiled, which takes several seconds once."""


@dataclass(frozen=True, eq=False)
class EvidenceGame:
    """The evidences of a table, and which of them a coalition has.

    Args:
        parties: Names of the data parties.
        arrays: The evidences and the rows.
        holders: Per evidence and needed column the parties that hold it, as bit masks; -1 where the task
            party does.
        pair_search: Record of the search for pairs.
        synergies: Coalitions whose joint codes are evidence too, as bit masks.
        n_samples: Number of samples in the pools.
        n_labels: Number of labels.
        n_rows: Number of all samples, where pools see only some of them.
    """

    parties: tuple[str, ...]
    arrays: EvidenceArrays = field(repr=False)
    holders: tuple[tuple[int, ...], ...] = field(repr=False)
    pair_search: PairSearch
    synergies: tuple[int, ...]
    n_samples: int
    n_labels: int
    n_rows: int | None = None

    @classmethod
    def of(
        cls,
        table: FeatureTable,
        *,
        joint_game: JointTableGame | None = None,
        pair_visits: int = VISITS,
        max_items: int = MAX_ITEMS,
        execution: Execution = HERE,
    ) -> EvidenceGame:
        """Read all evidence from a table.

        Args:
            table: The rows.
            joint_game: The joint-table game of the same parties, which shows synergy of three or more
                columns.
            pair_visits: Items times pairs that the search for pairs may visit.
            max_items: Distinct rows that pools see at most. Evidence is of all rows in any case.
            execution: Where the work runs, who watches it, and who may stop it.
        """
        canonical = canonical_table(table).pooled_on(max_items)
        base = base_log_odds(canonical)
        columns = [column_evidence(canonical, k, base) for k in range(canonical.n_columns)]
        pairs, record = search_pairs(canonical, columns, base, visits=pair_visits, execution=execution)
        evidences = [evidence for evidence in columns if evidence is not None] + pairs
        pooled = canonical.pooled_items()
        game = cls(
            parties=table.parties,
            arrays=EvidenceArrays.stack(
                evidences, base, base_log_odds(canonical, left_out=0.0), pooled.label, pooled.count
            ),
            holders=tuple(_holders(canonical, evidence) for evidence in evidences),
            pair_search=record,
            synergies=(),
            n_samples=pooled.n_samples,
            n_labels=canonical.n_labels,
            n_rows=canonical.n_samples if canonical.n_pooled < canonical.n_items else None,
        )
        return game if joint_game is None else _with_synergies(game, pooled, evidences, joint_game)

    @property
    def n_parties(self) -> int:
        """Number of data parties."""
        return len(self.parties)

    @property
    def corners(self) -> tuple[int, ...]:
        """Bit masks of nobody, everybody, each party alone, and all but one; each once."""
        everybody = (1 << self.n_parties) - 1
        alone = [1 << k for k in range(self.n_parties)]
        return tuple(dict.fromkeys([0, everybody, *alone, *(everybody ^ one for one in alone)]))

    @property
    def n_columns(self) -> Floats:
        """Columns with evidence that each party holds, shape (n_parties,)."""
        held = [own[0] for own in self.holders if len(own) == 1 and own[0] >= 0]
        return np.array(
            [sum(mask >> k & 1 for mask in held) for k in range(self.n_parties)], dtype=np.float64
        )

    def names_of(self, coalitions: tuple[int, ...]) -> tuple[tuple[str, ...], ...]:
        """The members of coalitions by name."""
        return tuple(
            tuple(name for k, name in enumerate(self.parties) if mask >> k & 1) for mask in coalitions
        )

    def evidences_of(self, coalition: int) -> tuple[int, ...]:
        """The evidences that a coalition (a bit mask) has, the task party's included."""
        return tuple(np.flatnonzero(self.keys_of(self.inside([coalition]))[0]).tolist())

    def keys_of(self, inside: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which evidences coalitions have, shape (n_coalitions, n_evidences).

        Args:
            inside: Whether each party is in each coalition, shape (n_coalitions, n_parties).
        """
        owners, needed = self._requirements
        held = np.ones((len(inside), len(owners) + 1), dtype=bool)
        held[:, :-1] = inside @ owners.T
        return np.asarray(held[:, needed].all(axis=2))

    @cached_property
    def _requirements(self) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
        """The distinct sets of holders, shape (n_sets, n_parties), and the numbers of those evidence needs.

        The number after the last pads them: every coalition has that set.
        """
        masks = sorted({mask for needed in self.holders for mask in needed if mask >= 0})
        owners = np.array([[mask >> k & 1 for k in range(self.n_parties)] for mask in masks], dtype=bool)
        number = {mask: k for k, mask in enumerate(masks)}
        most = max([1, *map(len, self.holders)])
        needed = np.full((len(self.holders), most), len(masks), dtype=np.int64)
        for row, own in zip(needed, self.holders, strict=True):
            row[: len(own)] = [number.get(mask, len(masks)) for mask in own]
        return owners.reshape(len(masks), self.n_parties), needed

    def inside(self, coalitions: Sequence[int]) -> NDArray[np.bool_]:
        """Whether each party is in each of some coalitions (bit masks), shape (n_coalitions, n_parties)."""
        return np.array([[mask >> k & 1 for k in range(self.n_parties)] for mask in coalitions], dtype=bool)

    def every_inside(self) -> NDArray[np.bool_]:
        """Whether each party is in each coalition, by bit mask."""
        masks = np.arange(1 << self.n_parties)
        return np.asarray((masks[:, None] >> np.arange(self.n_parties) & 1) == 1)

    def work(self, n_evidences: NDArray[np.int64]) -> Floats:
        """Predicted cost of fitting pools of these sizes, in units of about 0.1 ns on one core."""
        return self._row_work(n_evidences) + 1e6

    def compiles(self, n_evidences: NDArray[np.int64], repeats: int = 1) -> bool:
        """Whether compiled fits pay for themselves, by the sizes of the pools alone."""
        seconds = np.sum(1.2e-3 + 4e-10 * self._row_work(n_evidences))
        return bool(repeats * seconds > COMPILE_ABOVE)

    def _row_work(self, n_evidences: NDArray[np.int64]) -> Floats:
        k = n_evidences.astype(np.float64)
        rows = float(self.arrays.n_items) * max(1, self.n_labels - 1)
        return np.asarray(7.5 * rows * (k**2 + 10.0 * k + 60.0))


def fit_evidences(game: EvidenceGame, chosen: tuple[int, ...], start: Floats, *, compiled: bool) -> PoolFit:
    """Fit the pool of some evidences.

    Args:
        game: Evidences and rows.
        chosen: Which evidences.
        start: First guess of the weight of every evidence of the game; those chosen get their fitted weights.
        compiled: Whether to use the compiled passes.
    """
    places = np.array(chosen, dtype=np.int64)
    fit = fit_pool(game.arrays, places, start[places], n_samples=game.n_samples, compiled=compiled)
    start[places] = fit.weights
    return fit


def _holders(table: CanonicalTable, evidence: LabelEvidence) -> tuple[int, ...]:
    return tuple(-1 if table.at_task[k] else table.holders[k] for k in evidence.columns)


def _with_synergies(
    game: EvidenceGame,
    table: CanonicalTable,
    evidences: list[LabelEvidence],
    joint_game: JointTableGame,
) -> EvidenceGame:
    """The game with evidence of joint codes where the joint-table game sees synergy.

    Args:
        game: Without it.
        table: The rows that pools see, from which joint codes are judged.
        evidences: Of the game.
        joint_game: Where to look.
    """
    candidates, n_judged = synergistic_coalitions(joint_game, game.n_parties)
    known = {evidence.columns for evidence in evidences}
    found, synergies = [], []
    for coalition in candidates:
        columns = tuple(
            k
            for k in range(table.n_columns)
            if table.n_codes[k] > 1 and (table.at_task[k] or table.holders[k] & coalition)
        )
        if len(columns) < 2 or columns in known:
            continue
        key = game.evidences_of(coalition)
        compiled = game.compiles(np.array([len(key)]), max(MAX_SYNERGIES, min(1 << game.n_parties, 256)))
        fit = fit_evidences(game, key, np.full(game.arrays.n_evidences, PRIOR_WEIGHT), compiled=compiled)
        weights = np.zeros(game.arrays.n_evidences)
        weights[list(key)] = fit.weights
        fitted = fitted_log_odds(game.arrays, weights)
        evidence = synergy_evidence(table, columns, fit.log_odds, fitted, n_judged)
        if evidence is not None:
            found.append(evidence)
            synergies.append(coalition)
    arrays = game.arrays
    return replace(
        game,
        arrays=EvidenceArrays.stack(
            [*evidences, *found], arrays.base, arrays.fitted_base, arrays.label, arrays.count
        ),
        holders=game.holders + tuple(_holders(table, evidence) for evidence in found),
        synergies=tuple(synergies),
    )
