"""The acceptance test: a threshold fixed beforehand, judged by the interval of the gain."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

import fedvalue
from fedvalue.decisions.acceptance import acceptance, with_acceptance
from fedvalue.errors import InputError
from fedvalue.reports import wording
from fedvalue.reports.html import render
from fedvalue.valuation.result import ColumnCoding
from tests.cli.here import fedvalue_here as run
from tests.unit.reports.worlds import four_parties

Wanted = fedvalue.AcceptanceTest
CUSTOMERS = Path(__file__).resolve().parents[3] / "examples" / "customers.csv"
PARTIES = [
    part
    for own in (
        "telco=late_bills,contract_months",
        "shop=bought_on_credit,returns",
        "insurer=claims,region",
        "utility=meter,kwh",
    )
    for part in ("--party", own)
]


def judged(metric: str, threshold: float, party: str | None = None) -> fedvalue.Valuation:
    """The three informative parties avoid 45 +- 8 of 190 errors; telco alone 10 +- 8."""
    test = Wanted(metric=metric, threshold=threshold, party=party)
    return replace(four_parties(), settings=fedvalue.ValuationSettings(acceptance=test))


@pytest.mark.parametrize(
    ("threshold", "party", "verdict"),
    [
        (37, None, "pass"),
        (37.1, None, "undecided"),
        (53, None, "undecided"),
        (53.1, None, "fail"),
        (2, "telco", "pass"),
        (18.1, "telco", "fail"),
    ],
)
def test_the_interval_decides(threshold, party, verdict):
    """45 avoided, 95% interval 37 to 53; telco alone 10, 2 to 18."""
    outcome = acceptance(judged("errors_avoided_per_1000", threshold, party))
    assert outcome is not None
    assert outcome.verdict == verdict


def test_rows_that_would_settle_it_shrink_the_interval_to_the_threshold():
    """Half-width 8 at 5,000 rows; it is 5 at 5,000 (8/5)^2 = 12,800."""
    valuation = judged("errors_avoided_per_1000", 50)
    outcome = acceptance(valuation)
    assert outcome is not None
    assert outcome.rows_needed == 12_800
    assert wording.acceptance_sentence(valuation, outcome) == (
        "Acceptance test undecided: all parties together avoid 37 to 53 wrong decisions per 1,000 cases (95% "
        "interval); required: at least 50. About 13,000 rows would settle it."
    )
    label = ColumnCoding(party="label", name="income", kind="amount", n_codes=5)
    assert (
        "all parties together put 37 to 53 more of 1,000 cases into the right one of 5 ranges of income"
        in (wording.acceptance_sentence(replace(valuation, columns=(label,)), outcome))
    )


def test_a_result_without_an_interval_decides_nothing():
    outcome = acceptance(judged("auc_gain", 0.01))
    assert outcome is not None
    assert (outcome.verdict, outcome.low) == ("undecided", None)


def test_no_test_no_outcome_and_no_uplift_no_outcome():
    assert acceptance(four_parties()) is None
    assert with_acceptance(four_parties()) == four_parties()
    assert acceptance(replace(judged("auc_gain", 0.01), uplift=None)) is None


def test_the_report_and_the_json_have_the_verdict():
    valuation = with_acceptance(judged("errors_avoided_per_1000", 20))
    assert 'class="acceptance pass">Acceptance test passed: all parties together avoid' in render(valuation)
    assert json.loads(valuation.to_json())["details"]["acceptance"]["verdict"] == "pass"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("auc_gain=0.02", Wanted(metric="auc_gain", threshold="0.02")),
        ("a:b:log_loss_gain=1e-3", Wanted(metric="log_loss_gain", threshold="0.001", party="a:b")),
    ],
)
def test_the_short_form_is_read(text, expected):
    assert Wanted.parse(text) == expected


@pytest.mark.parametrize(
    "text", ["auc_gain", "auc_gain=", "=0.1", "auc=0.1", "auc_gain=0", "auc_gain=nan", ""]
)
def test_anything_else_is_refused(text):
    with pytest.raises(InputError, match="acceptance test"):
        Wanted.parse(text)


def test_value_prints_the_verdict_before_the_table_and_refuses_unknown_parties_before_the_work():
    asked = [str(CUSTOMERS), "--label", "defaulted", "--id", "customer", "--task", "income", *PARTIES]
    passed = run("value", *asked, "--accept", "errors_avoided_per_1000=100")
    lines = passed.out.splitlines()
    assert lines[0].startswith("Invite ")
    assert any(line.startswith("Acceptance test passed: all parties together avoid ") for line in lines[:4])
    assert (
        "Acceptance test failed: telco alone raises"
        in run("value", *asked, "--accept", "telco:auc_gain=0.3").out
    )
    wrong = run("value", *asked, "--accept", "telcom:auc_gain=0.3")
    assert wrong.code == 3
    assert "names 'telcom'; the data parties are telco, shop, insurer, utility" in wrong.err


def test_python_has_it_too():
    rows = 400
    valuation = fedvalue.value(
        label=[k % 2 for k in range(rows)],
        parties={"a": {"x": [k % 2 for k in range(rows)]}, "b": {"x": [k % 3 for k in range(rows)]}},
        acceptance=Wanted(metric="log_loss_gain", threshold=0.5, party="a"),
    )
    assert valuation.details["acceptance"]["verdict"] == "pass"  # a coin holds 0.69 nats
