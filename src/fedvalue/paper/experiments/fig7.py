"""Fig. 7: error and time of sampled permutations."""

from __future__ import annotations

import time
from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec.structs import replace

from fedvalue.paper.experiments.drawing import error_and_time
from fedvalue.paper.experiments.experiment import (
    Experiment,
    Numbers,
    Table,
    Unit,
    Verdict,
    data_sets_of,
    unit_seed,
)
from fedvalue.paper.experiments.numbers import linear_fit, mape, mean_sd
from fedvalue.paper.experiments.published import recount_seconds
from fedvalue.paper.experiments.setting import discretised, even_groups
from fedvalue.valuation.engine import value_counts
from fedvalue.valuation.settings import Method, ValuationSettings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from fedvalue.information.contingency import JointCounts

DATASETS = ("breast", "music")
SAMPLINGS = (100, 300, 600, 1200, 2500, 5000, 10_000)

_SIZES: dict[str, dict[str, Any]] = {
    "quick": {"repeats": 10, "music_permutations": 200_000, "recounted": 20},
    "paper": {"repeats": 50, "music_permutations": 5_000_000, "recounted": 100},
}


def _counts(name: str, split_seed: int) -> JointCounts:
    """One feature per party, all rows."""
    data = discretised(name)
    task, *groups = even_groups(data.n_features, data.n_features, np.random.default_rng(split_seed))
    return data.joint_counts(groups, task)


def reference(name: str, method: Method, n_permutations: int, split_seed: int, seed: int) -> Numbers:
    """The values to compare with: exact, or from far more permutations, with their standard error."""
    start = time.process_time()
    valued = value_counts(
        _counts(name, split_seed),
        ValuationSettings(method=method, n_permutations=n_permutations, seed=seed, statistics=False),
    )
    return {
        "values": [party.value for party in valued.parties],
        "se": [party.se_sampling for party in valued.parties],
        "method": valued.method,
        "n_permutations": valued.n_permutations,
        "seconds": time.process_time() - start,
    }


def sample(name: str, n_permutations: int, repeats: int, split_seed: int, seed: int) -> Numbers:
    """Values of several independent runs of the sampled method, and the CPU seconds of one run."""
    counts = _counts(name, split_seed)
    few = ValuationSettings(method="sampled", n_permutations=2, statistics=False)
    value_counts(counts, few)  # compile and load first
    settings = replace(few, n_permutations=n_permutations)
    runs, seconds = [], []
    for k in range(repeats):
        start = time.process_time()
        valued = value_counts(counts, replace(settings, seed=seed + k))
        seconds.append(time.process_time() - start)
        runs.append([party.value for party in valued.parties])
    return {"runs": runs, "seconds": float(np.median(seconds))}


def recount(name: str, n_permutations: int, split_seed: int, seed: int) -> Numbers:
    """Seconds per permutation of the procedure as published."""
    return {"seconds_per_permutation": recount_seconds(_counts(name, split_seed), n_permutations, seed)}


