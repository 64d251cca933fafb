"""Fig. 4: federated and centralised Shapley-CMI are the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from fedvalue.datasets import NAMES, load
from fedvalue.federated.options import make_options
from fedvalue.paper.experiments.base import Experiment, Numbers, Table, Unit, Verdict, unit_seed
from fedvalue.paper.experiments.drawing import COLOURS, panels
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


def units(profile: str, seed: int) -> list[Unit]:
    """One per data set, protocol and number of parties."""
    found = []
    for name in NAMES:
        for protocol in PROTOCOLS:
            for n_parties in N_PARTIES:
                key = f"federated/{name}/{protocol}/{n_parties}"
                settings = {
                    "name": name,
                    "protocol": protocol,
                    "n_parties": n_parties,
                    "bins": _BINS[protocol],
                    "rows": _ROWS[profile][protocol],
                    "seed": unit_seed(seed, f"federated/{name}/{n_parties}"),
                }
                found.append(Unit(key, compare, settings, cost=1.0))
    return found


def summarise(results: Mapping[str, Numbers]) -> Numbers:
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


def _same(run: Numbers, tolerance: float) -> bool:
    correlation = run["correlation"]
    # Two parties with equal values have no correlation; their difference still speaks.
    close = correlation is None or abs(correlation - 1) <= tolerance
    return close and bool(run["largest_difference"] <= tolerance)


def judge(numbers: Numbers) -> Verdict:
    """Reproduced when every run of every protocol gives the centralised values to 1e-9."""
    runs = numbers["runs"]
    same = [run for run in runs if _same(run, numbers["tolerance"])]
    worst = max(run["largest_difference"] for run in runs)
    protocols = sorted({run["protocol"] for run in runs})
    measured = (
        f"{len(same)} of {len(runs)} runs ({', '.join(protocols)}; "
        f"{len({run['dataset'] for run in runs})} data sets; {min(r['n_parties'] for r in runs)} to "
        f"{max(r['n_parties'] for r in runs)} data parties) give the centralised values; the largest "
        f"difference is {worst:.1e} nats."
    )
    if len(same) == len(runs):
        return Verdict("reproduced", measured)
    return Verdict("partly" if same else "not reproduced", measured)


def tables(numbers: Numbers) -> list[Table]:
    """The worst run of each data set and protocol."""
    protocols = [p for p in PROTOCOLS if any(run["protocol"] == p for run in numbers["runs"])]
    names = list(dict.fromkeys(run["dataset"] for run in numbers["runs"]))
    rows = []
    for name in names:
        cells = []
        for protocol in protocols:
            runs = [r for r in numbers["runs"] if (r["dataset"], r["protocol"]) == (name, protocol)]
            known = [r["correlation"] for r in runs if r["correlation"] is not None]
            worst = max(r["largest_difference"] for r in runs)
            cells.append(f"{min(known):.9f}, {worst:.0e}" if known else f"–, {worst:.0e}")
        rows.append((name.capitalize(), *cells))
    caption = "Lowest correlation and largest difference in nats over the numbers of parties"
    return [Table(("data set", *protocols), tuple(rows), caption)]


def draw(numbers: Numbers) -> Figure:
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


EXPERIMENT = Experiment(
    name="fig4",
    title="Fig. 4. Federated and centralised values",
    claim="Shapley-CMI computed with the federated mechanism equals the centralised one: correlation 1 on "
    "all data sets.",
    units=units,
    summarise=summarise,
    judge=judge,
    tables=tables,
    draw=draw,
    notes=(
        "The real protocols with all their roles in one process: mirror with every row and five bins; paper "
        "and single, which ask one query per cell, with two bins and at most 2,000 rows (10,000 in the "
        "paper profile).",
    ),
    data=NAMES,
)
