"""The sentences of terminal and report: each is true of a world whose answer is known."""

from __future__ import annotations

import dataclasses

import pytest
from msgspec.structs import replace

from fedvalue.decisions import payout, select
from fedvalue.decisions.comparison import compare
from fedvalue.decisions.games import listing
from fedvalue.reports import wording
from fedvalue.reports.view import view
from fedvalue.tables.column_report import ColumnCoding
from tests.unit.decisions.results import result_of_game, result_of_values
from tests.unit.reports.worlds import (
    four_parties,
    nothing_to_learn,
    one_party,
    uplift_row,
    with_undecided,
)


def decision(valuation, prices=None, budget=None):
    return wording.decision(valuation, select(valuation, prices, budget))


def test_the_decision_names_whom_to_invite_and_what_a_model_gains():
    """The row "all but utility" is the invited set: 190 - 144 = 46 errors avoided."""
    assert decision(four_parties()) == (
        "Invite insurer, shop and telco: together they avoid 46 of 190 wrong decisions per 1,000 cases.",
        "The remaining party, utility, adds nothing worth mentioning.",
    )


def test_an_amount_has_no_decisions_but_ranges():
    """810 of 1,000 cases are right with nobody, 856 with the invited ones."""
    label = ColumnCoding(party="label", name="income", kind="amount", n_codes=5)
    assert decision(replace(four_parties(), columns=(label,)))[0] == (
        "Invite insurer, shop and telco: together they put 856 instead of 810 of 1,000 cases into the right "
        "one of 5 ranges of income."
    )
    classes = replace(label, kind="class")
    assert "wrong decisions" in decision(replace(four_parties(), columns=(classes,)))[0]


def test_a_set_without_a_row_of_its_own_is_compared_with_all_parties():
    """Telco and insurer for 50 of 70: 0.14 of 0.21 nats is 67%; all parties avoid 190 - 145 = 45."""
    prices = {"telco": 30, "insurer": 20, "shop": 60, "utility": 1}
    assert decision(four_parties(), prices, 70) == (
        "With a budget of 70, invite insurer and telco for 50: together they bring 67% of what all parties "
        "would (all would avoid 45 of 190 wrong decisions per 1,000 cases).",
        "The budget leaves no room for shop, which would add more.",
        "The remaining party, utility, adds nothing worth mentioning.",
    )


def test_a_budget_below_every_price_is_the_reason_to_invite_nobody():
    """Telco, shop and insurer add something; none of them costs 10 or less."""
    prices = {"telco": 30, "insurer": 20, "shop": 60, "utility": 1}
    sentences = decision(four_parties(), prices, 10)
    assert sentences == (
        "With a budget of 10, nobody can be invited: it leaves no room for insurer, telco and shop, which "
        "would add to what can be predicted.",
        "The remaining party, utility, adds nothing worth mentioning.",
    )


def test_a_leaked_label_is_named_before_its_party_is_recommended():
    """The first sentence stands alone, so it must not be the invitation."""
    leak = ColumnCoding(party="shop", name="loss", kind="number", n_codes=5, reproduces_label=True)
    sentences = decision(replace(four_parties(), columns=(leak,)))
    assert sentences[:2] == (
        "Do not invite shop yet: column 'loss' of shop reproduces the label and may be known only after it.",
        "If it is known only then, leave it out and value again; otherwise invite insurer, shop and telco: "
        "together they avoid 46 of 190 wrong decisions per 1,000 cases.",
    )
    idle = replace(leak, party="utility")
    assert decision(replace(four_parties(), columns=(idle,))) == decision(four_parties())


def test_a_leaked_label_is_named_wherever_its_party_would_be_invited_or_paid():
    """The headline said "do not invite" above a chart that said "invite"; the payout said nothing."""
    leak = ColumnCoding(party="shop", name="loss", kind="number", n_codes=5, reproduces_label=True)
    result = replace(four_parties(), columns=(leak, replace(leak, party="utility")))
    doubt = "column 'loss' of shop reproduces the label and may be known only after it"
    chart = view(result).waterfall
    assert chart is not None
    notes = {step.party: step.note for step in chart.steps}
    assert notes["shop"] == "check first: it reproduces the label"
    assert notes["insurer"] == "invite"
    assert "reproduces" not in notes["utility"]
    assert payout(result, 100).remarks()[0].startswith(f"Warning: {doubt}; if it is known only then, leave")
    compared = compare(four_parties(), result).sentences
    assert (
        compared[1] == f"in the second result {doubt}: if it is known only then, leave it out and value again"
    )
    assert not any("reproduces" in line for line in compare(four_parties(), four_parties()).sentences)


def test_an_undecided_party_comes_with_the_rows_that_would_settle_it():
    """Negligible is 0.05 x 0.204 / 2 = 0.0051; 1000 x (0.0098 / max(0.004, 0.0011))^2 = 6,003 rows."""
    sentences = decision(with_undecided())
    assert sentences[0] == "Invite a: it explains 33% of what cannot be predicted without it."
    assert sentences[1] == "Whether b adds to that is undecided; about 6,100 rows would settle it."


