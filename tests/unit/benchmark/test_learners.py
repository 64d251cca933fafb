"""Columns become matrices from the known rows alone, and every learner learns."""

from __future__ import annotations

import numpy as np
import pytest

from fedvalue.benchmark.learners import LEARNERS, SMOOTHING, matrices, predict


def test_matrices_are_fitted_on_the_known_rows() -> None:
    known = {"x": np.array([1.0, 3.0, np.nan, 3.0, 3.0, 5.0]), "c": np.array(["a"] * 5 + ["b"])}
    others = {"x": np.array([100.0, np.nan]), "c": np.array(["a", "never seen"])}
    left, right = matrices(known, others)
    # The median, 3, fills the gap; mean 3 and standard deviation sqrt(8 / 6) follow.
    assert left.raw[:, 0].tolist() == pytest.approx([-(3**0.5), 0, 0, 0, 0, 3**0.5])
    assert right.raw[:, 0].tolist() == pytest.approx([4.0, 0.0])  # cut off at 4 deviations
    # "b" is too rare for a category of its own, and shares one with what was never seen.
    assert left.raw[:, 1:].tolist() == [[0, 1]] * 5 + [[1, 0]]
    assert right.raw[:, 1:].tolist() == [[0, 1], [1, 0]]
    assert left.categorical == (1,)
    assert left.plain[:, 1].tolist() == [1, 1, 1, 1, 1, 0]
    assert np.isnan(left.plain[2, 0])
    # The gap has a bin of its own, the last one.
    n_bins = left.binned.shape[1] - left.raw.shape[1]
    assert left.binned[2, -1] == right.binned[1, -1] == 1
    assert left.binned[:, -n_bins:].sum(axis=1).tolist() == [1] * 6


@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.parametrize("n_labels", [2, 3])
def test_every_learner_finds_an_obvious_signal(name: str, n_labels: int) -> None:
    rng = np.random.default_rng(0)
    label = rng.integers(0, n_labels, 300)
    columns = {"x": label + 0.2 * rng.normal(size=300), "c": np.array(["p", "q"])[rng.integers(0, 2, 300)]}
    known = {key: column[:200] for key, column in columns.items()}
    others = {key: column[200:] for key, column in columns.items()}
    left, right = matrices(known, others)
    p = predict(name, left, label[:200], right, n_labels=n_labels, seed=1)
    assert p.shape == (100, n_labels)
    assert p.sum(axis=1) == pytest.approx(1)
    assert p.min() > 0
    assert np.mean(p.argmax(axis=1) == label[200:]) > 0.9
    again = predict(name, left, label[:200], right, n_labels=n_labels, seed=1)
    assert np.array_equal(p, again)


def test_a_label_that_was_never_seen_keeps_a_small_probability() -> None:
    left, right = matrices({"x": np.arange(20.0)}, {"x": np.arange(5.0)})
    p = predict("ridge", left, np.arange(20) % 2, right, n_labels=3, seed=0)
    # Half an imagined row of 20 and three halves.
    assert p[:, 2].tolist() == pytest.approx([SMOOTHING * 0.5 / 21.5] * 5)
    only = predict("forest", left, np.ones(20, dtype=np.int64), right, n_labels=2, seed=0)
    assert only[:, 1].min() > 0.99
