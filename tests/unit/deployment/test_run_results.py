"""What a finished run says about its agreement and its acceptance test."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from fedvalue.decisions.comparison import compare
from fedvalue.decisions.own_share import refuse_own_share
from fedvalue.deployment import run_results
from fedvalue.deployment.run_results import data_valuation, task_valuation, with_own_table
from fedvalue.errors import InputError
from fedvalue.protocol.outcome import Outcome
from fedvalue.reports.view import view
from fedvalue.valuation.acceptance_test import AcceptanceTest
from fedvalue.valuation.provenance import Provenance
from fedvalue.valuation.result import PrivacyStatement, Valuation
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


def rounded_share(learnable: float, total: float, monkeypatch: pytest.MonkeyPatch) -> Valuation:
    """The result of a data party of 300 rows, whose step is 0.1."""
    monkeypatch.setattr(run_results, "_privacy", lambda manifest, outcome: None)
    public = {"n_samples": 300, "method": "exact", "learnable_total": total, "learnable_total_error": 0.3}
    share = {"learnable": learnable, "learnable_error": 0.15, "n_codes": 8}
    own = data_valuation(manifest(), "telco", Outcome(public=public, shares={"telco": share}))
    assert own is not None
    return own


@pytest.mark.parametrize(("learnable", "total"), [(0.0, 0.0), (0.0, 0.2), (0.1, 0.1)])
def test_a_value_of_one_step_has_no_share_and_is_not_called_nothing(learnable, total, monkeypatch):
    """Rounding to 0.1 makes 0 or 0.1 of 0.06: neither "nothing to be learned" nor "all of it" is true."""
    own = rounded_share(learnable, total, monkeypatch)
    assert own["telco"].flags == ("below_step",)
    assert own["telco"].learnable_share is None
    assert own.details["share_step"] == 0.1
    assert "rounded at random to multiples of 0.1 nats" in own.details["notes"][0]


def test_a_value_above_its_step_keeps_its_share(monkeypatch):
    own = rounded_share(0.3, 0.4, monkeypatch)
    assert own["telco"].learnable_share == pytest.approx(0.75)
    assert own["telco"].flags == ()
    assert own.details["share_step"] == 0.1


def test_a_data_party_is_not_advised_whom_to_invite(monkeypatch):
    """Its report said "invite nobody yet: about 680 rows would settle it" of a value that rounding hides.

    The task party's report of the same run said "invite telco".
    """
    own = rounded_share(0.2, 0.3, monkeypatch)
    shown = view(own)
    assert shown.decision == (
        "The learnable value of telco is 0.200 nats per row (95% interval 0.0500 to 0.350); that of all "
        "parties together is 0.300."
    )
    assert shown.more == ("Whom to invite is for bank to decide, from finer numbers.",)
    assert shown.about == "300 cases."
    assert not any("invite" in sentence for sentence in compare(own, own).sentences)
    with pytest.raises(InputError, match="its own share alone, and no payout follows from it"):
        refuse_own_share(own, "payout")
    alone = task_valuation(manifest(policy="counts"), Outcome(counts=informative_and_not(400)))
    refuse_own_share(alone, "payout")
    assert view(alone).decision.startswith("Invite")


def test_the_own_result_warns_about_the_label_and_one_with_noise_does_not():
    """The warning has exact shares of the label, which noise is to hide."""
    found = task_valuation(manifest(policy="counts"), Outcome(counts=informative_and_not(100)))
    origin = Provenance(software="fedvalue", created="2030-01-01")
    warning = "label 'y': 99% of the rows are '0'"
    own = with_own_table(found, (), origin, (warning,))
    assert own.warnings == (*found.warnings, warning)
    noise = PrivacyStatement(
        epsilon=1.0, delta=1e-6, adjacency="two tables", observer="parties", label_noise=5.0, pair_noise=7.0
    )
    assert with_own_table(replace(found, privacy=noise), (), origin, (warning,)).warnings == found.warnings
