"""Fig. 7 and Fig. 8: error and time of sampled permutations, and after PCA with five data parties."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from itertools import pairwise, product
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
from fedvalue.paper.experiments.numbers import growth_factor, linear_fit, mape, mean_sd
from fedvalue.paper.experiments.published import recount_seconds, simulation_seconds
from fedvalue.paper.experiments.setting import discretised, even_groups
from fedvalue.valuation.engine import value_counts
from fedvalue.valuation.settings import Method, ValuationSettings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from fedvalue.information.contingency import JointCounts

DATASETS = ("breast", "music")

# Fig. 7.

SAMPLINGS = (100, 300, 600, 1200, 2500, 5000, 10_000)

_SIZES: dict[str, dict[str, int]] = {
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

        def unit(part: str, call: Any, *, cost: float, alone: bool = True, **settings: Any) -> Unit:
            key = f"sampling/{name}/{part}"
            settings |= {"name": name, "seed": unit_seed(seed, key)}
            settings["split_seed"] = unit_seed(seed, f"sampling/{name}")
            return Unit(key, call, settings, cost=cost, alone=alone)

        units = []
        for name in DATASETS:
            how = {"method": "exact", "n_permutations": 2}
            if name == "music":
                how = {"method": "sampled", "n_permutations": size["music_permutations"]}
            units.append(unit("reference", reference, cost=60.0, alone=False, **how))
            units.append(unit("published", recount, cost=2.0, n_permutations=size["recounted"]))
            for n in SAMPLINGS:
                cost = 0.3 + n / 5000
                units.append(unit(str(n), sample, cost=cost, n_permutations=n, repeats=size["repeats"]))
        return units

    def summarise(self, results: Mapping[str, Numbers]) -> Numbers:
        """MAPE against the reference, and times."""
        rows: Numbers = {}
        for name in data_sets_of(results):
            truth = results[f"sampling/{name}/reference"]
            points = []
            for n in SAMPLINGS:
                sampled = results[f"sampling/{name}/{n}"]
                mean, sd, _ = mean_sd([mape(run, truth["values"]) for run in sampled["runs"]])
                points.append({"n": n, "mape": mean, "sd": sd, "seconds": sampled["seconds"]})
            per_permutation = results[f"sampling/{name}/published"]["seconds_per_permutation"]
            one_error_off = np.array(truth["values"]) + np.array(truth["se"])
            rows[name] = {
                "points": points,
                "reference": {
                    **{key: truth[key] for key in ("method", "n_permutations", "seconds")},
                    "relative_error_percent": mape(one_error_off, truth["values"]),
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
            truth, against = row["reference"], "exact values"
            if truth["method"] != "exact":
                error_of_truth = f"(their own error {truth['relative_error_percent']:.2f}%)"
                against = f"{truth['n_permutations']:,} permutations {error_of_truth}"
            sentences.append(
                f"{name.capitalize()} ({truth['n_parties']} data parties): MAPE {error[100]:.1f}% "
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


# Fig. 8.

READINGS = {
    "label-only": "The task party holds the label only (the authors' set-up)",
    "with-features": "The task party also holds a sixth of the features",
}
COMPONENTS = (1, 2, 3, 4, 5)
N_PARTIES = 5
_REPEATS = {"quick": 5, "paper": 50}
_COST = {"breast": 3.0, "music": 12.0}


def reduce(name: str, reading: str, components: list[int], simulate: bool, seed: int) -> Numbers:
    """Values and times of one random deal, with all features and with a few components per party."""
    data = discretised(name)
    rng = np.random.default_rng(seed)
    n_groups = N_PARTIES + (reading == "with-features")
    groups = even_groups(data.n_features, n_groups, rng)
    task = groups.pop() if reading == "with-features" else []

    def columns(group: Sequence[int]) -> dict[str, Any]:
        return {f"x{k}": data.codes[:, k].astype(np.float64) for k in group}

    arguments: dict[str, Any] = {
        "label": data.label.astype(np.str_),
        "task": columns(task) or None,
        "parties": {f"party-{d}": columns(group) for d, group in enumerate(groups, 1)},
        "binning": "width",
        "method": "exact",
        "statistics": False,
        "coalitions": False,
    }
    _value(arguments, None)  # compile and load before anything is timed
    by_components: Numbers = {"features": max(map(len, groups))}
    for k in [None, *components]:
        valued, seconds = _value(arguments, k)
        by_components["all" if k is None else str(k)] = {
            "values": list(valued.values.values()),
            "codes": [party.n_codes for party in valued.parties],
            "seconds": seconds,
            **({"simulation_seconds": _simulation(arguments, k)} if simulate else {}),
        }
    return by_components


def _value(arguments: dict[str, Any], components: int | None) -> tuple[Any, float]:
    import fedvalue

    start = time.process_time()
    valued = fedvalue.value(**arguments, pca=components)
    return valued, time.process_time() - start


def _simulation(arguments: dict[str, Any], components: int | None) -> float:
    """The published simulation on the same codes, without adversarial samples; q = 3."""
    from fedvalue.information.contingency import pack
    from fedvalue.tables.coding_settings import CodingSettings
    from fedvalue.tables.party_table import label_table, party_table

    plain, reduced = CodingSettings(binning="width"), CodingSettings(binning="width", pca=components)
    label = label_table(arguments["label"], plain).codes
    if arguments["task"] is not None:
        label = pack([party_table("task", arguments["task"], plain).codes, label])
    parties = [party_table(name, X, reduced) for name, X in arguments["parties"].items()]
    return simulation_seconds(label, [party.codes for party in parties], q=3)


def _by_components(row: Numbers) -> dict[int, Numbers]:
    return {int(p["components"]): p for p in row["points"] if p["components"] != "all"}


class Fig8(Experiment):
    """Error and time after PCA."""

    name = "fig8"
    title = "Fig. 8. Feature dimension reduction by PCA"
    claim = (
        "With 5 data parties, MAPE decreases rapidly from 2 to 4 components, and time decreases "
        "exponentially with fewer components (Breast and Music)."
    )
    notes = (
        "Each party runs its own PCA on its standardised bin codes and bins the components; exact values.",
        "The published simulation is timed on the same codes with q = 3, one order × 120, in one repeat.",
    )
    data = DATASETS

    def units(self, profile: str, seed: int) -> list[Unit]:
        """One per data set, reading and repeat; the published simulation is timed in the first one only."""
        units = []
        for name, reading, k in product(DATASETS, READINGS, range(_REPEATS[profile])):
            settings = {
                "name": name, "reading": reading, "components": list(COMPONENTS), "simulate": k == 0,
                "seed": unit_seed(seed, f"pca/{name}/{k:02d}"),
            }  # fmt: skip
            cost = _COST[name] if k == 0 else 1.0
            units.append(Unit(f"pca/{name}/{reading}/{k:02d}", reduce, settings, cost=cost, alone=True))
        return units

    def summarise(self, results: Mapping[str, Numbers]) -> Numbers:
        """MAPE against all features, and times, by number of components, for each reading."""
        readings: Numbers = {reading: {} for reading in READINGS}
        for name, reading in product(data_sets_of(results), READINGS):
            repeats = [results[key] for key in sorted(results) if key.startswith(f"pca/{name}/{reading}/")]
            points = []
            for k in ("all", *map(str, COMPONENTS)):
                same = [repeat[k] for repeat in repeats]
                errors = [mape(repeat[k]["values"], repeat["all"]["values"]) for repeat in repeats]
                mean, sd, _ = mean_sd(errors)
                points.append(
                    {
                        "components": k,
                        "mape": mean,
                        "sd": sd,
                        "seconds": float(np.median([valued["seconds"] for valued in same])),
                        "simulation_seconds": same[0].get("simulation_seconds"),
                        "codes": float(np.mean([np.mean(valued["codes"]) for valued in same])),
                    }
                )
            readings[reading][name] = {
                "points": points, "features": repeats[0]["features"], "n_repeats": len(repeats)
            }  # fmt: skip
        return {"readings": readings, "n_parties": N_PARTIES}

    def judge(self, numbers: Numbers) -> Verdict:
        """Two claims per data set, asked of the authors' reading (the task party holds the label only).

        MAPE falls from 2 to 4 components: at 4 at most 0.8 of the error at 2. Time falls exponentially: each
        component multiplies the published procedure's time by at least 1.5, from 1 to 4.
        """
        falls: dict[str, list[bool]] = {reading: [] for reading in READINGS}
        grows: dict[str, list[bool]] = {reading: [] for reading in READINGS}
        sentences = []
        for reading, rows in numbers["readings"].items():
            for name, row in rows.items():
                by = _by_components(row)
                few = [k for k in by if k <= 4]
                published = growth_factor(few, [by[k]["simulation_seconds"] for k in few])
                falls[reading].append(by[4]["mape"] <= 0.8 * by[2]["mape"])
                grows[reading].append(published >= 1.5)
                if reading == "label-only":
                    errors = [f"{by[k]['mape']:.0f}%" for k in few]
                    ours = growth_factor(few, [by[k]["seconds"] for k in few])
                    whole = next(p for p in row["points"] if p["components"] == "all")
                    sentences.append(
                        f"{name.capitalize()}: MAPE {', '.join(errors)} with 1 "
                        f"to 4 components; each one multiplies the published time by {published:.1f} and "
                        f"ours by {ours:.2f} (all features: {whole['seconds'] * 1000:.0f} ms here)."
                    )
        other = "with-features"
        sentences.append(
            f"With features at the task party the error falls so on {sum(falls[other])} of "
            f"{len(falls[other])} data sets, and the time on {sum(grows[other])}."
        )
        return Verdict.of(falls["label-only"] + grows["label-only"], " ".join(sentences))

    def tables(self, numbers: Numbers) -> list[Table]:
        """One table per reading, one row per data set and number of components."""
        header = (
            "data set", "components per party", "codes per party", "MAPE, %", "CPU ms",
            "published simulation × 120, s",
        )  # fmt: skip
        tables = []
        for reading, caption in READINGS.items():
            rows = []
            for name, row in numbers["readings"][reading].items():
                for p in row["points"]:
                    whole = p["components"] == "all"
                    rows.append(
                        (
                            name.capitalize(),
                            f"all {row['features']} features" if whole else p["components"],
                            f"{p['codes']:.0f}",
                            "0 (reference)" if whole else f"{p['mape']:.1f} ± {p['sd']:.1f}",
                            f"{p['seconds'] * 1000:.1f}",
                            f"{p['simulation_seconds']:,.1f}",
                        )
                    )
            tables.append(Table(header, tuple(rows), caption))
        return tables

    def draw(self, numbers: Numbers) -> Figure:
        """MAPE and time."""
        curves = {
            name: [
                {**p, "x": k, "published": p["simulation_seconds"]}
                for k, p in sorted(_by_components(row).items())
            ]
            for name, row in numbers["readings"]["label-only"].items()
        }
        return error_and_time(
            curves, xlabel="components per party", published="published × 120", xticks=COMPONENTS
        )
