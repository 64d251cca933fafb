"""What the report shows, looked at as plain data."""

from __future__ import annotations

import re

import pytest
from msgspec.structs import replace

from fedvalue.errors import InputError
from fedvalue.reports import charts, html, wording
from fedvalue.reports.view import view
from fedvalue.valuation.engine import value_counts
from fedvalue.valuation.provenance import Provenance, SourceFile
from fedvalue.valuation.result import ColumnCoding
from fedvalue.valuation.settings import ValuationSettings
from fedvalue.valuation.statistics.guard import MEANINGS
from tests.statistics.tables import informative_and_not
from tests.unit.decisions.results import result_of_game, result_of_values
from tests.unit.reports.worlds import four_parties, uplift_row, with_every_set, with_undecided


@pytest.fixture(scope="module")
def result():
    return value_counts(informative_and_not(400), ValuationSettings(coalitions=True))


def test_the_report_starts_with_the_decision():
    shown = view(four_parties())
    assert shown.decision.startswith("Invite insurer, shop and telco: together they avoid 46 of 190")
    assert shown.more == ("The remaining party, utility, adds nothing worth mentioning.",)
    assert shown.about == "5,000 cases, 4 data parties."


def test_parties_are_sorted_by_learnable_value_and_bars_fit_the_chart(result):
    shown = view(result)
    order = sorted(result.parties, key=lambda party: -party.learnable)
    assert [row.name for row in shown.parties] == [party.name for party in order]
    for row in shown.parties:
        party = result[row.name]
        assert 0 <= row.low <= row.bar <= row.high <= 100
        assert row.value == wording.nats(party.learnable)
        assert row.interval == wording.interval(party.learnable_interval)
        assert row.share == wording.percent(party.learnable_share)
        assert row.cmi.startswith(wording.nats(party.value))
    best, second = shown.parties[:2]
    ratio = result[second.name].learnable / result[best.name].learnable
    assert second.bar / best.bar == pytest.approx(ratio, rel=1e-3)


def test_the_waterfall_adds_up_and_marks_what_is_undecided():
    """0.08, 0.07, 0.06 and 0 of the 0.61 nats that nobody predicts: 13.1%, 11.5%, 9.8% and nothing."""
    shown = view(four_parties()).waterfall
    assert [(step.party, step.figure, step.kind) for step in shown.steps] == [
        ("insurer", "+13.1%", "invited"),
        ("shop", "+11.5%", "invited"),
        ("telco", "+9.8%", "invited"),
        ("utility", "0%", "nothing"),
    ]
    for before, after in zip(shown.steps, shown.steps[1:], strict=False):
        assert after.start == pytest.approx(before.end, abs=0.002)
    for step in shown.steps:
        assert step.low <= step.end <= step.high
    undecided = view(with_undecided()).waterfall.steps[1]
    assert undecided.kind == "undecided"
    assert undecided.note == "undecided; about 6,100 rows would settle it"
    assert undecided.low < undecided.start < undecided.high


def test_the_waterfall_counts_wrong_decisions_where_every_bar_has_them():
    """18, then 33.4, then 46 of 190 errors: the whole numbers add up to the 46 of the headline."""
    shown = view(with_every_set()).waterfall
    assert shown.lead == "Wrong decisions avoided per 1,000 cases as the parties join, one after the other."
    assert [(step.party, step.figure) for step in shown.steps] == [
        ("insurer", "+18"), ("shop", "+15"), ("telco", "+13"), ("utility", "−1"),
    ]  # fmt: skip
    assert shown.axis[0] == (0.0, "0")
    top = 100 * 53 / shown.steps[2].high  # the interval of all but utility ends at 46 + 8 = 54
    assert shown.steps[2].end == pytest.approx(100 * 46 / 60, abs=0.01), top
    odd = replace(with_every_set(), uplift=tuple(_lucky_utility(row) for row in with_every_set().uplift))
    assert view(odd).waterfall.steps[0].figure == "+13.1%", "a useless party must not look useful"
    rare = replace(with_every_set(), uplift=tuple(_no_fewer_errors(row) for row in with_every_set().uplift))
    assert view(rare).waterfall.steps[0].figure == "+13.1%"


def _lucky_utility(row):
    """The row of a world in which all parties avoid 14 errors more than all but utility, by luck."""
    return replace(row, errors_avoided_per_1000=60.0) if row.role == "all" else row


def _no_fewer_errors(row):
    """The row of a world in which no decision changes."""
    avoided = None if row.role == "nobody" else 0.0
    return replace(row, errors_avoided_per_1000=avoided, errors_avoided_interval=(-1.0, 1.0))


