"""The timings behind Fig. 5 and Fig. 6."""

from __future__ import annotations

import pytest

from fedvalue.federated import run
from fedvalue.paper.experiments.timing_figures import Fig5, Fig6, TimingFigure, measure
from fedvalue.protocol.tokens.queries import check_budget


class StartedError(Exception):
    """The run would start now."""


@pytest.mark.parametrize("figure", [Fig5(), Fig6()])
def test_every_quick_timing_is_within_the_limit_of_tokens(
    figure: TimingFigure, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A timing beyond it would end `reproduce all` after all the other work."""

    def stop(settings: object) -> None:
        check_budget(settings)  # type: ignore[arg-type]
        raise StartedError

    monkeypatch.setattr(run, "check_budget", stop)
    for unit in figure.units("quick", 0):
        with pytest.raises(StartedError):
            measure(**unit.settings)
