"""Fig. 8: error and time after PCA, with five data parties."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

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
from fedvalue.paper.experiments.numbers import growth_factor, mape, mean_sd
from fedvalue.paper.experiments.published import simulation_seconds
from fedvalue.paper.experiments.setting import discretised, even_groups

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DATASETS = ("breast", "music")
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
        return [
            Unit(
                f"pca/{name}/{reading}/{k:02d}",
                reduce,
                {
                    "name": name,
                    "reading": reading,
                    "components": list(COMPONENTS),
                    "simulate": k == 0,
                    "seed": unit_seed(seed, f"pca/{name}/{k:02d}"),
                },
                cost=_COST[name] if k == 0 else 1.0,
                alone=True,
            )
            for name in DATASETS
            for reading in READINGS
            for k in range(_REPEATS[profile])
        ]

    def summarise(self, results: Mapping[str, Numbers]) -> Numbers:
        """MAPE against all features, and times, by number of components, for each reading."""
        readings: Numbers = {reading: {} for reading in READINGS}
        for name in data_sets_of(results):
            for reading in READINGS:
                repeats = [
                    results[key] for key in sorted(results) if key.startswith(f"pca/{name}/{reading}/")
                ]
                points = []
                for k in ("all", *map(str, COMPONENTS)):
                    mean, sd, _ = mean_sd([mape(one[k]["values"], one["all"]["values"]) for one in repeats])
                    points.append(
                        {
                            "components": k,
                            "mape": mean,
                            "sd": sd,
                            "seconds": float(np.median([one[k]["seconds"] for one in repeats])),
                            "simulation_seconds": repeats[0][k].get("simulation_seconds"),
                            "codes": float(np.mean([np.mean(one[k]["codes"]) for one in repeats])),
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
        claims: dict[str, list[bool]] = {"falls": [], "grows": []}
        other: dict[str, list[bool]] = {"falls": [], "grows": []}
        sentences = []
        for reading, rows in numbers["readings"].items():
            for name, row in rows.items():
                by = _by_components(row)
                few = [k for k in by if k <= 4]
                published = growth_factor(few, [by[k]["simulation_seconds"] for k in few])
                held = claims if reading == "label-only" else other
                held["falls"].append(by[4]["mape"] <= 0.8 * by[2]["mape"])
                held["grows"].append(published >= 1.5)
                if reading == "label-only":
                    errors = [f"{by[k]['mape']:.0f}%" for k in few]
                    ours = growth_factor(few, [by[k]["seconds"] for k in few])
                    whole = next(p for p in row["points"] if p["components"] == "all")
                    sentences.append(
                        f"{name.capitalize()}: MAPE {', '.join(errors)} with 1 "
                        f"to 4 components; each one multiplies the published time by {published:.1f} and "
                        f"ours by {ours:.2f} (all features: {whole['seconds'] * 1000:.0f} ms here)."
                    )
        sentences.append(
            f"With features at the task party the error falls so on {sum(other['falls'])} of "
            f"{len(other['falls'])} data sets, and the time on {sum(other['grows'])}."
        )
        return Verdict.of(claims["falls"] + claims["grows"], " ".join(sentences))

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
