"""The protocols give the centralised values on the paper's data sets, 2 to 6 parties."""

from __future__ import annotations

import numpy as np
import pytest

import fedvalue
from fedvalue.datasets.dataset import load
from fedvalue.datasets.split import random_split

NAMES = ["wine", "parkinsons", "spect", "breast", "credit", "music"]
MOST_ROWS = 1500
"""The large sets are cut: what is shown is equality, and the work grows with the rows."""


def tables(name: str, n_parties: int, features: int, seed: int) -> dict:
    dataset = load(name)
    rows = np.random.default_rng(seed).permutation(dataset.n_samples)[:MOST_ROWS]
    dataset = dataset.rows(np.sort(rows))
    split = random_split(dataset.feature_names, features_per_party=features, seed=seed)
    chosen = list(split.parties.items())[:n_parties]
    return {
        "label": dataset.y,
        "parties": {party: dataset.columns(held) for party, held in chosen},
        "statistics": False,
        "method": "exact",
    }


def compare(arguments: dict, bins: int, protocol: object, name: str) -> None:
    plain = fedvalue.value(**arguments, bins=bins, coalitions=False)
    federated = fedvalue.value(**arguments, bins=bins, coalitions=False, protocol=protocol)
    assert federated.values == pytest.approx(plain.values, abs=1e-9)
    assert federated.total == pytest.approx(plain.total, abs=1e-9)
    assert federated.protocol == name


@pytest.mark.data
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("n_parties", "features"), [(2, 3), (4, 1), (6, 2)])
@pytest.mark.parametrize("protocol", ["mirror", "vpsic"])
def test_mirror_and_vpsic(protocol: str, name: str, n_parties: int, features: int) -> None:
    compare(tables(name, n_parties, features, seed=1), bins=5, protocol=protocol, name=protocol)


@pytest.mark.data
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("protocol", "n_parties", "features"), [("single", 3, 1), ("paper", 2, 2), ("paper", 4, 1)]
)
def test_single_and_paper(name: str, protocol: str, n_parties: int, features: int) -> None:
    """Two bins: every cell of the product of all code ranges is a query."""
    chosen = fedvalue.Paper(q=2, n_r=1) if protocol == "paper" else fedvalue.Single()
    compare(tables(name, n_parties, features, seed=2), bins=2, protocol=chosen, name=protocol)


@pytest.mark.data
@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("n_parties", "features"), [(6, 1), (2, 3)])
def test_paper_with_more(name: str, n_parties: int, features: int) -> None:
    chosen = fedvalue.Paper(q=3, n_r=2)
    compare(tables(name, n_parties, features, seed=3), bins=2, protocol=chosen, name="paper")
