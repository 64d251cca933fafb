"""What the parties' data is worth in a buyer's language: fewer errors, a better ranking, a lower loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fedvalue.valuation.evidence.predictions import calibrated, standard_error

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fedvalue.typing import Floats
    from fedvalue.valuation.evidence.predictions import Predictions


@dataclass(frozen=True, slots=True)
class Measure:
    """A metric of one coalition, and how far it is from that of nobody.

    Args:
        value: The metric.
        se: Its standard error.
        gain: Value minus that of the task party alone.
        se_gain: Standard error of the gain, from paired rows.
    """

    value: float
    se: float
    gain: float
    se_gain: float


@dataclass(frozen=True, slots=True)
class CoalitionUplift:
    """How well the task party predicts together with a coalition, on rows left out.

    Args:
        parties: The coalition; empty for the task party alone.
        log_loss: In nats per row; lower is better.
        auc: Area under the curve; with more than two labels the mean of each label against the rest.
        ks: Kolmogorov-Smirnov distance; None with more than two labels.
        accuracy: Part of unseen rows whose likeliest label is right.
        errors_avoided: Wrong predictions fewer than the task party alone makes, per 1,000 unseen rows.
        se_errors_avoided: Its standard error.
    """

    parties: tuple[str, ...]
    log_loss: Measure
    auc: Measure
    ks: Measure | None
    accuracy: Measure
    errors_avoided: float
    se_errors_avoided: float


@dataclass(frozen=True, slots=True)
class Uplift:
    """Uplift of the coalitions that a buyer asks about.

    Args:
        nobody: The task party alone.
        alone: With each party, in their order.
        everybody: With all parties.
        without: With all parties but one, in their order.
        sets: With the other sets of parties that were scored, by bit mask.
    """

    nobody: CoalitionUplift
    alone: tuple[CoalitionUplift, ...]
    everybody: CoalitionUplift
    without: tuple[CoalitionUplift, ...]
    sets: tuple[CoalitionUplift, ...] = ()


def uplift_of(
    parties: tuple[str, ...], scores: Mapping[int, Predictions], count: Floats, n_columns: Floats
) -> Uplift:
    """Uplift from the scores of nobody, everybody, each party alone, all but one, and perhaps others.

    Args:
        parties: Names.
        scores: By bit mask.
        count: Samples per item.
        n_columns: Columns with evidence that each party holds.
    """
    everybody = (1 << len(parties)) - 1
    nobody = scores[0]

    def one(mask: int) -> CoalitionUplift:
        mine = scores[mask]
        errors = standard_error(mine.influence, count)
        paired = standard_error(mine.influence - nobody.influence, count)
        # As those of values: evidence was fitted on the same rows, and no party's gain is known for certain.
        n_samples, held = int(count.sum()), sum(n for k, n in enumerate(n_columns) if mask >> k & 1)
        errors = calibrated(errors**2, n_samples, held)
        paired = calibrated(paired**2, n_samples, held) if mask else np.zeros_like(paired)
        gains = mine.metrics - nobody.metrics
        loss, auc, ks, accuracy = (
            None if np.isnan(value) else Measure(float(value), float(se), float(gain), float(se_gain))
            for value, se, gain, se_gain in zip(mine.metrics, errors, gains, paired, strict=True)
        )
        assert loss is not None
        assert accuracy is not None
        return CoalitionUplift(
            parties=tuple(name for k, name in enumerate(parties) if mask >> k & 1),
            log_loss=loss,
            auc=auc or Measure(0.5, 0.0, 0.0, 0.0),
            ks=ks,
            accuracy=accuracy,
            errors_avoided=1000.0 * accuracy.gain,
            se_errors_avoided=1000.0 * accuracy.se_gain,
        )

    alone = tuple(one(1 << k) for k in range(len(parties)))
    without = tuple(one(everybody ^ 1 << k) for k in range(len(parties)))
    sizes = (0, 1, len(parties) - 1, len(parties))
    sets = tuple(one(mask) for mask in sorted(scores) if mask.bit_count() not in sizes)
    return Uplift(one(0), alone, one(everybody), without, sets)
