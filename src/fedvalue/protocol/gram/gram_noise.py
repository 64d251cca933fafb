"""The noise of one component: a symmetric matrix over all one-hot columns.

Each of the three components carries the full noise, since a server knows that of two. Counts of two codes of
one feature are 0 whatever the data, and get none. Counts of a code with a label have noise of their own
(`sign_noise`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from fedvalue.crypto import keys
from fedvalue.crypto.discrete_gaussian import discrete_gaussian

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fedvalue.protocol.gram.gram_layout import GramLayout
    from fedvalue.protocol.privacy import Privacy


def component_noise(
    layout: GramLayout,
    privacy: Privacy | None,
    key: bytes,
    checkpoint: Callable[[], None] = lambda: None,
) -> NDArray[np.int64]:
    """The noise that a key gives; zeros where the run releases exact tables.

    Args:
        layout: The columns.
        privacy: What was agreed.
        key: 32 secret bytes.
        checkpoint: Called between pieces of the work; raises where the run is to end.
    """
    noise = np.zeros((layout.width, layout.width), dtype=np.int64)
    if privacy is None:
        return noise
    n_features = len(layout.sizes)
    one_way = [(f, f) for f in range(n_features)]
    pairs = [(f, g) for f in range(1, n_features) for g in range(f + 1, n_features)]
    for purpose, blocks, variance in (
        ("one-way", one_way, privacy.one_way_variance),
        ("pairs", pairs, privacy.pair_variance),
    ):
        sizes = [layout.sizes[f] * (1 if f == g else layout.sizes[g]) for f, g in blocks]
        own = keys.subkey(key, b"", "gram-noise", purpose)
        drawn = np.array(discrete_gaussian(own, sum(sizes), variance, checkpoint), dtype=np.int64)
        _fill(noise, layout, blocks, sizes, drawn)
    return np.asarray(np.triu(noise) + np.triu(noise, 1).T)


def _fill(
    noise: NDArray[np.int64],
    layout: GramLayout,
    blocks: list[tuple[int, int]],
    sizes: list[int],
    drawn: NDArray[np.int64],
) -> None:
    at = 0
    for (f, g), size in zip(blocks, sizes, strict=True):
        part = drawn[at : at + size]
        rows, columns = layout.columns(f), layout.columns(g)
        noise[rows, columns] = np.diag(part) if f == g else part.reshape(layout.sizes[f], layout.sizes[g])
        at += size
