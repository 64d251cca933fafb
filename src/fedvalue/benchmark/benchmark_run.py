"""The whole benchmark: problems, their truth, every method's estimates, scores and summaries.

Everything slow is kept in the cache as soon as it is done: the truth coalition by coalition, and the
estimates of methods that train models. A run that was stopped continues with the same command.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fedvalue.benchmark.benchmark_result import BenchmarkResult, ProblemResult
from fedvalue.benchmark.estimates import EstimateCache, value_all
from fedvalue.benchmark.methods.method_registry import REFERENCE
from fedvalue.benchmark.scores import LEAST_TOTAL, truth_against_itself
from fedvalue.benchmark.truth import TruthCache, compute_truth, default_cache
from fedvalue.benchmark.truth import missing as unfinished
from fedvalue.engines import ProcessEngine, thread_engine
from fedvalue.errors import InputError
from fedvalue.paper.extras import require_extra, versions
from fedvalue.valuation.shapley_indices import shapley_of

if TYPE_CHECKING:
    from fedvalue.benchmark.methods.method import Method
    from fedvalue.benchmark.problem import Problem
    from fedvalue.benchmark.truth import Truth
    from fedvalue.typing import Progress


def with_truth(problems: Sequence[Problem], cache: Path | None = None) -> list[Problem]:
    """The problems whose true values are known or finished: what a run that was stopped can be judged by."""
    kept = TruthCache(default_cache() if cache is None else cache)
    return [one for one in problems if not unfinished(one, kept)]


def run_benchmark(
    problems: Sequence[Problem],
    methods: Sequence[Method],
    *,
    cache: Path | None = None,
    workers: int = 1,
    progress: Progress | None = None,
    profile: str = "",
    design: bool = False,
    missing: Mapping[str, str] | None = None,
) -> BenchmarkResult:
    """Compute what the cache lacks, value every problem by every method, and score.

    Args:
        problems: See `profiles.plan`.
        methods: See `method_registry.chosen`.
        cache: Folder for the truth and for slow methods' estimates; the user's cache when None.
        workers: Processes that train models; 1 trains in this one.
        progress: Called with progress updates.
        profile: For the record.
        design: For the record.
        missing: For the record.

    Raises:
        InputError: No problem, no method, or a package of the extra `benchmark` is missing.
    """
    if not problems or not methods:
        raise InputError("nothing to run: " + ("; ".join((missing or {}).values()) or "no method was named"))
    require_extra("benchmark")
    folder = default_cache() if cache is None else cache
    truths = _truths(problems, TruthCache(folder), workers, progress)
    results = tuple(_problem_result(one, truths[one.name]) for one in problems)
    valued = value_all(methods, problems, truths, EstimateCache(folder), progress)
    return BenchmarkResult(
        profile=profile,
        design=design,
        date=datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
        versions=versions("benchmark"),
        methods={method.name: method.about for method in methods},
        problems=results,
        estimates=valued.estimates,
        scores=valued.scores,
        failed=valued.failed,
        real=valued.summaries([one for one in results if one.scored and not one.known], REFERENCE),
        known=valued.summaries([one for one in results if one.scored and one.known], REFERENCE),
        missing=dict(missing or {}),
    )


def _truths(
    problems: Sequence[Problem], cache: TruthCache, workers: int, progress: Progress | None
) -> dict[str, Truth]:
    with ProcessEngine(workers) if workers > 1 else thread_engine(1) as executor:
        compute_truth(problems, cache, executor=executor, progress=progress)
    found = {one.name: cache.truth(one) for one in problems}
    return {name: truth for name, truth in found.items() if truth is not None}


def _problem_result(one: Problem, truth: Truth) -> ProblemResult:
    table = one.table
    return ProblemResult(
        name=one.name,
        source=one.source,
        known=one.game is not None,
        scored=bool(truth.game[-1] >= LEAST_TOTAL),
        n_samples=table.n_samples,
        n_unseen=0 if one.unseen is None else one.unseen.n_samples,
        n_labels=len(np.unique(table.label)),
        task_features=len(table.task),
        noise=one.noise,
        parties=dict(zip(table.names, shapley_of(truth.game).tolist(), strict=True)),
        total=float(truth.game[-1]),
        self_tv=truth_against_itself(truth),
    )
