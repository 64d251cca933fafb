"""The experiments by name, in the paper's order. A module is loaded only when its experiment is asked for."""

from __future__ import annotations

from importlib import import_module

from fedvalue.errors import InputError
from fedvalue.paper.experiments.base import Experiment

NAMES = ("table1", "table2", "fig2", "fig3", "fig4", "fig5", "fig6", "fig7", "fig8")


def experiment(name: str) -> Experiment:
    """The experiment of that name.

    Raises:
        InputError: There is no such experiment.
    """
    if name not in NAMES:
        raise InputError(f"unknown experiment {name!r}; there are {', '.join(NAMES)} and all")
    found: Experiment = import_module(f"fedvalue.paper.experiments.{name}").EXPERIMENT
    return found


def chosen(names: list[str]) -> list[Experiment]:
    """The experiments asked for, in the paper's order; `all` is all of them."""
    wanted = set(NAMES) if "all" in names else {experiment(name).name for name in names}
    for name in names:
        if name != "all":
            experiment(name)
    return [experiment(name) for name in NAMES if name in wanted]
