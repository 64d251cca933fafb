"""A change is told from noise by the error of a difference of nested means."""

from __future__ import annotations

import numpy as np
import pytest

from fedvalue.valuation.changes import changes
from fedvalue.valuation.result import PartyValue, Valuation


def valuation(n, **parties):
    rows = tuple(
        PartyValue(
            name=name, value=value, share=0.5, alone=value, last=value, n_codes=2, se_data=se, se_sampling=ss
        )
        for name, (value, se, ss) in parties.items()
    )
    return Valuation(rows, total=1.0, label_entropy=1.0, n_samples=n, method="exact")


def test_the_error_of_the_difference_is_that_of_nested_means():
    """The formula agrees with the spread of (mean of n') - (mean of the first n) over 20,000 repeats.

    The relative error of a standard deviation from N repeats is 1/sqrt(2N) = 0.5%; 4 of these are allowed.
    """
    n, more, spread = 40, 160, 3.0
    rng = np.random.default_rng(0)
    samples = rng.normal(0, spread, size=(20_000, more))
    observed = (samples.mean(axis=1) - samples[:, :n].mean(axis=1)).std()
    (change,) = changes(
        valuation(n, a=(0, spread / n**0.5, 0)), valuation(more, a=(0, spread / more**0.5, 0))
    )
    assert change.error == pytest.approx(observed, rel=0.02)


def test_a_change_within_its_error_is_none():
    """By hand: n = 100 -> 200 with se 0.1 after has an error of 0.1, so 0.19 is noise and 0.2 is not."""
    before = valuation(100, a=(1.0, 0.2, 0), b=(1.0, 0.2, 0))
    after = valuation(200, a=(1.19, 0.1, 0), b=(1.2, 0.1, 0))
    a, b = changes(before, after)
    assert a.error == pytest.approx(0.1)
    assert (a.beyond_error, b.beyond_error) == (False, True)


def test_sampling_errors_come_on_top():
    """Two sampled values on the same rows differ by their sampling errors alone."""
    (change,) = changes(valuation(10, a=(1.0, 0.5, 0.3)), valuation(10, a=(2.0, 0.5, 0.4)))
    assert change.error == pytest.approx(0.5)


def test_nothing_added_is_no_change():
    """The same rows again: difference and error are 0."""
    (change,) = changes(valuation(10, a=(1.0, 0.5, 0)), valuation(10, a=(1.0, 0.5, 0)))
    assert (change.error, change.beyond_error) == (0.0, False)


def test_without_an_error_of_the_data_nothing_is_claimed():
    """`se_data` was not computed: the change is told, its meaning is not."""
    (change,) = changes(valuation(10, a=(1.0, None, 0)), valuation(20, a=(2.0, None, 0)))
    assert change.beyond_error is None
    assert change.to_dict() == {"name": "a", "before": 1.0, "after": 2.0}


def test_a_new_party_has_no_change():
    """Only parties of both valuations are compared."""
    assert changes(valuation(10, a=(1.0, 0.1, 0)), valuation(20, b=(1.0, 0.1, 0))) == ()