def test_what_was_asked_is_said_as_far_as_the_result_knows_it():
    columns = (
        ColumnCoding(party="label", name="defaulted", kind="class", n_codes=2, coding="no | yes"),
        ColumnCoding(party="task", name="income", kind="number", n_codes=5),
    )
    shown = view(replace(four_parties(), columns=columns))
    assert shown.title == "What each party’s data is worth for predicting “defaulted”"
    assert dict(shown.asked) == {
        "Question": "How much better can “defaulted” be predicted with the data of telco, shop, insurer and "
        "utility?",
        "What is predicted": "defaulted: no | yes",
        "Known already": "the column income",
        "Cases": "5,000",
    }
    agreement = {
        "purpose": "Risk model", "task": "bank", "servers": ["one", "two"], "agreed": "2026-11-18",
        "consortium": "alpha",
    }  # fmt: skip
    federated = view(replace(four_parties(), protocol="mirror", details={"agreement": agreement}))
    rows = dict(federated.asked)
    assert (rows["Purpose"], rows["Asked by"], rows["Servers"]) == ("Risk model", "bank", "one and two")
    assert "Their names and values are not in this report" in federated.columns_note
    assert view(replace(four_parties(), details={"agreement": "odd"})).asked[-1] == ("Cases", "5,000")


def test_advice_and_waterfall_say_the_same(result):
    shown = view(result)
    invited = [step.party for step in shown.waterfall.steps if step.kind == "invited"]
    assert invited
    for name in result.values:
        assert (name in shown.decision) == (name in invited)


def test_flags_are_facts_with_their_sentences(result):
    facts = {fact.who: fact.sentence for fact in view(result).facts}
    assert MEANINGS["near_unique"] in facts.values()
    assert not any("strong" in who for who in facts)


def test_warnings_and_notes_are_listed():
    column = ColumnCoding(party="shop", name="spend", kind="number", n_codes=5, warnings=("All in one bin.",))
    result = replace(
        four_parties(), warnings=("The label is imbalanced.",), columns=(column,), details={"notes": ["n"]}
    )
    shown = view(result)
    assert [(fact.who, fact.sentence) for fact in shown.facts] == [
        ("", "The label is imbalanced."),
        ("shop: spend", "All in one bin."),
    ]
    assert shown.notes == ("n",)
    assert (shown.columns[0].name, shown.columns[0].coding) == ("spend", "5 codes")


def test_overlap_shows_changes_with_their_sign():
    shown = view(result_of_game([0, 1.0, 0.5, 1.1, 0.0, 1.0, 0.5, 1.1], names=["a", "b", "c"])).overlap
    cells = dict(shown.rows)
    assert [cell.text for cell in cells["b"]] == ["−80%", "–", "0%"]
    assert [cell.text for cell in cells["c"]] == ["·", "·", "–"]
    together = view(result_of_game([0, 0.5, 0.5, 1.5], names=["a", "b"])).overlap
    assert dict(together.rows)["a"][1].text == "+100%"


def test_overlap_of_many_parties_lists_the_strongest_pairs():
    p = 7
    table = [min(bin(mask).count("1"), 6) / 10 for mask in range(1 << p)]
    table = [value - 0.05 * (mask & 3 == 3) for mask, value in enumerate(table)]
    shown = view(result_of_game(table)).overlap
    assert shown.rows == ()
    assert {pair for pair, _ in shown.pairs[:2]} == {"p0 beside p1", "p1 beside p0"}
    assert shown.pairs[0][1].text == "−50%"


def test_gains_list_nobody_each_alone_all_but_one_and_all():
    gains = view(four_parties()).gains
    assert (gains[0].parties, gains[-1].parties) == ("nobody", "all parties")
    rows = {gain.parties: gain for gain in gains}
    assert (rows["all but utility"].wrong, rows["all but utility"].interval) == ("144", "38 to 54")
    assert (rows["nobody"].wrong, rows["nobody"].interval) == ("190", "")
    assert len(gains) == 10


def test_result_without_statistics_says_so_and_claims_nothing():
    plain = value_counts(informative_and_not(100), ValuationSettings(statistics=False))
    shown = view(plain)
    assert shown.decision.startswith("No advice")
    assert {row.interval for row in shown.parties} == {""}
    assert (shown.learnable, shown.waterfall, shown.overlap, shown.facts, shown.gains) == (
        False, None, None, (), (),
    )  # fmt: skip


