"""Errors of learnable values that come from having these rows and no more.

A value is a mean over rows of what each row contributes, so its variance is that of the contributions over
n. This leaves out that evidence and weights were fitted on the same rows; a factor and a floor make up for
it. Both were set by redrawing populations (docs/decisions/0602-pooled-evidence.md): 95% intervals hold the
mean over redraws in 95% of the cases, and on the demonstration the population's value in 96-97%.

The interval is that of the value of *as many rows as there are*. What unlimited rows could teach is more,
by a learning cost of the order of 1/n per code and label, which matters below about 1,000 rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from fedvalue.typing import Floats

CALIBRATION = 1.15
"""Standard errors from row-wise contributions are too small by about this factor."""

FLOOR = 1.0
"""Standard error, times rows, that every value has: the luck of a useless column."""


def row_covariance(contributions: Floats, count: Floats) -> Floats:
    """Covariance of the means of row-wise contributions, shape (p, p)."""
    n = float(count.sum())
    centred = contributions - (contributions @ count / n)[:, None]
    return np.asarray((centred * count) @ centred.T / (n * max(n - 1.0, 1.0)))


def calibrated(variance: Floats, n_samples: int) -> Floats:
    """Standard errors from variances of row-wise contributions."""
    return np.sqrt(CALIBRATION**2 * variance + (FLOOR / n_samples) ** 2)
