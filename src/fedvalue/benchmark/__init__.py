"""A benchmark of data values against what retraining really brings (extra `benchmark`).

- `real_settings`, `profiles`: problems, made by a seeded rule; `problem` is what one is.
- `learners`, `retraining`, `truth`: the true value of every coalition, by training models; cached on disk.
- `methods`: what is compared, one small class each.
- `estimates`, `scores`: methods run on problems, and how far they are from the truth.
- `benchmark_run`, `benchmark_result`, `benchmark_page`, `benchmark_plots`: the whole benchmark, and its page.

Methods see a table and nothing else: neither the truth nor the rows that the truth is measured on.
"""

from __future__ import annotations

from fedvalue.benchmark.benchmark_result import BenchmarkResult
from fedvalue.benchmark.benchmark_run import run_benchmark
from fedvalue.benchmark.methods.method import Estimate, GameMethod, Method
from fedvalue.benchmark.methods.method_registry import METHODS, chosen
from fedvalue.benchmark.problem import Problem, VerticalTable
from fedvalue.benchmark.profiles import plan

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