def test_prices_and_budget_are_in_the_decision_and_the_waterfall(result):
    prices = {"strong": 1000, "weak": 500, "noise": 10, "rows": 1}
    shown = view(result, prices=prices, budget=1200)
    assert shown.decision.startswith("With a budget of 1,200, invite strong for 1,000: it ")
    assert shown.price_curve.budget_x is not None
    notes = {step.party: step.note for step in shown.waterfall.steps}
    assert notes["strong"] == "invite for 1,000"
    assert notes["weak"] == "beyond the budget for 500"
    assert view(result).price_curve is None


@pytest.mark.parametrize(
    ("each", "label"),
    [
        (1000, "cost"),
        (2_000_000, "cost"),
        (123_456_789, "cost, in millions"),
        (10**10, "cost, in billions"),
    ],
)
def test_ticks_of_large_costs_have_room(result, each, label):
    """500,000,000 written out runs into the next tick. The largest cost is at most four times a price."""
    curve = view(result, prices=dict.fromkeys(result.values, each), budget=each).price_curve
    assert curve.x_label == label
    assert f">{label}</text>" in html.render(result, prices=dict.fromkeys(result.values, each), budget=each)
    assert max(len(text) for _, text in curve.x_ticks) <= 9


def test_a_missing_price_is_refused(result):
    with pytest.raises(InputError, match="no price for 'noise', 'rows'"):
        view(result, prices={"strong": 1, "weak": 1})


def test_how_it_was_computed_names_protocol_policy_and_certificate(result):
    federated = replace(
        result, protocol="mirror", run_id="run-7", coalitions=None,
        details={"policy": "valuation", "certificate_digest": "sha256:ab12", "harden": True, "notes": ["n"],
                 "cost": {"n_bytes": 12345}, "match_rates": {"telco": 2 / 3}, "acceptance": {"low": 1.5}},
    )  # fmt: skip
    shown = view(federated)
    rows = dict(shown.how)
    assert rows["Protocol"] == "mirror"
    assert rows["Run"] == "run-7"
    assert rows["Output policy"] == "valuation"
    assert rows["Certificate digest"] == "sha256:ab12"
    assert rows["Added checks"] == "yes"
    assert rows["Cost"] == "n bytes 12,345"
    assert rows["Match rates"] == "telco 0.6667"
    assert "Acceptance" not in rows
    assert rows["Learnable values"].startswith("pooled evidence, version ")
    assert rows["Numbers"] == "cut into 5 bins, about equally filled"
    assert "Notes" not in rows
    assert "Each server saw every row of the joint table under secret names" in shown.protection
    assert "Nothing was hidden" in view(result).protection


def test_sampled_method_is_described():
    sampled = replace(result_of_values([1.0, 2.0]), method="sampled", n_permutations=5000, seed=3)
    assert dict(view(sampled).how)["Shapley-CMI"] == "sampled, 5,000 permutations, seed 3"


def test_sensitivity_is_shown_and_odd_content_of_a_file_does_no_harm():
    runs = [{"coding": "3 bins, of equal width", "invite": ["a", "b"], "undecided": "odd"}, "odd", {}]
    result = replace(four_parties(), details={"sensitivity": {"sentence": "It depends.", "runs": runs}})
    assert view(result).sensitivity == (
        "It depends.",
        (("3 bins, of equal width", "invite a and b"), ("", "invite nobody")),
    )
    assert view(replace(result, details={"sensitivity": "odd"})).sensitivity is None


def test_sensitivity_does_not_contradict_a_budget_and_names_the_undecided():
    """Insurer and telco for 50 of 70: the codings, valued without prices, also invite shop."""
    runs = [
        {"coding": "5 bins", "invite": ["insurer", "shop", "telco"], "undecided": []},
        {"coding": "3 bins", "invite": ["insurer"], "undecided": ["shop", "telco"]},
    ]
    result = replace(four_parties(), details={"sensitivity": {"sentence": "It depends.", "runs": runs}})
    prices = {"telco": 30, "insurer": 20, "shop": 60, "utility": 1}
    shown = view(result, prices=prices, budget=70)
    assert "invite insurer and telco for 50" in shown.decision
    assert shown.sensitivity == (
        "Prices and budget are left aside here. It depends.",
        (
            ("5 bins", "invite insurer, shop and telco"),
            ("3 bins", "invite insurer; undecided: shop and telco"),
        ),
    )


