"""What a run of the benchmark found: plain data, and its JSON form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from fedvalue.benchmark.scores import MethodSummary, Scores

SCHEMA = "fedvalue.benchmark/1"


@dataclass(frozen=True, slots=True)
class ProblemResult:
    """One problem and its truth.

    Args:
        name: The problem.
        source: Its data set or population.
        known: Whether the truth is known exactly, rather than measured by retraining.
        scored: Whether there is enough value to share.
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
        design: Whether the settings are those that one may tune on.
        date: Of the run.
        versions: What it was made with.
        methods: Name -> what it is.
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
