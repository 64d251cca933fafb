"""A change is told from noise by the error of a difference of nested means."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from fedvalue.information.contingency import JointCounts
from fedvalue.local.incremental import N_DRAWS, changes, drift_of
from fedvalue.valuation.engine import value_counts
from fedvalue.valuation.result import PartyValue, Valuation
from fedvalue.valuation.settings import ValuationSettings

OWN = (1 + 1 / N_DRAWS) ** 0.5  # the drift's own error comes on top


def valuation(n, **parties):
    rows = tuple(
        PartyValue(
            name=name, value=value, share=0.5, alone=value, last=value, n_codes=2, se_data=se, se_sampling=ss
        )
        for name, (value, se, ss) in parties.items()
    )
    return Valuation(parties=rows, total=1.0, label_entropy=1.0, n_samples=n, method="exact")


def test_the_error_of_the_difference_is_that_of_nested_means():
    """The formula agrees with the spread of (mean of n') - (mean of the first n) over 20,000 repeats.

    The relative error of a standard deviation from N repeats is 1/sqrt(2N) = 0.5%; 4 of these are allowed.
    """
    n, more, spread = 40, 160, 3.0
    rng = np.random.default_rng(0)
    samples = rng.normal(0, spread, size=(20_000, more))
    observed = (samples.mean(axis=1) - samples[:, :n].mean(axis=1)).std()
    (change,) = changes(
        valuation(n, a=(0, spread / n**0.5, 0)), valuation(more, a=(0, spread / more**0.5, 0)), {}
    )
    assert change.error == pytest.approx(observed * OWN, rel=0.02)


def test_a_change_within_its_error_is_none():
    """By hand: n = 100 -> 200 with se 0.1 after has an error of 0.1 (0.103 with the drift's own)."""
    before = valuation(100, a=(1.0, 0.2, 0), b=(1.0, 0.2, 0))
    after = valuation(200, a=(1.19, 0.1, 0), b=(1.21, 0.1, 0))
    a, b = changes(before, after, {})
    assert a.error == pytest.approx(0.1 * OWN)
    assert (a.beyond_error, b.beyond_error) == (False, True)


def test_sampling_errors_come_on_top():
    """Two sampled values on the same rows differ by their sampling errors alone."""
    (change,) = changes(valuation(10, a=(1.0, 0.5, 0.3)), valuation(10, a=(2.0, 0.5, 0.4)), {})
    assert change.error == pytest.approx(0.5)


def test_nothing_added_is_no_change():
    """The same rows again: difference and error are 0."""
    (change,) = changes(valuation(10, a=(1.0, 0.5, 0)), valuation(10, a=(1.0, 0.5, 0)), {})
    assert (change.error, change.beyond_error) == (0.0, False)


def test_without_an_error_of_the_data_nothing_is_claimed():
    """`se_data` was not computed: the change is told, its meaning is not."""
    (change,) = changes(valuation(10, a=(1.0, None, 0)), valuation(20, a=(2.0, None, 0)), {})
    assert change.beyond_error is None
    assert msgspec.to_builtins(change) == {"name": "a", "before": 1.0, "after": 2.0, "expected": 2.0}


def test_a_new_party_has_no_change():
    """Only parties of both valuations are compared."""
    assert changes(valuation(10, a=(1.0, 0.1, 0)), valuation(20, b=(1.0, 0.1, 0)), {}) == ()


def rows_of(rng, n, codes=40):
    """A label, a party of two codes that matter, and one of many codes that do not."""
    y = rng.integers(0, 2, n)
    useful = np.where(rng.random(n) < 0.2, 1 - y, y)
    return y, useful, rng.integers(0, codes, n)


def counts_of(rows, n=None):
    """Joint counts of the first n rows, or of all."""
    y, useful, noise = (column[:n] for column in rows)
    return JointCounts.from_columns(label=y, parties={"useful": useful, "noise": noise})


def test_the_drift_is_the_bias_of_few_samples():
    """The noise party falls as (codes - 1)/2n to first order: 39/2 (1/500 - 1/20,000) = 0.038.

    Measured by 16 draws of noise itself; half of it is allowed, which is far from no drift.
    """
    counts = counts_of(rows_of(np.random.default_rng(1), 20_000))
    alone = JointCounts.from_columns(
        label=counts.label, parties={"noise": counts.parties[:, 1]}, count=counts.count
    )
    expected = 39 / 2 * (1 / 500 - 1 / 20_000)
    assert drift_of(alone, 500)["noise"] == pytest.approx(expected, rel=0.5)
    assert drift_of(alone, 20_000) == {"noise": 0.0}


def test_many_parties_have_a_drift_too():
    """Nine binary noise parties, valued by permutations, fall together by 511/2 (1/4,000 - 1/20,000) = 0.051.

    The sum is the total, which permutations do not blur; terms of second order are a few percent.
    """
    rng = np.random.default_rng(2)
    counts = JointCounts.from_columns(
        label=rng.integers(0, 2, 20_000), parties={f"p{d}": rng.integers(0, 2, 20_000) for d in range(9)}
    )
    drift = drift_of(counts, 4_000)
    assert set(drift) == set(counts.names)
    assert sum(drift.values()) == pytest.approx(511 / 2 * (1 / 4_000 - 1 / 20_000), rel=0.15)


def test_rows_of_the_same_kind_are_rarely_called_a_change():
    """Added rows from the same distribution: about 5% of 60 verdicts (2 parties, 30 repeats).

    More than 9 of 60 at 5% has a probability of 0.1%; without the drift half of them are called.
    """
    rng = np.random.default_rng(3)
    called = without_drift = 0
    for _ in range(30):
        rows = rows_of(rng, 3_000)
        few, whole = counts_of(rows, 300), counts_of(rows)
        before = value_counts(few, ValuationSettings(method="exact", statistics=False))
        after = value_counts(whole, ValuationSettings(method="exact"))
        called += sum(change.beyond_error for change in changes(before, after, drift_of(whole, 300)))
        without_drift += sum(change.beyond_error for change in changes(before, after, {}))
    assert called <= 9
    assert without_drift >= 30
