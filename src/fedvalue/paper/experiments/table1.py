"""Table 1: the six data sets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from fedvalue.datasets import NAMES, load
from fedvalue.paper.experiments.base import Experiment, Numbers, Table, Unit, Verdict
from fedvalue.paper.experiments.drawing import COLOURS, panels

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAPER = {
    "wine": {"features": 13, "labels": 3, "samples": 178},
    "parkinsons": {"features": 22, "labels": 2, "samples": 195},
    "spect": {"features": 22, "labels": 2, "samples": 267},
    "breast": {"features": 30, "labels": 2, "samples": 569},
    "music": {"features": 57, "labels": 10, "samples": 1000},
    "credit": {"features": 23, "labels": 2, "samples": 30000},
}


# In the drawing: Parkinsons, Spect and Wine lie close together.
_LABEL_OFFSETS = {"parkinsons": (9, -10), "wine": (-30, 9)}


def count(name: str) -> Numbers:
    """Sizes of one data set as loaded."""
    dataset = load(name)
    return {
        "features": len(dataset.feature_names),
        "labels": dataset.n_labels,
        "samples": dataset.n_samples,
        "sha256": dataset.sha256,
    }


def units(profile: str, seed: int) -> list[Unit]:
    """One per data set."""
    del profile, seed
    return [Unit(f"sizes/{name}", count, {"name": name}, cost=0.1) for name in NAMES]


def summarise(results: Mapping[str, Numbers]) -> Numbers:
    """Sizes beside the paper's."""
    found = {key.split("/")[1]: result for key, result in results.items()}
    return {"datasets": {name: {"measured": sizes, "paper": PAPER[name]} for name, sizes in found.items()}}


def judge(numbers: Numbers) -> Verdict:
    """Reproduced when every number is the paper's."""
    equal = [
        name
        for name, row in numbers["datasets"].items()
        if all(row["measured"][key] == value for key, value in row["paper"].items())
    ]
    n = len(numbers["datasets"])
    word = f"{len(equal)} of {n} data sets have the paper's numbers of features, labels and samples."
    if len(equal) == n:
        return Verdict("reproduced", word)
    return Verdict("partly" if equal else "not reproduced", word)


def tables(numbers: Numbers) -> list[Table]:
    """The paper's table."""
    rows = [
        (name.capitalize(), *(f"{row['measured'][key]:,}" for key in ("features", "labels", "samples")),
         row["measured"]["sha256"][:12])
        for name, row in numbers["datasets"].items()
    ]  # fmt: skip
    return [Table(("data set", "features", "labels", "samples", "fingerprint"), tuple(rows))]


def draw(numbers: Numbers) -> Figure:
    """Samples over features, as a map of the six."""
    figure, (ax,) = panels(1, 1, width=5.2, height=3.2)
    for k, (name, row) in enumerate(numbers["datasets"].items()):
        size = row["measured"]
        ax.scatter(size["features"], size["samples"], s=40 + 20 * size["labels"], color=COLOURS[k])
        offset = _LABEL_OFFSETS.get(name, (9, 4))
        ax.annotate(f"{name.capitalize()} ({size['labels']} labels)", (size["features"], size["samples"]),
                    xytext=offset, textcoords="offset points", fontsize=8)  # fmt: skip
    ax.set(yscale="log", xlabel="features", ylabel="samples", xlim=(2, 75), ylim=(100, 80_000))
    return figure


EXPERIMENT = Experiment(
    name="table1",
    title="Table 1. The six data sets",
    claim="Wine 13 features, 3 labels, 178 samples; Parkinsons 22, 2, 195; Spect 22, 2, 267; "
    "Breast 30, 2, 569; Music 57, 10, 1000; Credit 23, 2, 30000.",
    units=units,
    summarise=summarise,
    judge=judge,
    tables=tables,
    draw=draw,
    notes=("Values are checked against a fingerprint, so every run reads the same numbers.",),
    data=NAMES,
)