def test_gains_come_with_their_intervals():
    """AUC 0.78 against 0.71 with nobody, log loss 0.02 to 0.04 lower."""
    row = replace(
        uplift_row("all", ("a",), 180, auc=0.78),
        auc_gain_interval=(0.05, 0.09),
        ks_gain_interval=(-0.01, 0.2),
        log_loss_gain_interval=(0.02, 0.04),
    )
    result = replace(
        result_of_values([0.2], names=["a"]), uplift=(uplift_row("nobody", (), 190, auc=0.71), row)
    )
    nobody, shown = view(result).gains
    assert (nobody.auc_change, nobody.ks_change, nobody.log_loss_change) == ("", "", "")
    assert (shown.auc, shown.auc_change) == ("0.780", "+0.050 to +0.090")
    assert shown.ks_change == "−0.010 to +0.200"
    assert shown.log_loss_change == "−0.040 to −0.020"
    assert "−0.010 to +0.200" in html.render(result)
    same = replace(row, auc_gain_interval=(-0.0001, 0.0001))
    assert view(replace(result, uplift=(result.uplift[0], same))).gains[1].auc_change == "0"


def test_with_two_parties_no_set_is_listed_twice():
    """All but b is a alone."""
    rows = (
        uplift_row("nobody", (), 190), uplift_row("alone", ("a",), 150), uplift_row("alone", ("b",), 180),
        uplift_row("all", ("a", "b"), 145), uplift_row("all_but", ("b",), 180),
        uplift_row("all_but", ("a",), 150),
    )  # fmt: skip
    result = replace(result_of_values([0.2, 0.1], names=["a", "b"]), uplift=rows)
    assert [row.parties for row in view(result).gains] == ["nobody", "a alone", "b alone", "all parties"]


def test_an_amount_is_put_into_ranges_and_not_decided():
    """No sentence, heading or axis about a label that was cut into bins speaks of decisions."""
    label = ColumnCoding(party="label", name="income", kind="amount", n_codes=5, coding="≤ 1 | above")
    shown = view(replace(with_every_set(), columns=(label,)))
    assert shown.wrong == "cases in a wrong range of income per 1,000"
    assert shown.waterfall.lead == (
        "Additional cases per 1,000 in the right one of 5 ranges of income as the parties join, one after "
        "the other."
    )
    page = html.render(replace(with_every_set(), columns=(label,)))
    assert "decision" not in re.sub(r"<style.*?</style>|<!--.*?-->", "", page, flags=re.S).lower()
    assert "wrong decisions" in html.render(with_every_set())


@pytest.mark.parametrize(
    ("value", "top"), [(0.44, 0.5), (0.5, 0.5), (1.01, 1.2), (9.0, 10), (0.0021, 0.0025), (6.1, 8)]
)
def test_charts_end_at_round_numbers(value, top):
    assert charts.round_up(value) == pytest.approx(top)
    assert charts.ticks(top)[-1] == pytest.approx(top)
    assert 1 <= len(charts.ticks(top)) <= 6


def test_a_wide_party_does_not_fill_the_page():
    columns = tuple(
        ColumnCoding(party="vendor", name=f"score_{k}", kind="number", n_codes=5) for k in range(60)
    )
    shown = view(replace(four_parties(), columns=columns))
    assert len(shown.columns) == 12
    assert shown.columns_note == "Not listed: 48 more columns of vendor. The result file has all of them."


def test_files_date_and_software_are_in_the_report():
    origin = Provenance(
        software="fedvalue 1.2",
        created="2026-11-18T02:20:08Z",
        sources=(
            SourceFile(name="loans.csv", format="CSV, cp1252", n_rows=2400, sha256="ab" * 32),
            SourceFile(name="telco.csv", party="telco", n_rows=2307, n_matched=2300),
        ),
    )
    rows = dict(view(replace(four_parties(), provenance=origin)).asked)
    assert rows["Computed"] == "18 November 2026, 02:20 UTC, with fedvalue 1.2"
    assert rows["File"] == "loans.csv; CSV, cp1252; 2,400 rows; SHA-256 abababababababab…"
    assert rows["File of telco"] == "telco.csv; 2,300 of 2,307 rows matched"


def test_many_useless_parties_are_counted_and_not_drawn(monkeypatch):
    """Three of eight parties are worth something: five bars here, and three more parties in the table."""
    monkeypatch.setattr(charts, "MOST_BARS", 5)
    shown = view(result_of_values([0.3, 0.2, 0.1, *[0.0] * 5]))
    assert [step.kind for step in shown.waterfall.steps] == ["invited"] * 3 + ["nothing"] * 2
    assert shown.waterfall.left_out == 3
    assert len(shown.parties) == 8
    monkeypatch.setattr(charts, "MOST_BARS", 1)
    assert len(view(result_of_values([0.3, 0.2, 0.1, 0.0])).waterfall.steps) == 3  # invited ones are drawn
