"""The repeats behind Fig. 2 and Fig. 3: Shapley-CMI and SHAP values of the same parties.

One unit is one draw of 80% of the rows: five models are fitted and explained once, then the features are
dealt to parties in several ways. The authors' reading comes first; the others stand beside it.

- `label-only`: the task party holds the label, all features are dealt evenly to ceil(m / k) data parties.
- `with-features`: the printed text's other reading; one of the ceil(m / k) groups is the task party's.
- `uneven`: as `label-only`, but party sizes are random.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from fedvalue.datasets import NAMES
from fedvalue.paper.experiments.experiment import Numbers, Unit, unit_seed
from fedvalue.paper.experiments.numbers import mean_sd, pearson
from fedvalue.paper.experiments.setting import Discretised, Groups, discretised, even_groups, uneven_groups
from fedvalue.paper.reference_models import (
    MODELS,
    N_DRAWS,
    ShapSize,
    draw_rows,
    feature_shap,
    fit_model,
    party_shap,
    shap_ensemble,
)
from fedvalue.valuation.engine import value_counts
from fedvalue.valuation.settings import ValuationSettings

if TYPE_CHECKING:
    from fedvalue.information.contingency import JointCounts

FEATURES_PER_PARTY = (1, 2, 3)
READINGS = ("label-only", "with-features", "uneven")
N_PERMUTATIONS = 5000  # the paper's choice
EXACT_UP_TO = 10  # data parties; up to here exact values cost less than 5,000 permutations


@dataclass(frozen=True, slots=True)
class Size:
    """The workload of one draw.

    Args:
        deals: Assignments of features to parties under the authors' reading.
        others: Assignments under the other readings, and of the control with shuffled labels.
        learnable_draws: Draws in which learnable values are computed, for one assignment each.
        learnable_rows: Most rows of a learnable valuation.
        svm_rows: Most rows that the explained SVM is fitted on.
        shap: The workload of Kernel SHAP.
    """

    deals: int
    others: int
    learnable_draws: int
    learnable_rows: int
    svm_rows: int
    shap: ShapSize


SIZES = {
    "quick": Size(10, 2, 1, 1500, 2000, ShapSize(explained=40, background=10, coalitions=500)),
    "paper": Size(10, 10, 5, 24_000, 24_000, ShapSize()),
}
# Predicted seconds of one draw of the quick profile, measured once.
_COST = {"wine": 3.0, "parkinsons": 6.0, "spect": 6.0, "breast": 12.0, "music": 75.0, "credit": 70.0}


def draw(name: str, draw: int, profile: str, features: list[int], seed: int) -> Numbers:
    """One draw of the rows of a data set.

    Args:
        name: The data set.
        draw: Number of the draw, the `random_state` of the notebooks' `train_test_split`.
        profile: Key of `SIZES`.
        features: Features per party.
        seed: Seeds coalitions, permutations and the shuffled labels.

    Returns:
        Reading -> features per party -> one entry per assignment: `value` (Shapley-CMI), `shap` and
        `shap_of_sum` (SHAP-m of the five models, normalised), `sizes` and, for some, `shuffled` and
        `learnable`.
    """
    size, whole = SIZES[profile], discretised(name)
    data = whole.rows(draw_rows(len(whole.label), draw)[0])
    shap = {}
    for model in MODELS:
        fitted = fit_model(model, data.codes, data.label, probabilities=True, svm_rows=size.svm_rows)
        shap[model] = feature_shap(fitted, data.codes, size.shap, seed=seed)

    def deal(reading: str, k: int, number: int) -> Numbers:
        """Deal the features to parties; assignment `number` is the same in every draw of the rows."""
        task, groups = dealt(data.n_features, reading, k, number)
        entry: Numbers = {
            "value": _shapley_cmi(data.joint_counts(groups, task), seed),
            "shap": {model: party_shap(s, groups).tolist() for model, s in shap.items()},
            "shap_of_sum": {
                m: party_shap(values, groups, of_sum=True).tolist() for m, values in shap.items()
            },
            "sizes": [len(group) for group in groups],
        }
        if number < size.others and reading != "with-features":
            # The control: the same parties and labels, but no connection between them.
            unrelated = replace(data, label=np.random.default_rng(seed).permutation(data.label))
            entry["shuffled"] = _shapley_cmi(unrelated.joint_counts(groups, task), seed)
        if number == 0 and reading == "label-only" and draw < size.learnable_draws:
            rows = np.arange(min(len(data.label), size.learnable_rows))
            entry["learnable"] = _learnable(data.rows(rows), groups, seed)
        return entry

    by_reading: Numbers = {}
    for reading in READINGS:
        deals = size.deals if reading == "label-only" else size.others
        by_reading[reading] = {
            str(k): [
                deal(reading, k, number)
                # Every assignment of single features to label-only parties is the same.
                for number in range(1 if k == 1 and reading == "label-only" else deals)
            ]
            for k in features
            if (reading, k) != ("uneven", 1)
        }
    if 1 in features:
        by_reading["uneven"]["1"] = by_reading["label-only"]["1"]
    return by_reading


def dealt(n_features: int, reading: str, k: int, deal: int) -> tuple[list[int], Groups]:
    """The task party's columns and those of each data party."""
    rng = np.random.default_rng([k, deal])
    n_groups = -(-n_features // k)
    if reading == "uneven":
        return [], uneven_groups(n_features, n_groups, rng)
    groups = even_groups(n_features, n_groups, rng)
    if reading == "label-only":
        return [], groups
    task = groups.pop(int(rng.integers(n_groups)))
    return task, groups


def _shapley_cmi(counts: JointCounts, seed: int) -> list[float]:
    settings = ValuationSettings(
        method="exact" if counts.n_parties <= EXACT_UP_TO else "sampled",
        n_permutations=N_PERMUTATIONS,
        seed=seed,
        statistics=False,
    )
    return list(value_counts(counts, settings).values.values())


def _learnable(data: Discretised, groups: Groups, seed: int) -> list[float]:
    """Learnable values on the same five bins, one column per feature."""
    import fedvalue

    def columns(group: Sequence[int]) -> dict[str, Any]:
        return {f"x{k}": np.char.add("bin-", data.codes[:, k].astype(np.str_)) for k in group}

    valued = fedvalue.value(
        label=data.label.astype(np.str_),
        parties={f"party-{d}": columns(group) for d, group in enumerate(groups)},
        method="sampled",
        n_permutations=100,  # of Shapley-CMI, which is not read here
        seed=seed,
        coalitions=False,
    )
    return [float(party.learnable or 0.0) for party in valued.parties]


def units(profile: str, seed: int, names: Sequence[str] = NAMES) -> list[Unit]:
    """One per data set and draw of its rows."""
    units = []
    for name, number in product(names, range(N_DRAWS)):
        key = f"draw/{name}/{number}"
        settings = {
            "name": name, "draw": number, "profile": profile, "features": list(FEATURES_PER_PARTY),
            "seed": unit_seed(seed, key),
        }  # fmt: skip
        units.append(Unit(key, draw, settings, cost=_COST[name] * (1 if profile == "quick" else 100)))
    return units


def draws_of(results: Mapping[str, Numbers], name: str) -> list[Numbers]:
    """The draws of one data set, in order."""
    return [results[key] for key in sorted(results) if key.startswith(f"draw/{name}/")]


def assignments(draws: Sequence[Numbers], reading: str, k: int) -> list[Numbers]:
    """Every assignment of every draw."""
    return [repeat for draw in draws for repeat in draw[reading][str(k)]]


def correlation(repeats: Sequence[Numbers], a: str, b: str, models: Sequence[str] = ()) -> Numbers:
    """Correlation over the data parties of two numbers of each repeat, where a repeat has both.

    Args:
        repeats: See `draw`.
        a: "value", "learnable" or "sizes".
        b: "shuffled", or "shap" or "shap_of_sum", of which the ensemble of `models` is taken.
        models: Names of the models.
    """

    def numbers(repeat: Numbers, key: str) -> Any:
        if not key.startswith("shap"):
            return repeat[key]
        return shap_ensemble({m: np.array(v) for m, v in repeat[key].items()}, models)

    return _summary(pearson(numbers(r, a), numbers(r, b)) for r in repeats if a in r and b in r)


def correlation_of_means(draws: Sequence[Numbers], k: int, models: Sequence[str]) -> Numbers:
    """`correlation` of values and SHAP values that were averaged over the draws first, per assignment."""
    correlations = []
    for same in zip(*(draw["label-only"][str(k)] for draw in draws), strict=True):
        value = np.mean([repeat["value"] for repeat in same], axis=0)
        shap = {m: np.mean([repeat["shap"][m] for repeat in same], axis=0) for m in MODELS}
        correlations.append(pearson(value, shap_ensemble(shap, models)))
    return _summary(correlations)


def _summary(correlations: Iterable[float | None]) -> Numbers:
    """Mean and spread over the repeats that have a correlation."""
    mean, sd, n = mean_sd(correlations)
    return {"mean": mean, "sd": sd, "n": n}
