"""The repeats behind Fig. 2 and Fig. 3: Shapley-CMI and SHAP values of the same parties."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fedvalue.datasets import NAMES, random_split
from fedvalue.paper.experiments.base import Numbers, Unit, unit_seed
from fedvalue.paper.experiments.numbers import mean_sd, pearson
from fedvalue.paper.experiments.setting import discretised, draw_rows, joint_counts
from fedvalue.paper.reference import MODELS, feature_shap, fit_model, party_shap, shap_ensemble
from fedvalue.valuation.engine import value_counts
from fedvalue.valuation.settings import ValuationSettings

if TYPE_CHECKING:
    from fedvalue.information.contingency import JointCounts
    from fedvalue.valuation.result import Valuation

FEATURES_PER_PARTY = (1, 2, 3)
N_PERMUTATIONS = 5000  # the paper's choice
EXACT_UP_TO = 12  # data parties; for so few the exact values cost less than 5,000 permutations

SIZES: dict[str, dict[str, Any]] = {
    "quick": {"repeats": 5, "n_explained": 100, "n_orders": 10, "svm_rows": 4000, "budget": 100_000_000},
    "paper": {"repeats": 50, "n_explained": 200, "n_orders": 20, "svm_rows": 6000, "budget": 400_000_000},
}
# Predicted seconds of one repeat, measured once.
_COST = {"wine": 1.5, "parkinsons": 3.0, "spect": 3.0, "breast": 3.0, "music": 15.0, "credit": 22.0}


def repeat(
    name: str, seed: int, n_explained: int, n_orders: int, svm_rows: int, budget: int, features: list[int]
) -> Numbers:
    """One repeat on one data set: 80% of its rows, five fitted models, a random split per party size.

    Args:
        name: The data set.
        seed: Of rows, models, splits and samplings.
        n_explained: Rows explained by SHAP.
        n_orders: Orders per row of the sampled SHAP values.
        svm_rows: Most rows that the SVM is fitted on.
        budget: Of the search behind the learnable values.
        features: Features per party.

    Returns:
        For each number of features per party: the data parties' Shapley-CMI, the same with shuffled
        labels, numbers of codes, learnable values and normalised SHAP-m of the five models, all in the
        same order.
    """
    from fedvalue.valuation.items import item_table
    from fedvalue.valuation.statistics.joint_table_game import joint_table_game

    whole = discretised(name)
    data = whole.rows(draw_rows(len(whole.label), seed))
    # The control: the same parties and labels, but no connection between them.
    nothing_to_know = replace(data, label=np.random.default_rng(seed).permutation(data.label))
    shap_values = {}
    for model in MODELS:
        fitted = fit_model(model, data.codes, data.label, seed=seed, max_rows=svm_rows)
        shap_values[model] = feature_shap(
            model, fitted, data.codes, n_explained=n_explained, n_orders=n_orders, seed=seed
        )
    found: Numbers = {}
    for size in features:
        split = random_split(
            data.dataset.feature_names, features_per_party=size, seed=unit_seed(seed, f"split/{size}")
        )
        counts = joint_counts(data, split)
        valued = _valued(counts, seed)
        shuffled = _valued(joint_counts(nothing_to_know, split), seed)
        groups = [data.positions(held) for held in split.parties.values()]
        found[str(size)] = {
            "value": [party.value for party in valued.parties],
            "shuffled": [party.value for party in shuffled.parties],
            "codes": [party.n_codes for party in valued.parties],
            "learnable": joint_table_game(item_table(counts), budget=budget)
            .shapley_values(seed=seed)[0]
            .tolist(),
            "shap": {model: party_shap(shap_values[model], groups).tolist() for model in MODELS},
            "method": valued.method,
            "label_entropy": valued.label_entropy,
        }
    return found


def _valued(counts: JointCounts, seed: int) -> Valuation:
    settings = ValuationSettings(
        method="exact" if counts.n_parties <= EXACT_UP_TO else "sampled",
        n_permutations=N_PERMUTATIONS,
        seed=seed,
        statistics=False,
    )
    return value_counts(counts, settings)


def units(profile: str, seed: int, names: tuple[str, ...] = NAMES) -> list[Unit]:
    """One per data set and repeat."""
    size = SIZES[profile]
    found = []
    for name in names:
        for k in range(size["repeats"]):
            key = f"repeat/{name}/{k:02d}"
            settings = {
                "name": name,
                "seed": unit_seed(seed, key),
                "n_explained": size["n_explained"],
                "n_orders": size["n_orders"],
                "svm_rows": size["svm_rows"],
                "budget": size["budget"],
                "features": list(FEATURES_PER_PARTY),
            }
            scale = size["n_explained"] * size["n_orders"] / 1000
            found.append(Unit(key, repeat, settings, cost=_COST[name] * (0.5 + 0.5 * scale)))
    return found


def repeats_of(results: Mapping[str, Numbers], name: str) -> list[Numbers]:
    """The finished repeats of one data set, in order."""
    return [results[key] for key in sorted(results) if key.startswith(f"repeat/{name}/")]


def ensemble_correlation(repeats: list[Numbers], size: int, selected: list[str], of: str) -> Numbers:
    """Correlation of `of` ("value" or "learnable") with SHAP-ensemble over the data parties."""
    each = [
        pearson(
            one[str(size)][of],
            shap_ensemble({m: np.array(v) for m, v in one[str(size)]["shap"].items()}, selected),
        )
        for one in repeats
    ]
    mean, sd, n = mean_sd(each)
    return {"mean": mean, "sd": sd, "n": n, "each": each}


def control_correlation(repeats: list[Numbers], size: int, control: str) -> Numbers:
    """Correlation of Shapley-CMI with something that knows nothing of the task.

    Args:
        repeats: Of one data set.
        size: Features per party.
        control: "shuffled" (values after shuffling the labels) or "codes" (number of codes).
    """
    each = [pearson(one[str(size)]["value"], one[str(size)][control]) for one in repeats]
    mean, sd, n = mean_sd(each)
    return {"mean": mean, "sd": sd, "n": n, "each": each}


def model_correlation(repeats: list[Numbers], size: int, model: str) -> Numbers:
    """Correlation of Shapley-CMI with SHAP-m over the data parties."""
    each = [pearson(one[str(size)]["value"], one[str(size)]["shap"][model]) for one in repeats]
    mean, sd, n = mean_sd(each)
    return {"mean": mean, "sd": sd, "n": n, "each": each}


def n_parties(repeats: list[Numbers], size: int) -> int:
    """Number of data parties at this many features per party."""
    return len(repeats[0][str(size)]["value"])