def test_a_party_that_few_more_rows_would_settle_is_named():
    """The headline once stated the number of the slowest party alone, and left out those without a number."""
    valuation = nothing_to_learn(300)
    choice = select(valuation)
    settled = {"a": 440, "b": None}
    steps = tuple(
        dataclasses.replace(step, adds=dataclasses.replace(step.adds, rows_needed=settled[step.party]))
        for step in choice.steps
    )
    assert wording.decision(valuation, dataclasses.replace(choice, steps=steps))[0] == (
        "Invite nobody yet: 300 rows cannot show whether a and b help; about 440 rows would settle it for a, "
        "and more than 100 times as many as now for the rest."
    )


def test_nothing_to_learn_is_said_only_where_the_rows_suffice():
    assert decision(nothing_to_learn(100_000)) == (
        "Invite nobody: a and b add nothing to what can be predicted without them.",
    )
    few = decision(nothing_to_learn(300))
    assert few[0].startswith("Invite nobody yet: 300 rows cannot show whether a and b help; about ")
    tiny = decision(nothing_to_learn(4))
    assert "more than 100 times as many rows would be needed" in tiny[0]


def test_where_errors_do_not_change_the_ranking_is_what_counts():
    """A rare label: no threshold moves, but 78 instead of 71 of 100 pairs come in the right order."""
    result = replace(
        one_party(),
        uplift=(
            uplift_row("nobody", (), 190, auc=0.71),
            uplift_row("all", ("a",), 190, auc=0.78),
        ),
    )
    assert decision(result)[0] == (
        "Invite a: it ranks cases better: of 100 pairs of cases with different labels, 78 come in the right "
        "order instead of 71."
    )


def test_a_gain_in_errors_inside_its_interval_is_not_claimed():
    result = replace(
        one_party(), uplift=(uplift_row("nobody", (), 190), uplift_row("all", ("a",), 185, half=8.0))
    )
    assert "avoid" not in decision(result)[0]
    assert "explains 40% of what cannot be predicted without it" in decision(result)[0]


def test_what_cannot_be_advised_is_not():
    known = replace(result_of_values([0.5]), label_entropy=0.0)
    assert decision(known) == (
        "Invite nobody: the columns that are already there determine the label in these rows.",
        "If one of them is known only afterwards, leave it out and value again.",
    )
    plain = result_of_game([0, 1.0, 1.0, 2.0], learnable=False)
    assert decision(plain)[0].startswith("No advice: learnable values were not computed")


def test_many_parties_are_counted_and_the_best_ones_named():
    names = [f"c{k}" for k in range(9)]
    result = replace(result_of_values([0.1 + k / 100 for k in range(9)], names=names), label_entropy=3.0)
    assert decision(result)[0].startswith("Invite 9 of the 9 parties, above all c8, c7 and c6: together they")


def test_advice_that_ignores_overlap_says_so():
    assert (
        decision(result_of_values([0.2, 0.3]))[-1]
        == "This does not take into account that parties may overlap."
    )
    assert len(decision(result_of_game([0, 0.2, 0.3, 0.5]))) == 1


def test_undecided_parties_that_clearly_help_together_are_said_to():
    result = result_of_values([0.2] + [0.004] * 9, se=0.0025, n_samples=5000)
    assert "all of them together clearly do" in decision(result)[1]


@pytest.mark.parametrize(
    ("part", "text"),
    [(0.0, "0%"), (0.0001, "<0.1%"), (0.0312, "3.1%"), (0.0996, "10%"), (0.83, "83%"), (-0.2, "−20%")],
)
def test_percents_read_well(part, text):
    assert wording.percent(part) == text


def test_numbers_read_well():
    assert [wording.nats(x) for x in (0.07504, 0.2031, -0.00017, -0.00001)] == [
        "0.0750",
        "0.203",
        "−0.0002",
        "0.0000",
    ]
    assert [wording.rows(n) for n in (7, 99, 101, 6003, 123_456)] == ["7", "99", "110", "6,100", "130,000"]
    assert [wording.per_1000(x) for x in (46.4, 3.44, -2.0, -0.04)] == ["46", "3.4", "−2.0", "0"]


def test_listing_reads_as_people_write():
    assert [listing(x) for x in ([], ["a"], ["a", "b"], ["a", "b", "c"])] == [
        "", "a", "a and b", "a, b and c",
    ]  # fmt: skip
    assert listing(["a", "b", "c", "d"], 3) == "a, b and 2 more"


def test_an_own_utility_is_named_and_nothing_is_claimed_in_nats():
    """Worth 10 per party, whatever the label's uncertainty: no percentage of it, and no interval."""
    result = result_of_game([0, 10.0, 10.0, 20.0], names=["a", "b"])
    parties = tuple(replace(party, learnable_interval=None) for party in result.parties)
    own = replace(result, parties=parties, estimator="utility/score", label_entropy=0.6, n_samples=300)
    assert decision(own) == (
        "Invite a and b: together they bring 100% of what all parties would by the utility “score”.",
    )
    assert {step.adds.low for step in select(own).steps} == {None}
    assert wording.measure(own).startswith("The Shapley value of the utility “score”, in its own unit.")