class Fig7(Experiment):
    """Error and time of sampled permutations."""

    name = "fig7"
    title = "Fig. 7. Shapley sampling"
    claim = (
        "MAPE drops dramatically from 100 to 1,200 samplings, then converges to a small value; time is "
        "nearly linear in the samplings; 5,000 are a good choice (Breast and Music)."
    )
    notes = (
        "One feature per party, all rows. Breast is compared with exact values, Music with a far longer "
        "sampled run whose own error is stated.",
        "Permutations are drawn in antithetic pairs; the paper draws them independently.",
        "The published procedure recounts every prefix; it is timed for a few permutations and extrapolated.",
    )
    data = DATASETS

    def units(self, profile: str, seed: int) -> list[Unit]:
        """A reference per data set, then one timing per number of permutations."""
        size = _SIZES[profile]
        pieces = []
        for name in DATASETS:
            exact = name == "breast"
            calls: dict[str, tuple[Any, Numbers, float, bool]] = {
                "reference": (
                    reference,
                    {
                        "method": "exact" if exact else "sampled",
                        "n_permutations": 2 if exact else size["music_permutations"],
                    },
                    60.0,
                    False,
                ),
                "published": (recount, {"n_permutations": size["recounted"]}, 2.0, True),
            }
            for n in SAMPLINGS:
                settings = {"n_permutations": n, "repeats": size["repeats"]}
                calls[str(n)] = (sample, settings, 0.3 + n / 5000, True)
            split_seed = unit_seed(seed, f"sampling/{name}")
            for part, (call, settings, cost, alone) in calls.items():
                key = f"sampling/{name}/{part}"
                of_all = {"name": name, "split_seed": split_seed, "seed": unit_seed(seed, key)}
                pieces.append(Unit(key, call, settings | of_all, cost=cost, alone=alone))
        return pieces

    def summarise(self, results: Mapping[str, Numbers]) -> Numbers:
        """MAPE against the reference, and times."""
        rows: Numbers = {}
        for name in data_sets_of(results):
            truth = results[f"sampling/{name}/reference"]
            points = []
            for n in SAMPLINGS:
                one = results[f"sampling/{name}/{n}"]
                mean, sd, _ = mean_sd([mape(run, truth["values"]) for run in one["runs"]])
                points.append({"n": n, "mape": mean, "sd": sd, "seconds": one["seconds"]})
            per_permutation = results[f"sampling/{name}/published"]["seconds_per_permutation"]
            rows[name] = {
                "points": points,
                "reference": {
                    "method": truth["method"],
                    "n_permutations": truth["n_permutations"],
                    "seconds": truth["seconds"],
                    "relative_error_percent": mape(
                        np.array(truth["values"]) + np.array(truth["se"]), truth["values"]
                    ),
                    "n_parties": len(truth["values"]),
                },
                "published_seconds_per_permutation": per_permutation,
                "ratio_per_permutation": per_permutation / (points[-1]["seconds"] / points[-1]["n"]),
            }
        return {"datasets": rows}

    def judge(self, numbers: Numbers) -> Verdict:
        """Two claims per data set: the error falls with the samplings and is small at 5,000; time is linear.

        Falls: from each number of samplings to the next, at most one rise, and at 1,200 at most half of the
        error at 100. Small: at most 5% at 5,000. Linear: a line explains 95% of the variance of the times.
        """
        claims, sentences = [], []
        for name, row in numbers["datasets"].items():
            error = {point["n"]: point["mape"] for point in row["points"]}
            rises = sum(later > earlier for earlier, later in pairwise(error[n] for n in sorted(error)))
            r2 = linear_fit([p["n"] for p in row["points"]], [p["seconds"] for p in row["points"]])[2]
            claims += [rises <= 1 and error[1200] <= 0.5 * error[100], error[5000] <= 5.0, r2 >= 0.95]
            against = (
                "exact values"
                if row["reference"]["method"] == "exact"
                else f"{row['reference']['n_permutations']:,} permutations (their own error "
                f"{row['reference']['relative_error_percent']:.2f}%)"
            )
            sentences.append(
                f"{name.capitalize()} ({row['reference']['n_parties']} data parties): MAPE {error[100]:.1f}% "
                f"at 100, {error[1200]:.1f}% at 1,200 and {error[5000]:.1f}% at 5,000 samplings "
                f"against {against}; time linear with R² = {r2:.3f}; a permutation is "
                f"{row['ratio_per_permutation']:,.0f} times as fast as recounting."
            )
        return Verdict.of(claims, " ".join(sentences))

    def tables(self, numbers: Numbers) -> list[Table]:
        """MAPE and seconds by number of samplings."""
        rows = []
        for name, row in numbers["datasets"].items():
            published = row["published_seconds_per_permutation"]
            rows += [
                (name.capitalize(), f"{p['n']:,}", f"{p['mape']:.2f} ± {p['sd']:.2f}", f"{p['seconds']:.3f}",
                 f"{published * p['n']:,.1f}")
                for p in row["points"]
            ]  # fmt: skip
        published = "recounting every prefix, s (extrapolated)"
        return [Table(("data set", "samplings", "MAPE, %", "CPU seconds", published), tuple(rows))]

    def draw(self, numbers: Numbers) -> Figure:
        """MAPE and time."""
        curves = {
            name: [
                {**p, "x": p["n"], "published": p["n"] * row["published_seconds_per_permutation"]}
                for p in row["points"]
            ]
            for name, row in numbers["datasets"].items()
        }
        return error_and_time(curves, xlabel="samplings", published="recounting", xscale="log")
