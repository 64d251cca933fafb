"""Problems of a first use that concern advice, numbers and words, each with what happens now.

The numbers are those of the list of problems found when the software was tried as a new user would.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import fedvalue
from fedvalue.reports import wording
from fedvalue.reports.view import view
from tests.cli.here import fedvalue_here
from tests.statistics.demonstration import INFORMATIVE, population_values

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
OWNERS = {
    "telco": ["late_bills", "contract_months"],
    "shop": ["bought_on_credit", "returns"],
    "insurer": ["claims", "region"],
    "utility": ["meter", "kwh"],
}


def value(rows: slice = slice(None), **options: object) -> fedvalue.Valuation:
    import pandas as pd

    data = pd.read_csv(EXAMPLES / "customers.csv").iloc[rows]
    return fedvalue.value(data=data, label="defaulted", task=["income"], parties=OWNERS, **options)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def result() -> fedvalue.Valuation:
    return value()


@pytest.fixture(scope="module")
def result_file(result: fedvalue.Valuation, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("first") / "result.json"
    result.to_json(path)
    return path


def test_1_all_three_informative_parties_are_invited_and_two_are_not_called_everything(result):
    """10-fold logistic regression, log loss gained: insurer + shop 0.133, + telco 0.203, + utility 0.203."""
    choice = fedvalue.select(result)
    assert set(choice.parties) == set(INFORMATIVE)
    assert result.coalition("insurer", "shop") / result.learnable_total == pytest.approx(
        0.133 / 0.203, abs=0.04
    )
    assert result.learnable_total == pytest.approx(0.203, rel=0.05)
    assert result.coalition(*INFORMATIVE) == pytest.approx(result.learnable_total, abs=0.001)


def test_2_plain_and_federated_reports_say_the_same(result):
    federated = value(protocol="mirror")
    assert fedvalue.select(federated).parties == fedvalue.select(result).parties
    plain_words, federated_words = (
        wording.decision(one, fedvalue.select(one)) for one in (result, federated)
    )
    assert federated_words == plain_words
    assert [(row.name, row.value, row.share, row.interval) for row in view(federated).parties] == [
        (row.name, row.value, row.share, row.interval) for row in view(result).parties
    ]
    assert view(federated).waterfall == view(result).waterfall
    assert view(federated).gains == view(result).gains
    maps = [
        [[cell.text for cell in cells] for _, cells in view(one).overlap.rows] for one in (result, federated)
    ]
    assert maps[0] == maps[1]


def test_3_every_interval_contains_the_population_value(result):
    for name, truth in population_values().items():
        low, high = result[name].learnable_interval
        assert low <= truth <= high


def test_7_no_party_with_a_sound_value_is_called_memorised():
    """At 3,256 rows telco was; flags are facts about the estimate, and say which number counts."""
    few = value(slice(3256))
    assert all("memorised" not in few[name].flags for name in INFORMATIVE)
    assert "memorised" in few["utility"].flags
    (fact,) = [fact for fact in view(few).facts if fact.who == "utility"]
    assert fact.sentence == "Shapley-CMI is mostly memorised; the learnable value is what counts."


def test_13_the_advice_does_not_change_with_the_bins_and_the_report_says_so():
    found = value(slice(2500), sensitivity=True)
    assert found.details["sensitivity"]["same_advice"]
    sentence, runs = view(found).sensitivity
    assert "does not depend on how numbers are cut into bins" in sentence
    assert len(runs) == 6


def test_14_the_table_of_select_and_its_sentence_agree(result_file):
    for budget in ("20000", "70000", "1000000"):
        ran = fedvalue_here("select", result_file, "--prices", EXAMPLES / "prices.csv", "--budget", budget)
        assert ran.code == 0, ran.err
        sentence, *lines = ran.out.splitlines()
        table = {words[0]: line for line in lines if (words := line.split()) and words[0] in OWNERS}
        assert set(table) == set(OWNERS)
        invited = [name for name, line in table.items() if line.rstrip().endswith(" invite")]
        named = re.search(r"invite (.+?) for [\d,]+:", sentence).group(1)
        assert re.split(r", | and ", named) == invited


def test_15_the_terminal_leads_with_the_decision_and_the_learnable_value():
    owners = [part for name, own in OWNERS.items() for part in ("--party", f"{name}={','.join(own)}")]
    ran = fedvalue_here(
        "value",
        EXAMPLES / "customers.csv",
        "--label",
        "defaulted",
        "--id",
        "customer",
        "--task",
        "income",
        *owners,
    )
    lines = [line for line in ran.out.splitlines() if line.strip()]
    start = next(k for k, line in enumerate(lines) if line.startswith("Invite "))
    assert lines[start].startswith("Invite insurer, shop and telco: together they avoid 146 of 336 wrong")
    headings = next(line.split() for line in lines if line.split()[:1] == ["party"])
    assert headings.index("learnable") == 1 < headings.index("Shapley-CMI")
    table = [line.split()[0] for line in lines[start:] if line.split()[0] in OWNERS]
    assert table[:4] == ["insurer", "shop", "telco", "utility"]


def test_16_payout_by_shapley_cmi_names_who_is_paid_for_memorised_value(result_file):
    ran = fedvalue_here("payout", result_file, "--pot", "100000", "--by", "shapley-cmi")
    paid = next(line for line in ran.out.splitlines() if "utility" in line)
    amount = re.search(r"[\d,]+\.\d\d(?!\d)", paid).group()
    assert f"Warning: utility would be paid {amount} mostly for memorised value; by learnable" in ran.out
    fair = fedvalue_here("payout", result_file, "--pot", "100000").out
    assert "Warning" not in fair
    assert "core" not in fair.lower()
    assert "less than" in fair or "none has a reason to leave" in fair


def test_25_edges_of_python(result, tmp_path):
    """label="default" with data, frames with both ends of intervals, coalitions by name, PDF, one sign."""
    frame = result.to_frame()
    assert {"learnable", "learnable_low", "learnable_high"} <= set(frame.columns)
    assert result.coalition("telco", "shop") > max(result.coalition("telco"), result.coalition("shop"))
    import matplotlib

    matplotlib.use("agg")
    ax = result.plot.redundancy()
    drawn = {text.get_text() for text in ax.texts}
    reported = {cell.text for _, cells in view(result).overlap.rows for cell in cells}
    assert drawn == reported
    choice = fedvalue.select(result, game=None)
    assert choice.by == "learnable"


def test_25_a_leaked_and_a_dirty_label_are_reported():
    rng = np.random.default_rng(0)
    answers = rng.integers(0, 2, 400)
    spelled = np.where(answers == 1, rng.choice(["yes", "YES", "yes "], 400), "no")
    found = fedvalue.value(
        label=spelled.tolist(),
        parties={"a": {"copy": answers}, "b": {"noise": rng.integers(0, 5, 400)}},
    )
    text = " ".join(found.warnings)
    assert "yes" in text
    leaked = fedvalue.value(
        label=answers, parties={"a": {"copy": answers}, "b": {"noise": rng.integers(0, 5, 400)}}
    )
    assert any("copy" in warning or "a" in warning.split() for warning in leaked.warnings), leaked.warnings
