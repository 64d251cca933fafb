"""Principal components of one party's features, before binning (the paper's Fig. 8).

Rules: numbers only, a text column is refused (turn it into numbers first, or value it without PCA).
Features are standardised; a constant one has nothing to add and weighs 0. A row with a missing
value has no components: it is fitted without, and is missing in each of them, hence a category of
its own. Components are deterministic: the loading of largest size is positive, and scores are
rounded to 10 decimals of a standardised feature, so that the order of the rows does not decide on
which side of a bin's edge a sample falls.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fedvalue.errors import InputError
from fedvalue.tables.columns import Column, NumberColumn

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fedvalue.typing import Floats

_DECIMALS = 10


@dataclass(frozen=True)
class Components:
    """A fitted PCA: exact in JSON, so that other rows get the same components.

    Args:
        features: The columns, in order.
        mean: Mean of each.
        scale: Standard deviation of each (of the samples, not their estimate); 0 for a constant one.
        loadings: One tuple of weights per component, in order of falling variance.
    """

    features: tuple[str, ...]
    mean: tuple[float, ...]
    scale: tuple[float, ...]
    loadings: tuple[tuple[float, ...], ...]

    def scores(self, columns: Mapping[str, Column]) -> dict[str, Column]:
        """The components of every sample, as columns "pc1", "pc2", ..."""
        table, missing = _numbers({key: columns[key] for key in self.features})
        scaled = _standardise(table, np.array(self.mean), np.array(self.scale))
        found: dict[str, Column] = {}
        for k, weights in enumerate(self.loadings, start=1):
            # Term by term: a matrix product may round equal rows differently.
            score = np.zeros(len(scaled))
            for j, weight in enumerate(weights):
                score += scaled[:, j] * weight
            score = np.round(score, _DECIMALS) + 0.0  # no negative zero
            found[f"pc{k}"] = NumberColumn(f"pc{k}", score, missing)
        return found

    def to_dict(self) -> dict[str, Any]:
        """This PCA as JSON-ready data. Floats keep every bit."""
        return {
            "features": list(self.features),
            "mean": list(self.mean),
            "scale": list(self.scale),
            "loadings": [list(weights) for weights in self.loadings],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Components:
        """The PCA that `to_dict` wrote.

        Raises:
            InputError: The data is no PCA.
        """
        try:
            return cls(
                features=tuple(data["features"]),
                mean=tuple(data["mean"]),
                scale=tuple(data["scale"]),
                loadings=tuple(tuple(weights) for weights in data["loadings"]),
            )
        except (KeyError, TypeError) as error:
            raise InputError(f"expected fitted components, got something else ({error})") from error


def fit_components(columns: Mapping[str, Column], k: int, *, name: str) -> Components:
    """The first `k` principal components of a party's features.

    A component without variance (the features depend on each other linearly) gets loadings of 0:
    it would be rounding noise otherwise.

    Args:
        columns: The party's features.
        k: Number of components, from 1 to the number of features.
        name: The party, for messages.

    Raises:
        InputError: `k` out of range, a feature that is not a number or too large, no complete row,
            or only constant features.
    """
    k = _check_k(k, len(columns), name)
    table, missing = _numbers(columns)
    complete = table[~missing]
    if not len(complete):
        raise InputError(f"{name}: PCA needs rows without missing values, got none")
    with np.errstate(over="ignore", invalid="ignore"):
        mean = complete.mean(axis=0)
        scale = complete.std(axis=0)
    if not np.isfinite(scale).all():
        raise InputError(f"{name}: PCA needs numbers whose squares are finite, got larger ones")
    # A constant column's mean may be off by rounding, which would look like a tiny spread.
    scale[np.ptp(complete, axis=0) == 0] = 0.0
    if not scale.any():
        raise InputError(f"{name}: PCA needs a feature that varies, got {len(columns)} constant ones")
    # The triangle of a QR has the singular values and right vectors of the whole table.
    triangle = np.linalg.qr(_standardise(complete, mean, scale), mode="r")
    _, singular, vectors = np.linalg.svd(triangle, full_matrices=True)
    singular = np.pad(singular, (0, len(vectors) - len(singular)))
    noise = singular[0] * max(complete.shape) * np.finfo(np.float64).eps
    vectors[singular <= noise] = 0.0
    return Components(
        features=tuple(columns),
        mean=tuple(mean.tolist()),
        scale=tuple(scale.tolist()),
        loadings=tuple(tuple(_signed(vector).tolist()) for vector in vectors[:k]),
    )


def _check_k(k: int, n_features: int, name: str) -> int:
    try:
        number = operator.index(k)
    except TypeError as error:
        raise InputError(f"{name}: the number of components must be a whole number, got {k!r}") from error
    if isinstance(k, bool) or not 1 <= number <= n_features:
        raise InputError(
            f"{name}: the number of components must be from 1 to the {n_features} features, got {k!r}"
        )
    return number


def _numbers(columns: Mapping[str, Column]) -> tuple[Floats, NDArray[np.bool_]]:
    """The features as a float table, and which rows miss a value (0 stands there)."""
    parts = []
    missing = np.zeros(len(next(iter(columns.values()))), dtype=np.bool_)
    for key, column in columns.items():
        if not isinstance(column, NumberColumn) or column.categorical:
            raise InputError(f"column {key!r}: PCA needs numbers, got categories")
        parts.append(np.where(column.missing, 0.0, column.values.astype(np.float64)))
        missing |= column.missing
    return np.column_stack(parts), missing


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
