"""Acceptance tests as a person writes them, and those that make no sense."""

from __future__ import annotations

import pytest

from fedvalue.errors import InputError
from fedvalue.valuation.acceptance_test import AcceptanceTest


def test_both_forms_are_read_and_thresholds_have_one_spelling():
    assert AcceptanceTest.parse("auc_gain=0.020") == AcceptanceTest(metric="auc_gain", threshold="0.02")
    one = AcceptanceTest.parse("telco: errors_avoided_per_1000 = 10")
    assert (one.party, one.metric, one.threshold, one.least) == (
        "telco",
        "errors_avoided_per_1000",
        "10",
        10.0,
    )
    assert AcceptanceTest(metric="auc_gain", threshold=0.02).threshold == "0.02"


@pytest.mark.parametrize("threshold", ["0", "-1", "1000.1", "1e-13", "nan", "inf", "much"])
def test_thresholds_out_of_range_are_refused(threshold):
    with pytest.raises(InputError, match="above 0 and at most 1,000, with at most 12 decimals, got '"):
        AcceptanceTest(metric="auc_gain", threshold=threshold)


@pytest.mark.parametrize(
    ("text", "message"),
    [("auc=0.1", "one of errors_avoided_per_1000"), ("auc_gain", "METRIC=AMOUNT or PARTY")],
)
def test_other_metrics_and_forms_are_refused(text, message):
    with pytest.raises(InputError, match=message):
        AcceptanceTest.parse(text)
