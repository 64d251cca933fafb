"""Fig. 6: computation time over the privacy parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from fedvalue.paper.experiments import efficiency
from fedvalue.paper.experiments.base import Experiment, Numbers, Table, Unit, Verdict
from fedvalue.paper.experiments.drawing import panels
from fedvalue.paper.experiments.fig5 import time_panel, time_table
from fedvalue.paper.experiments.numbers import linear_fit

if TYPE_CHECKING:
    from matplotlib.figure import Figure

GROUP = "privacy"
PANELS = {"q": "encryption IDs per sample (q)", "adversarial": "adversarial samples"}
_VALUES: dict[str, dict[str, tuple[int, ...]]] = {
    "quick": {"q": (1, 2, 3, 4, 5), "adversarial": (10_000, 100_000, 200_000, 400_000, 800_000)},
    "paper": {
        "q": (1, 2, 3, 4, 5, 6, 8, 10),
        "adversarial": (10_000, 90_000, 200_000, 400_000, 600_000, 900_000),
    },
}
R_SQUARED = 0.95


def units(profile: str, seed: int) -> list[Unit]:
    """One timing per point, alone on the machine."""
    return [
        efficiency.unit(GROUP, varied, value, simulate=True, cost=4.0 + 8.0 * value / 400_000, seed=seed)
        for varied, values in _VALUES[profile].items()
        for value in values
    ]


def summarise(results: Mapping[str, Numbers]) -> Numbers:
    """Timings and straight lines through them."""
    found = {varied: efficiency.points(results, GROUP, varied) for varied in PANELS}
    fits: Numbers = {}
    for varied, points in found.items():
        fits[varied] = {}
        for name, key in (("here", "seconds"), ("published", "simulation_seconds")):
            slope, intercept, r2 = linear_fit([p["x"] for p in points], [p[key] for p in points])
            fits[varied][name] = {"slope": slope, "intercept": intercept, "r2": r2}
    return {"points": found, "fits": fits, "r_squared": R_SQUARED}


def judge(numbers: Numbers) -> Verdict:
    """Linear in both parameters: a rising line explains at least 95% of the variance of the times."""
    fits = numbers["fits"]
    straight = {
        varied: fit["here"]["slope"] > 0 and fit["here"]["r2"] >= numbers["r_squared"]
        for varied, fit in fits.items()
    }
    q, adversarial = fits["q"]["here"], fits["adversarial"]["here"]
    measured = (
        f"Each encryption ID per sample adds {q['slope']:.2f} s (R² = {q['r2']:.3f}), each 100,000 "
        f"adversarial samples {adversarial['slope'] * 1e5:.2f} s (R² = {adversarial['r2']:.3f})."
    )
    if all(straight.values()):
        return Verdict("reproduced", measured)
    return Verdict("partly" if any(straight.values()) else "not reproduced", measured)


def tables(numbers: Numbers) -> list[Table]:
    """One table per panel."""
    return [time_table(numbers["points"][varied], what) for varied, what in PANELS.items()]


def draw(numbers: Numbers) -> Figure:
    """Two panels."""
    figure, axes = panels(1, 2, width=7.4, height=3.2)
    for ax, (varied, what) in zip(axes, PANELS.items(), strict=True):
        time_panel(ax, numbers["points"][varied], what, log_x=False)
    axes[0].set_ylabel("CPU seconds")
    axes[0].legend(ncols=2, fontsize=8, loc="lower left", bbox_to_anchor=(0.0, 1.0))
    return figure


EXPERIMENT = Experiment(
    name="fig6",
    title="Fig. 6. Time over the privacy parameters",
    claim="Computation time is linear in the ID duplication times q and in the adversarial samples.",
    units=units,
    summarise=summarise,
    judge=judge,
    tables=tables,
    draw=draw,
    notes=("Set-up and published simulation as in Fig. 5.",),
)
