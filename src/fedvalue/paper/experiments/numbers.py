"""The few statistics that the paper's figures are drawn from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from fedvalue.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


def pearson(a: ArrayLike, b: ArrayLike) -> float | None:
    """Pearson correlation; None where it is not defined (a constant side, or fewer than two values)."""
    x, y = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if x.shape != y.shape or x.ndim != 1:
        raise InputError(f"expected two lists of equal length, got shapes {x.shape} and {y.shape}")
    x, y = x - x.mean(), y - y.mean()
    scale = float(np.sqrt((x @ x) * (y @ y)))
    # Constant up to rounding is constant.
    if len(x) < 2 or scale <= 1e-300:
        return None
    return float(x @ y / scale)


def mape(estimate: ArrayLike, truth: ArrayLike) -> float:
    """Mean absolute percentage error, in percent (paper, Section 4.3).

    Raises:
        InputError: A true value is 0, for which the measure is not defined.
    """
    e, t = np.asarray(estimate, dtype=np.float64), np.asarray(truth, dtype=np.float64)
    if e.shape != t.shape:
        raise InputError(f"expected two lists of equal length, got shapes {e.shape} and {t.shape}")
    if np.any(t == 0):
        raise InputError("the percentage error of a value of 0 is not defined")
    return float(100 * np.mean(np.abs((e - t) / t)))


def mean_sd(values: Iterable[float | None]) -> tuple[float | None, float | None, int]:
    """Mean, standard deviation (of a sample; 0 of a single one) and number of the values that exist."""
    known = [value for value in values if value is not None]
    if not known:
        return None, None, 0
    spread = float(np.std(known, ddof=1)) if len(known) > 1 else 0.0
    return float(np.mean(known)), spread, len(known)


def growth_exponent(x: Sequence[float], y: Sequence[float]) -> float:
    """Slope of log y over log x: 1 is linear growth, 2 quadratic."""
    return float(np.polyfit(np.log(np.asarray(x)), np.log(np.asarray(y)), 1)[0])


def growth_factor(x: Sequence[float], y: Sequence[float]) -> float:
    """The factor by which y grows per unit of x, from a fit of log y over x: exponential growth."""
    return float(np.exp(np.polyfit(np.asarray(x, dtype=np.float64), np.log(np.asarray(y)), 1)[0]))


def linear_fit(x: Sequence[float], y: Sequence[float]) -> tuple[float, float, float]:
    """Slope, intercept and R² of the straight line through the points."""
    a, b = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    slope, intercept = np.polyfit(a, b, 1)
    rest = b - (slope * a + intercept)
    spread = float(np.sum((b - b.mean()) ** 2))
    r2 = 1.0 if spread == 0 else 1 - float(np.sum(rest**2)) / spread
    return float(slope), float(intercept), r2
