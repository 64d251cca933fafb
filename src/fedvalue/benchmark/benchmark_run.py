"""The whole benchmark: problems, their truth, every method's estimates, scores and summaries.

Everything slow is kept in the cache as soon as it is done: the truth coalition by coalition, and the
estimates of methods that train models. A run that was stopped continues with the same command.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedvalue.benchmark.estimates import EstimateCache, value_all
from fedvalue.benchmark.methods.method_registry import REFERENCE
from fedvalue.benchmark.scores import LEAST_TOTAL, MethodSummary, Scores, summarise, truth_against_itself
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

SCHEMA = "fedvalue.benchmark/1"


@dataclass(frozen=True, slots=True)
class ProblemResult:
    """One problem and its truth.

    Args:
        name: The problem.
        source: Its data set or population.
        known: The truth is known exactly, rather than measured by retraining.
        scored: There is enough value to share.
        n_samples: Rows that methods saw.
        n_unseen: Further rows that retrained models were tested on; 0 for cross-validation.
        n_labels: Number of labels.
        task_features: Number of the task party's features.
        noise: The party without value, or None.
        parties: True value of each data party, in nats.
        total: True value of all of them.
        self_tv: Total variation between the truth's shares on two halves of the tested rows.
    """

    name: str
    source: str
    known: bool
    scored: bool
    n_samples: int
    n_unseen: int
    n_labels: int
    task_features: int
    noise: str | None
    parties: Mapping[str, float]
    total: float
    self_tv: float | None


@dataclass(frozen=True, slots=True)
class BenchmarkResult:
    """All problems, estimates, scores and their summaries.

    Args:
        profile: "quick" or "full".
        design: The settings are those for tuning.
        date: Date of the run.
        versions: Versions of FedValue, Python and the packages that numbers depend on.
        methods: Name -> description.
        problems: In the order they were run.
        estimates: Method -> problem -> party -> value.
        scores: Method -> problem -> scores.
        failed: Method -> problem -> reason.
        real: Summaries over the real settings, best method first.
        known: Summaries over the populations with known values.
        missing: Data sets that are not on this machine, with the command that gets them.
    """

    profile: str
    design: bool
    date: str
    versions: Mapping[str, str]
    methods: Mapping[str, str]
    problems: tuple[ProblemResult, ...]
    estimates: Mapping[str, Mapping[str, Mapping[str, float]]] = field(repr=False)
    scores: Mapping[str, Mapping[str, Scores]] = field(repr=False)
    failed: Mapping[str, Mapping[str, str]]
    real: tuple[MethodSummary, ...]
    known: tuple[MethodSummary, ...]
    missing: Mapping[str, str]

    def of_kind(self, *, known: bool) -> list[ProblemResult]:
        """The scored problems whose truth is known exactly, or was measured."""
        return [problem for problem in self.problems if problem.known == known and problem.scored]

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {"schema": SCHEMA, **asdict(self)}


def with_truth(problems: Sequence[Problem], cache: Path | None = None) -> list[Problem]:
    """The problems whose true values are known or finished, to judge a run that was stopped."""
    truths = TruthCache(default_cache() if cache is None else cache)
    return [problem for problem in problems if not unfinished(problem, truths)]


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
    """Compute the truth that the cache lacks, value every problem with every method, and score.

    Args:
        problems: See `benchmark_problems.plan`.
        methods: See `method_registry.chosen`.
        cache: Folder for the truth and for slow methods' estimates; the user's cache when None.
        workers: Processes that train models; 1 trains in this one.
        progress: Called with progress updates.
        profile: Recorded in the result.
        design: Recorded in the result.
        missing: Recorded in the result.

    Raises:
        InputError: No problem, no method, or a package of the extra `benchmark` is missing.
    """
    if not problems or not methods:
        raise InputError("nothing to run: " + ("; ".join((missing or {}).values()) or "no method was named"))
    require_extra("benchmark")
    folder = default_cache() if cache is None else cache
    truths = _truths(problems, TruthCache(folder), workers, progress)
    results = tuple(_problem_result(problem, truths[problem.name]) for problem in problems)
    valued = value_all(methods, problems, truths, EstimateCache(folder), progress)

    def summaries(*, known: bool) -> tuple[MethodSummary, ...]:
        sources = {
            result.name: result.source for result in results if result.scored and result.known == known
        }
        return summarise(valued.scores, valued.failed, sources, REFERENCE)

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
        real=summaries(known=False),
        known=summaries(known=True),
        missing=dict(missing or {}),
    )


def _truths(
    problems: Sequence[Problem], cache: TruthCache, workers: int, progress: Progress | None
) -> dict[str, Truth]:
    with ProcessEngine(workers) if workers > 1 else thread_engine(1) as executor:
        compute_truth(problems, cache, executor=executor, progress=progress)
    truths = ((problem.name, cache.truth(problem)) for problem in problems)
    return {name: truth for name, truth in truths if truth is not None}


def _problem_result(problem: Problem, truth: Truth) -> ProblemResult:
    table = problem.table
    return ProblemResult(
        name=problem.name,
        source=problem.source,
        known=problem.game is not None,
        scored=bool(truth.game[-1] >= LEAST_TOTAL),
        n_samples=table.n_samples,
        n_unseen=0 if problem.unseen is None else problem.unseen.n_samples,
        n_labels=len(np.unique(table.label)),
        task_features=len(table.task),
        noise=problem.noise,
        parties=dict(zip(table.names, shapley_of(truth.game).tolist(), strict=True)),
        total=float(truth.game[-1]),
        self_tv=truth_against_itself(truth),
    )
