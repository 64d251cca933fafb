"""What both servers of a run compute from their counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from fedvalue.federated.valuation_parts import split
from fedvalue.protocol.outcome import Answer, Valuer

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from fedvalue.information.contingency import JointCounts
    from fedvalue.protocol.settings import Settings
    from fedvalue.typing import Progress
    from fedvalue.valuation.settings import ValuationSettings


def make_valuer(
    settings: ValuationSettings, *, executor: Executor | None = None, progress: Progress | None = None
) -> Valuer:
    """The function that both servers apply to their counts.

    Args:
        settings: What to compute, the same at both servers.
        executor: Where the work runs.
        progress: Called with progress updates.
    """

    def valuer(counts: JointCounts, run: Settings) -> Answer:
        from fedvalue.valuation.engine import value_counts

        # Two servers of different size must choose the same method.
        valuation = value_counts(counts, settings, reproducible=True, executor=executor, progress=progress)
        return split(valuation)

    return valuer


def make_noisy_valuer(
    settings: ValuationSettings, *, executor: Executor | None = None, progress: Progress | None = None
) -> Valuer:
    """The same where noise is added: only the values may depend on the data, not even the method may.

    The method is chosen by the sizes of the run, which are public.

    Args:
        settings: What to compute. Statistics are left out, since none may leave, and so is a precision,
            because the number of permutations would reveal something about the data.
        executor: Where the work runs.
        progress: Called with progress updates.
    """
    from fedvalue.valuation.shapley_cmi import AFFORDABLE_VISITS

    def valuer(counts: JointCounts, run: Settings) -> Answer:
        method = settings.method
        if method == "auto":
            visits = min(run.n_samples, run.n_cells) * 2.0 ** len(run.parties)
            method = "exact" if visits <= AFFORDABLE_VISITS else "sampled"
        private = replace(settings, method=method, statistics=False, precision=None)
        return make_valuer(private, executor=executor, progress=progress)(counts, run)

    return valuer
