"""Names for the shapes and seams that several layers share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from typing import TypeAlias

    import numpy as np
    from numpy.typing import NDArray

    Codes: TypeAlias = NDArray[np.int64]
    """One dense integer code per sample, shape (n_samples,), values 0 .. n_codes-1."""

    Counts: TypeAlias = NDArray[np.int64]
    """Non-negative numbers of samples."""

    Floats: TypeAlias = NDArray[np.float64]
    """Values in nats, unless a docstring says otherwise."""


class Progress(Protocol):
    """Called with progress updates; may raise KeyboardInterrupt to stop the work."""

    def __call__(self, done: float, total: float, note: str = "") -> None:
        """`done` of `total` predicted units are finished; `note` is for a person."""
