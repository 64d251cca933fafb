"""The timings behind Fig. 5 and Fig. 6: the real `paper` protocol beside the published simulation.

Both are timed in CPU seconds of the same process, so that a busy machine does not look like a slow
protocol. The ratio of the two is what can be compared between machines.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from fedvalue.datasets import synthetic
from fedvalue.federated.options import Paper
from fedvalue.paper.experiments.base import Numbers, Unit, unit_seed
from fedvalue.paper.experiments.published import random_codes, simulation_seconds

# The paper's defaults (Section 4.2).
DEFAULTS: dict[str, int] = {"n_real": 10_000, "n_adversarial": 90_000, "n_parties": 5, "features": 1, "q": 3}


def measure(
    n_real: int, n_adversarial: int, n_parties: int, features: int, q: int, simulate: bool, seed: int
) -> Numbers:
    """Time one valuation through the `paper` protocol, all orders of the parties included.

    The adversarial samples are spread over the queries: each of the cells gets its equal share of them.
    The protocol runs hardened, as it does for users: with marginal checks and authenticators.

    Args:
        n_real: Real samples.
        n_adversarial: Adversarial samples over all queries.
        n_parties: Data parties.
        features: Binary features of each data party.
        q: Encryption ids per sample.
        simulate: Whether to time the published simulation too.
        seed: Of data and simulation.
    """
    import fedvalue

    dataset, split = synthetic(n_samples=n_real, n_parties=n_parties, features_per_party=features, seed=seed)
    cells = 4 * (2**features) ** n_parties
    arguments: dict[str, Any] = {
        "label": dataset.y,
        "task": dataset.columns(split.task),
        "parties": {name: dataset.columns(held) for name, held in split.parties.items()},
        "binning": "width",
        "method": "exact",
        "statistics": False,
    }
    start = time.process_time()
    federated = fedvalue.value(**arguments, protocol=Paper(q=q, n_r=n_adversarial / (n_adversarial + n_real)))
    seconds = time.process_time() - start
    central = fedvalue.value(**arguments, coalitions=False)
    found: Numbers = {
        "seconds": seconds,
        "cells": cells,
        "largest_difference": max(
            abs(federated.values[name] - value) for name, value in central.values.items()
        ),
    }
    if simulate:
        n = n_real + n_adversarial
        codes = random_codes(n, 2**features, n_parties, seed)
        task = random_codes(n, 4, 1, seed + 1)[0]
        found["simulation_seconds"] = simulation_seconds(task, list(codes), q)
    return found


def warm_up() -> None:
    """Compile and load what the first timing would otherwise pay for."""
    measure(n_real=100, n_adversarial=100, n_parties=2, features=1, q=2, simulate=False, seed=0)


def timed(**settings: Any) -> Numbers:
    """A unit: warm up, then the median of three timings (one, where one takes long)."""
    warm_up()
    runs = [measure(**settings)]
    if runs[0]["seconds"] < 5:
        runs += [measure(**{**settings, "simulate": False}) for _ in range(2)]
    return {**runs[0], "seconds": float(np.median([run["seconds"] for run in runs]))}


def unit(group: str, varied: str, value: int, *, simulate: bool, cost: float, seed: int,
         **changes: int) -> Unit:  # fmt: skip
    """The timing with one parameter varied and the others at the paper's defaults (or `changes`)."""
    key = f"{group}/{varied}/{value}"
    settings = {**DEFAULTS, **changes, "simulate": simulate, "seed": unit_seed(seed, key)}
    if varied == "samples":
        settings |= {"n_real": value, "n_adversarial": 9 * value}
    elif varied == "adversarial":
        settings["n_adversarial"] = value
    else:
        settings[{"parties": "n_parties", "features": "features", "q": "q"}[varied]] = value
    return Unit(key, timed, settings, cost=cost, alone=True)


def points(results: Any, group: str, varied: str) -> list[Numbers]:
    """The timings of one panel, by rising parameter."""
    found = []
    for key, result in results.items():
        head, name, value = key.split("/")
        if (head, name) == (group, varied):
            found.append({"x": int(value), **result})
    return sorted(found, key=lambda point: point["x"])
