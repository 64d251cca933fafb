"""What a finished run says about its agreement and its acceptance test."""

from __future__ import annotations

import pytest

from fedvalue.deployment.run_results import data_valuation, task_valuation
from fedvalue.protocol.outcome import Outcome
from fedvalue.valuation.acceptance_test import AcceptanceTest
from fedvalue.valuation.settings import ValuationSettings
from tests.statistics.tables import informative_and_not
from tests.support.consortium import manifest


@pytest.mark.parametrize(("threshold", "verdict"), [("0.001", "pass"), ("0.69", "fail")])
def test_the_task_party_gets_the_verdict_of_the_agreed_test(threshold, verdict):
    """A label of two classes holds at most 0.69 nats, and one party of the table tells much of it."""
    test = AcceptanceTest(metric="log_loss_gain", threshold=threshold)
    agreed = manifest(policy="counts", settings=ValuationSettings(acceptance=test))
    outcome = Outcome(counts=informative_and_not(400))
    found = task_valuation(agreed, outcome)
    assert found.details["acceptance"]["verdict"] == verdict
    own = data_valuation(agreed, "strong", outcome)
    assert own is not None
    assert own.uplift is None
    assert "acceptance" not in own.details, "its gain and interval are the task party's"


def test_the_result_names_purpose_participants_and_date_of_the_agreement():
    found = task_valuation(manifest(policy="counts"), Outcome(counts=informative_and_not(100)))
    assert found.details["agreement"] == {
        "purpose": "What is the data of telco and shop worth to the bank's risk model?",
        "consortium": "alpha",
        "task": "bank",
        "servers": ["compute", "validate"],
        "agreed": "2030-01-01",
    }
