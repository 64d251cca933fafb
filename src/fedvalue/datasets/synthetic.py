"""The synthetic tables of the paper's efficiency experiments (Section 4.2)."""

from __future__ import annotations

import numpy as np

from fedvalue.datasets.dataset import Dataset
from fedvalue.datasets.parse import Columns, fingerprint
from fedvalue.datasets.split import VerticalSplit
from fedvalue.errors import InputError


def synthetic(
    *, n_samples: int = 10_000, n_parties: int = 5, features_per_party: int = 1, seed: int = 0
) -> tuple[Dataset, VerticalSplit]:
    """Binary features, a binary task feature and a binary label.

    The paper says no more about the values. Here the label agrees with a majority of all features
    for three samples in four and is a coin toss otherwise, so that every party has a value well above 0.

    Args:
        n_samples: Real samples; adversarial ones are the protocol's affair.
        n_parties: Data parties.
        features_per_party: Binary features of each data party; the task party has one.
        seed: Of the draw.

    Returns:
        The table, and who holds which feature of it.
    """
    for name, number in (
        ("n_samples", n_samples), ("n_parties", n_parties), ("features_per_party", features_per_party)
    ):  # fmt: skip
        if number < 1:
            raise InputError(f"{name} must be at least 1, got {number}")
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 2, size=(n_samples, 1 + n_parties * features_per_party)).astype(np.float64)
    votes = values.mean(axis=1)
    majority = np.where(votes == 0.5, rng.integers(0, 2, n_samples), votes > 0.5)
    noisy = rng.random(n_samples) < 0.25
    label = np.where(noisy, rng.integers(0, 2, n_samples), majority).astype(np.int64).astype(np.str_)
    parties = {
        f"party-{d + 1:02d}": tuple(f"x{d + 1}.{k + 1}" for k in range(features_per_party))
        for d in range(n_parties)
    }
    names = ("t1", *(name for group in parties.values() for name in group))
    table = Dataset(
        name="synthetic",
        X={name: values[:, k].copy() for k, name in enumerate(names)},
        y=label,
        origin="made by FedValue for the efficiency experiments",
        licence="none needed",
        source=f"seed {seed}",
        sha256=fingerprint(Columns(names, values, label)),
        categorical=True,
    )
    return table, VerticalSplit(("t1",), parties)
