"""Fig. 4: federated and centralised Shapley-CMI are the same."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from fedvalue.datasets import NAMES, load
from fedvalue.federated.options import make_options
from fedvalue.paper.experiments.drawing import COLOURS, panels
from fedvalue.paper.experiments.experiment import Experiment, Numbers, Table, Unit, Verdict, unit_seed
from fedvalue.paper.experiments.numbers import pearson

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PROTOCOLS = ("mirror", "paper", "single")
TOLERANCE = 1e-9
N_PARTIES = (2, 3, 4, 5, 6)

# `mirror` takes every row and the paper's five bins. `paper` and `single` ask one query per cell of the
# joint table, q tokens per sample and cell, so 6 parties with five bins would need billions of tokens:
# they get two bins, and Credit is cut to some rows.
_BINS = {"mirror": 5, "paper": 2, "single": 2}
_ROWS: dict[str, dict[str, int | None]] = {
    "quick": {"mirror": None, "paper": 2000, "single": 2000},
    "paper": {"mirror": None, "paper": 10_000, "single": 10_000},
}
_OPTIONS: dict[str, dict[str, Any]] = {"mirror": {}, "paper": {"q": 3, "n_r": 5}, "single": {}}


def compare(name: str, protocol: str, n_parties: int, bins: int, rows: int | None, seed: int) -> Numbers:
    """Value the same parties with a protocol, all roles real and in process, and centrally.

    The task party and each data party hold one random feature each.
    """
    import fedvalue

    dataset = load(name)
    rng = np.random.default_rng(seed)
    names = [dataset.feature_names[k] for k in rng.permutation(len(dataset.feature_names))]
    if rows is not None and rows < dataset.n_samples:
        dataset = dataset.rows(np.sort(rng.permutation(dataset.n_samples)[:rows]))
    common: dict[str, Any] = {
        "label": dataset.y,
        "task": dataset.columns(names[:1]),
        "parties": {f"party-{k}": dataset.columns([names[k]]) for k in range(1, n_parties + 1)},
        "bins": bins,
        "binning": "width",
        "method": "exact",
        "statistics": False,
    }
    central = fedvalue.value(**common, coalitions=False)
    federated = fedvalue.value(**common, protocol=make_options(protocol, **_OPTIONS[protocol]))
    return {
        "centralised": list(central.values.values()),
        "federated": [federated.values[party] for party in central.values],
        "n_samples": dataset.n_samples,
    }


class Fig4(Experiment):
    """Federated and centralised values."""

    name = "fig4"
    title = "Fig. 4. Federated and centralised values"
    claim = (
        "Shapley-CMI computed with the federated mechanism equals the centralised one: correlation 1 on "
        "all data sets."
    )
    notes = (
        "The real protocols with all their roles in one process: mirror with every row and five bins; paper "
        "and single, which ask one query per cell, with two bins and at most 2,000 rows (10,000 in the "
        "paper profile).",
    )
    data = NAMES

    def units(self, profile: str, seed: int) -> list[Unit]:
        """One per data set, protocol and number of parties."""
        units = []
        for name, protocol, n_parties in product(NAMES, PROTOCOLS, N_PARTIES):
            settings = {
                "name": name, "protocol": protocol, "n_parties": n_parties, "bins": _BINS[protocol],
                "rows": _ROWS[profile][protocol], "seed": unit_seed(seed, f"federated/{name}/{n_parties}"),
            }  # fmt: skip
            units.append(Unit(f"federated/{name}/{protocol}/{n_parties}", compare, settings))
        return units

    def summarise(self, results: Mapping[str, Numbers]) -> Numbers:
        """Correlation and largest difference of each run."""
        runs = []
        for key, result in results.items():
            _, name, protocol, n_parties = key.split("/")
            central, federated = np.array(result["centralised"]), np.array(result["federated"])
            runs.append(
                {
                    "dataset": name,
                    "protocol": protocol,
                    "n_parties": int(n_parties),
                    "n_samples": result["n_samples"],
                    "correlation": pearson(central, federated),
                    "largest_difference": float(np.abs(central - federated).max()),
                }
            )
        return {"runs": runs, "tolerance": TOLERANCE}

    def judge(self, numbers: Numbers) -> Verdict:
        """Reproduced when every run of every protocol gives the centralised values to 1e-9.

        Two parties with equal values have no correlation; their difference is judged alone.
        """
        runs, tolerance = numbers["runs"], numbers["tolerance"]
        same = sum(
            (run["correlation"] is None or abs(run["correlation"] - 1) <= tolerance)
            and run["largest_difference"] <= tolerance
            for run in runs
        )
        sizes = [run["n_parties"] for run in runs]
        measured = (
            f"{same} of {len(runs)} runs ({', '.join(sorted({run['protocol'] for run in runs}))}; "
            f"{len({run['dataset'] for run in runs})} data sets; {min(sizes)} to {max(sizes)} data parties) "
            f"give the centralised values; the largest difference is "
            f"{max(run['largest_difference'] for run in runs):.1e} nats."
        )
        return Verdict.of([same == len(runs), same > 0], measured)

    def tables(self, numbers: Numbers) -> list[Table]:
        """The worst run of each data set and protocol."""
        by: dict[tuple[str, str], list[Numbers]] = {}
        for run in numbers["runs"]:
            by.setdefault((run["dataset"], run["protocol"]), []).append(run)
        protocols = [p for p in PROTOCOLS if any(key[1] == p for key in by)]
        rows = []
        for name in dict.fromkeys(run["dataset"] for run in numbers["runs"]):
            cells = []
            for runs in (by[name, protocol] for protocol in protocols):
                known = [run["correlation"] for run in runs if run["correlation"] is not None]
                lowest = f"{min(known):.9f}" if known else "–"
                cells.append(f"{lowest}, {max(run['largest_difference'] for run in runs):.0e}")
            rows.append((name.capitalize(), *cells))
        caption = "Lowest correlation and largest difference in nats over the numbers of parties"
        return [Table(("data set", *protocols), tuple(rows), caption)]

    def draw(self, numbers: Numbers) -> Figure:
        """Differences on a log scale: bars of height 1 would show nothing."""
        figure, (ax,) = panels(1, 1, width=6.4, height=3.2)
        names = list(dict.fromkeys(run["dataset"] for run in numbers["runs"]))
        for k, protocol in enumerate(PROTOCOLS):
            runs = [run for run in numbers["runs"] if run["protocol"] == protocol]
            # An exact 0 is drawn at the bottom.
            ax.plot([names.index(run["dataset"]) + (k - 1) * 0.2 for run in runs],
                    [max(run["largest_difference"], 1e-18) for run in runs], "o", color=COLOURS[k],
                    alpha=0.7, label=protocol)  # fmt: skip
        ax.axhline(numbers["tolerance"], color="#666666", linewidth=0.8, linestyle="--")
        ax.set_xticks(range(len(names)), [name.capitalize() for name in names])
        ax.set(yscale="log", ylim=(5e-19, 1e-7), ylabel="largest |federated − centralised|, nats")
        ax.legend(ncols=3, fontsize=8, loc="lower center", bbox_to_anchor=(0.5, 1.0))
        return figure
