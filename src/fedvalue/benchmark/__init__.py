"""A benchmark of data values against the gains of retraining (extra `benchmark`).

- `problem`, `benchmark_problems`: a problem, and the problems of a run, made by a seeded rule.
- `learners`, `retraining`, `truth`: the true value of every coalition, by training models; cached on disk.
- `methods`: the methods that are compared, one small class each.
- `estimates`, `scores`: methods run on problems, and their distance from the truth.
- `benchmark_run`, `benchmark_page`: the whole benchmark, its result and its page.

Methods see a table and nothing else: neither the truth nor the rows that the truth is measured on.
"""

from __future__ import annotations

from fedvalue.benchmark.benchmark_problems import plan
from fedvalue.benchmark.benchmark_run import BenchmarkResult, run_benchmark
from fedvalue.benchmark.methods.method import Estimate, GameMethod, Method
from fedvalue.benchmark.methods.method_registry import METHODS, chosen
from fedvalue.benchmark.problem import Problem, VerticalTable

__all__ = [
    "METHODS",
    "BenchmarkResult",
    "Estimate",
    "GameMethod",
    "Method",
    "Problem",
    "VerticalTable",
    "chosen",
    "plan",
    "run_benchmark",
]
