"""Fig. 2: correlation of Shapley-CMI with SHAP-ensemble."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from fedvalue.datasets import NAMES
from fedvalue.paper.experiments import correlations, table2
from fedvalue.paper.experiments.base import Experiment, Numbers, Table, Unit, Verdict
from fedvalue.paper.experiments.drawing import grouped_bars, panels

if TYPE_CHECKING:
    from matplotlib.figure import Figure

THRESHOLD = 0.8


def units(profile: str, seed: int) -> list[Unit]:
    """The repeats, and the accuracies that select the well-performing models."""
    return [*table2.units(profile, seed), *correlations.units(profile, seed)]


def summarise(results: Mapping[str, Numbers]) -> Numbers:
    """Mean ± sd over the repeats, for each data set, features per party and ε."""
    return cells_of(results, table2.summarise(results)["datasets"], NAMES)


def cells_of(results: Mapping[str, Numbers], accuracies: Numbers, names: tuple[str, ...]) -> Numbers:
    """The cells of the figure for some data sets."""
    cells = []
    for name in names:
        repeats = correlations.repeats_of(results, name)
        for size in (int(size) for size in repeats[0]):
            for epsilon in table2.EPSILONS:
                selected = accuracies[name]["selected"][str(epsilon)]
                cells.append(
                    {
                        "dataset": name,
                        "features": size,
                        "epsilon": epsilon,
                        "n_parties": correlations.n_parties(repeats, size),
                        "models": selected,
                        "value": correlations.ensemble_correlation(repeats, size, selected, "value"),
                        "learnable": correlations.ensemble_correlation(repeats, size, selected, "learnable"),
                        "shuffled": correlations.control_correlation(repeats, size, "shuffled"),
                        "codes": correlations.control_correlation(repeats, size, "codes"),
                    }
                )
    return {"cells": cells, "threshold": THRESHOLD}


def judge(numbers: Numbers) -> Verdict:
    """Reproduced when nine in ten mean correlations are above 0.8 ("almost"); partly when half are."""
    means = [cell["value"]["mean"] for cell in numbers["cells"]]
    known = [mean for mean in means if mean is not None]
    above = sum(mean > numbers["threshold"] for mean in known)
    share = above / len(means)
    learnable = [cell["learnable"]["mean"] for cell in numbers["cells"]]
    learnable_above = sum(mean is not None and mean > numbers["threshold"] for mean in learnable)
    lowest = min(
        (cell for cell in numbers["cells"] if cell["value"]["mean"] is not None),
        key=lambda cell: float(cell["value"]["mean"]),
    )
    measured = (
        f"{above} of {len(means)} mean correlations are above {numbers['threshold']}; median "
        f"{sorted(known)[len(known) // 2]:.2f}, lowest {lowest['value']['mean']:.2f} "
        f"({lowest['dataset'].capitalize()}, {lowest['features']} feature(s) per party, "
        f"ε = {lowest['epsilon']}). The learnable value is above {numbers['threshold']} in "
        f"{learnable_above} of {len(means)}."
    )
    if share >= 0.9:
        return Verdict("reproduced", measured)
    return Verdict("partly" if share >= 0.5 else "not reproduced", measured)


def _text(number: Numbers) -> str:
    return "–" if number["mean"] is None else f"{number['mean']:.2f} ± {number['sd']:.2f}"


def tables(numbers: Numbers) -> list[Table]:
    """One row per data set and ε, one pair of columns per features per party."""
    sizes = sorted({cell["features"] for cell in numbers["cells"]})
    found = {(c["dataset"], c["epsilon"], c["features"]): c for c in numbers["cells"]}
    names = list(dict.fromkeys(cell["dataset"] for cell in numbers["cells"]))
    both = []
    for of, caption in (
        ("value", "Shapley-CMI and SHAP-ensemble, mean ± sd over the repeats"),
        ("learnable", "Learnable value and SHAP-ensemble, the same repeats"),
    ):
        rows = [
            (name.capitalize(), str(epsilon), *(_text(found[name, epsilon, size][of]) for size in sizes))
            for epsilon in table2.EPSILONS
            for name in names
        ]
        header = ("data set", "ε", *(f"{size} feature{'s' * (size > 1)} per party" for size in sizes))
        both.append(Table(header, tuple(rows), caption))
    first = table2.EPSILONS[0]  # the controls do not depend on it
    header = ("data set", *(f"{size} feature{'s' * (size > 1)} per party" for size in sizes))
    for of, caption in (
        (
            "shuffled",
            "Control: Shapley-CMI and Shapley-CMI after shuffling the labels, when there is nothing to know",
        ),
        ("codes", "Control: Shapley-CMI and the number of codes of each party"),
    ):
        rows = [(n.capitalize(), *(_text(found[n, first, size][of]) for size in sizes)) for n in names]
        both.append(Table(header, tuple(rows), caption))
    return both


def draw(numbers: Numbers) -> Figure:
    """One panel per ε, bars by features per party; hollow marks show the learnable value."""
    figure, axes = panels(2, 1, width=8.4, height=5.4)
    names = list(dict.fromkeys(cell["dataset"] for cell in numbers["cells"]))
    sizes = sorted({cell["features"] for cell in numbers["cells"]})
    found = {(c["dataset"], c["epsilon"], c["features"]): c for c in numbers["cells"]}
    for ax, epsilon in zip(axes, table2.EPSILONS, strict=True):
        series = []
        for size in sizes:
            cells = [found[name, epsilon, size]["value"] for name in names]
            label = f"{size} feature{'s' * (size > 1)} per party"
            series.append((label, [c["mean"] for c in cells], [c["sd"] for c in cells]))
        grouped_bars(ax, names, series)
        width = 0.8 / len(sizes)
        for i, name in enumerate(names):
            for k, size in enumerate(sizes):
                mean = found[name, epsilon, size]["learnable"]["mean"]
                if mean is not None:
                    ax.plot(i + (k - (len(sizes) - 1) / 2) * width, mean, "o", markerfacecolor="white",
                            markeredgecolor="black", label="learnable" if i == k == 0 else None)  # fmt: skip
        ax.axhline(numbers["threshold"], color="#666666", linewidth=0.8, linestyle="--")
        ax.set(ylabel="Pearson correlation", title=f"ε = {epsilon}", ylim=(-0.3, 1.05))
        ax.axhline(0, color="#888888", linewidth=0.6)
    axes[0].legend(ncols=4, fontsize=8, loc="lower center", bbox_to_anchor=(0.5, 1.1))
    return figure


EXPERIMENT = Experiment(
    name="fig2",
    title="Fig. 2. Shapley-CMI and SHAP-ensemble",
    claim="The correlations of Shapley-CMI and SHAP-ensemble are almost all larger than 0.8, for six data "
    "sets, 1, 2 or 3 features per party, and ε = 0.05 or 0.02.",
    units=units,
    summarise=summarise,
    judge=judge,
    tables=tables,
    draw=draw,
    notes=(
        "Each repeat draws 80% of the rows and a new random split; the quick profile has 5 repeats, the "
        "paper profile 50.",
        "Well-performing models are selected by the accuracies of our Table 2.",
        "A party's features count as one aggregated feature: its SHAP value is the sum over its features, "
        "per row and model output; SHAP-m is the mean absolute value, normalised over the data parties.",
        "Up to 12 data parties Shapley-CMI is exact, beyond that sampled with 5,000 permutations.",
    ),
    data=NAMES,
    models=True,
)
