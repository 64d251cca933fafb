"""Draw the pictures of README and docs/scale.md: `python benchmarks/drawings.py [GROWTH.json]`.

- `docs/images/corner.svg`: CPU time against TV of every method, from `docs/benchmark/benchmark.json`.
- `docs/images/growth.svg`: the curves of `bench_growth`, from its JSON, a copy of which is kept beside it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from fedvalue.paper.experiments.drawing import COLOURS, panels, styled, svg

DOCS = Path(__file__).resolve().parents[1] / "docs"
SHOWN = {
    "learnable": "FedValue: learnable",
    "shapley-cmi": "Shapley-CMI",
    "information-value": "summed information value",
    "knn-information": "KNN information (PS-MI)",
    "shap-ensemble": "SHAP, five models",
    "permutation-importance": "permutation importance",
    "leave-one-party-out": "leave one party out",
}
AXES = {
    "rows": "rows",
    "parties": "parties",
    "features": "features per party",
    "codes": "codes per feature",
    "labels": "labels",
    "workers": "workers",
}


def main() -> None:
    """Draw both pictures, the second if its numbers exist."""
    images = DOCS / "images"
    result = json.loads((DOCS / "benchmark" / "benchmark.json").read_text())
    (images / "corner.svg").write_text(corner(result))
    kept = images / "growth.json"
    if len(sys.argv) > 1:
        kept.write_text(Path(sys.argv[1]).read_text())
    if kept.exists():
        (images / "growth.svg").write_text(growth(json.loads(kept.read_text())))


def corner(result: dict[str, Any]) -> str:
    """Every method's mean CPU time and mean TV over the real settings."""
    means = {row["name"]: row["means"] for row in result["real"]}
    with styled():
        figure, (ax,) = panels(1, 1, width=6.2, height=3.4)
        for name, label in SHOWN.items():
            seconds, tv = means[name]["seconds"]["value"], means[name]["tv"]
            ours = name == "learnable"
            colour = COLOURS[0] if ours else COLOURS[-1]
            below = name != "leave-one-party-out"  # where another method's error bar would cross it
            ax.errorbar(seconds, 100 * tv["value"], yerr=100 * tv["se"], fmt="o", color=colour, capsize=2)
            ax.annotate(
                label, (seconds, 100 * tv["value"]), (7, -12 if below else 4),
                textcoords="offset points", color=colour, fontweight="bold" if ours else "normal",
            )  # fmt: skip
        ax.set_xscale("log")
        ax.set_xlim(right=25)
        ax.set_ylim(bottom=0)
        ax.set_xlabel("CPU seconds per table")
        ax.set_ylabel("money to the wrong party (TV), %")
    return svg(figure, salt="corner")


def growth(document: dict[str, Any]) -> str:
    """One panel per size."""
    with styled():
        figure, axes = panels(2, 3, width=8.6, height=4.6)
        for ax, (axis, label) in zip(axes, AXES.items(), strict=True):
            curve = {int(size): took for size, took in document["curves"][axis].items()}
            ax.plot(list(curve), list(curve.values()), "o-", color=COLOURS[0])
            ax.set_xlabel(label)
            if axis == "workers":
                ax.set_ylim(bottom=0)
                ax.set_xticks(list(curve))
                ax.set_ylabel("seconds")
                continue
            ax.set_xscale("log")
            ax.set_yscale("log")
            ax.set_xticks(list(curve), [f"{size:,}" for size in curve])
            ax.set_xticks([], minor=True)
            ax.set_yticks(list(curve.values()), [f"{took:.2g}" for took in curve.values()])
            ax.set_yticks([], minor=True)
            ax.set_ylabel("CPU seconds")
            base, most = document["base"][axis], max(curve)
            ax.plot([base, most], [curve[base], curve[base] * most / base], "--", color=COLOURS[-1])
    return svg(figure, salt="growth")


if __name__ == "__main__":
    main()
