"""Principal components of one party's numbers, before binning (the paper's Fig. 8).

- They replace the numeric columns of a party that has more of them than components; categories stay.
- Columns are standardised; a constant one adds nothing and weighs 0.
- A row with a missing value is left out of the fit and is missing in every component.
- Components are deterministic: the loading of largest size is positive, and scores are rounded to 10
  decimals of a standardised column, so that the order of the rows does not decide on which side of a
  bin's edge a sample falls.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from fedvalue.errors import InputError
from fedvalue.tables.columns import Column, NumberColumn

if TYPE_CHECKING:
    from fedvalue.typing import Floats

_DECIMALS = 10


def principal_components(
    columns: Mapping[str, Column], k: int, *, name: str, rotate: bool = False
) -> dict[str, Column]:
    """The first `k` principal components of a party's numbers, as columns "pc1", "pc2", ...

    A component without variance (linearly dependent columns) has loadings of 0, since it would be rounding
    noise. There are none if the party has no more than `k` numeric columns; with `rotate`, exactly `k`
    columns are replaced too, as in the paper.

    Raises:
        InputError: Numbers that are too large, no complete row, or only constant columns.
    """
    numbers = [column for column in columns.values() if isinstance(column, NumberColumn)]
    if len(numbers) < k + (not rotate):
        return {}
    missing = np.any([column.missing for column in numbers], axis=0)
    table = np.column_stack(
        [np.where(column.missing, 0.0, column.values.astype(np.float64)) for column in numbers]
    )
    mean, scale, loadings = _fitted(table[~missing], k, name)
    scaled = _standardise(table, mean, scale)
    components: dict[str, Column] = {}
    for number, weights in enumerate(loadings, start=1):
        # Term by term: a matrix product may round equal rows differently.
        score = np.zeros(len(scaled))
        for j, weight in enumerate(weights):
            score += scaled[:, j] * weight
        score = np.round(score, _DECIMALS) + 0.0  # no negative zero
        components[f"pc{number}"] = NumberColumn(f"pc{number}", score, missing)
    return components


def kept_variance(columns: Mapping[str, Column], components: Mapping[str, Column]) -> float:
    """Part of the variance of a party's standardised numbers that its components keep."""
    kept = [column for column in components.values() if isinstance(column, NumberColumn)]
    complete = ~kept[0].missing
    numbers = [column.values[complete] for column in columns.values() if isinstance(column, NumberColumn)]
    n_varying = sum(bool(np.ptp(values.astype(np.float64)) > 0) for values in numbers)
    return sum(float(np.var(column.values[complete])) for column in kept) / n_varying


def _fitted(complete: Floats, k: int, name: str) -> tuple[Floats, Floats, list[Floats]]:
    """Mean, standard deviation (0 of a constant column) and loadings, in order of falling variance."""
    if not len(complete):
        raise InputError(f"{name}: PCA needs rows without missing values, and there are none")
    with np.errstate(over="ignore", invalid="ignore"):
        mean = complete.mean(axis=0)
        scale = complete.std(axis=0)
    if not np.isfinite(scale).all():
        raise InputError(f"{name}: PCA needs numbers whose squares are finite")
    # A constant column's mean may be off by rounding, which would look like a tiny spread.
    scale[np.ptp(complete, axis=0) == 0] = 0.0
    if not scale.any():
        raise InputError(f"{name}: PCA needs a column that varies, and all {len(scale)} are constant")
    # The triangle of a QR has the singular values and right vectors of the whole table.
    triangle = np.linalg.qr(_standardise(complete, mean, scale), mode="r")
    _, singular, vectors = np.linalg.svd(triangle, full_matrices=True)
    singular = np.pad(singular, (0, len(vectors) - len(singular)))
    noise = singular[0] * max(complete.shape) * np.finfo(np.float64).eps
    vectors[singular <= noise] = 0.0
    return mean, scale, [_signed(vector) for vector in vectors[:k]]


def _standardise(table: Floats, mean: Floats, scale: Floats) -> Floats:
    divisor = np.where(scale > 0, scale, 1.0)
    return np.asarray(np.where(scale > 0, (table - mean) / divisor, 0.0))


def _signed(vector: Floats) -> Floats:
    """The vector with its largest entry positive; the first of those that are equal up to rounding."""
    size = np.abs(vector)
    if not size.any():
        return vector
    leading = int(np.argmax(size >= size.max() * (1 - 1e-9)))
    return vector if vector[leading] > 0 else -vector
