"""The retraining game: the improvement of a retrained model with a coalition's columns.

v(S) is the fall of the out-of-sample log loss, in nats per row, of a stack of four learners trained on the
columns of the task party and S, compared with the stack on the task party's columns alone (with the
label's frequencies, where it has none). The task-only prediction is a member of every stack: a buyer may
ignore what was bought.

Without unseen rows: repeated stratified 5-fold cross-validation; the mixture for the rows of a fold is
fitted on the other folds' held-out predictions. With unseen rows: the mixture is fitted on held-out
predictions of a 5-fold cross-validation, the learners on all known rows, and the unseen rows are predicted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from fedvalue.benchmark.learners import (
    LEARNERS,
    N_FOLDS,
    label_frequency,
    matrices,
    predict,
    rows_of,
    stratified_folds,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fedvalue.benchmark.problem import Problem
    from fedvalue.datasets.dataset import Feature
    from fedvalue.typing import Codes, Floats

TRUTH = "retraining/1"
"""Name and version of this game; a change of learners, folds or stack needs a new number."""

_PREDICTIONS = 700  # per coalition and learner: 178 rows are cross-validated 4 times
_MOST_REPEATS = 4
_EM_STEPS = 300
_IMAGINED_ROWS = 2.0


@dataclass(frozen=True, slots=True, eq=False)
class TaskOnly:
    """Predictions without any data party, a member of every coalition's stack.

    Shapes: (n_repeats, n_rows, n_labels) held out, (n_unseen, n_labels) unseen; None for cross-validation.
    """

    held_out: Floats = field(repr=False)
    unseen: Floats | None = field(repr=False)


@dataclass(frozen=True, slots=True)
class CoalitionGain:
    """v(S) over all tested rows, and over each of two fixed random halves of them."""

    value: float
    halves: tuple[float, float]


def n_repeats(problem: Problem) -> int:
    """Repeats of the cross-validation: more for smaller tables."""
    if problem.unseen is not None:
        return 1
    return int(np.clip(round(_PREDICTIONS / problem.table.n_samples), 1, _MOST_REPEATS))


def task_only(problem: Problem) -> TaskOnly:
    """Train on the task party's columns alone."""
    label = problem.table.label
    n_labels = _n_labels(problem)
    frequency = np.empty((n_repeats(problem), len(label), n_labels))
    for repeat, fold in enumerate(_folds(problem)):
        for k in range(N_FOLDS):
            frequency[repeat, fold == k] = label_frequency(label[fold != k], n_labels)
    overall = label_frequency(label, n_labels)
    unseen = None if problem.unseen is None else np.tile(overall, (problem.unseen.n_samples, 1))
    start = TaskOnly(frequency, unseen)
    return _predictions(problem, 0, start) if problem.table.task else start


def coalition_gain(problem: Problem, mask: int, without: TaskOnly) -> CoalitionGain:
    """The value of a coalition that is not empty."""
    having = _predictions(problem, mask, without)
    if problem.unseen is not None:
        assert having.unseen is not None
        assert without.unseen is not None
        label, pairs = problem.unseen.label, [(having.unseen, without.unseen)]
    else:
        label = problem.table.label
        pairs = list(zip(having.held_out, without.held_out, strict=True))
    rows = np.arange(len(label))
    gain = np.mean([np.log(p[rows, label]) - np.log(q[rows, label]) for p, q in pairs], axis=0)
    first = np.random.default_rng(problem.seed).permutation(len(label)) < len(label) // 2
    return CoalitionGain(float(gain.mean()), (float(gain[first].mean()), float(gain[~first].mean())))


def _predictions(problem: Problem, mask: int, without: TaskOnly) -> TaskOnly:
    """Stacked predictions with a coalition's columns."""
    from threadpoolctl import threadpool_limits

    table, n_labels = problem.table, _n_labels(problem)
    known, label = table.columns(mask), table.label
    held_out = []
    with threadpool_limits(1):
        for repeat, fold in enumerate(_folds(problem)):
            seed = problem.seed + 1000 * repeat
            members = np.empty((len(LEARNERS) + 1, len(label), n_labels))
            members[-1] = without.held_out[repeat]
            for k in range(N_FOLDS):
                members[:-1, fold == k] = _fit_all(
                    rows_of(known, fold != k), label[fold != k], rows_of(known, fold == k), n_labels, seed + k
                )
            of_label = members[:, np.arange(len(label)), label].T
            stacked = np.empty((len(label), n_labels))
            for k in range(N_FOLDS):
                weights = mixture_weights(of_label[fold != k])
                stacked[fold == k] = np.einsum("m,mij->ij", weights, members[:, fold == k])
            held_out.append(stacked)
        if problem.unseen is None:
            return TaskOnly(np.array(held_out), None)
        assert without.unseen is not None
        members = np.concatenate(
            [
                _fit_all(known, label, problem.unseen.columns(mask), n_labels, problem.seed),
                without.unseen[None],
            ]
        )
    # `of_label` is that of the single repeat.
    unseen = np.einsum("m,mij->ij", mixture_weights(of_label), members)
    return TaskOnly(np.array(held_out), unseen)


def _fit_all(
    known: Mapping[str, Feature], label: Codes, others: Mapping[str, Feature], n_labels: int, seed: int
) -> Floats:
    """Predictions of every learner, shape (n_learners, n_rows, n_labels)."""
    left, right = matrices(known, others)
    return np.array([predict(name, left, label, right, n_labels=n_labels, seed=seed) for name in LEARNERS])


def _folds(problem: Problem) -> list[NDArray[np.int64]]:
    """The fold of every known row, for each repeat."""
    return [
        stratified_folds(problem.table.label, np.random.default_rng([problem.seed, repeat]))
        for repeat in range(n_repeats(problem))
    ]


def _n_labels(problem: Problem) -> int:
    tables = [problem.table] if problem.unseen is None else [problem.table, problem.unseen]
    return max(int(table.label.max()) for table in tables) + 1


def mixture_weights(of_true_label: Floats) -> Floats:
    """Weights of a stack, non-negative and adding up to 1, with the largest likelihood of the labels.

    Expectation maximisation on a concave objective, so where it starts does not matter. Two imagined rows
    that the last member explains keep the others from a weight that one or two rows decide.

    Args:
        of_true_label: Probability of each row's true label by each member, shape (n_rows, n_members); the
            last member is the prediction without the data that is being valued.
    """
    n, m = of_true_label.shape
    weights = np.full(m, 1.0 / m)
    for _ in range(_EM_STEPS):
        parts = of_true_label * weights
        share = (parts / parts.sum(axis=1, keepdims=True)).sum(axis=0)
        share[-1] += _IMAGINED_ROWS
        new = share / (n + _IMAGINED_ROWS)
        if np.abs(new - weights).max() < 1e-6:
            return np.asarray(new)
        weights = new
    return weights
