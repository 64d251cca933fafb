"""What the report shows, looked at as plain data."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from fedvalue.errors import InputError
from fedvalue.reports import curve, wording
from fedvalue.reports.view import view
from fedvalue.valuation.engine import value_counts
from fedvalue.valuation.result import cmi_interval
from fedvalue.valuation.settings import ValuationSettings
from fedvalue.valuation.statistics.guard import MEANINGS
from tests.statistics.tables import informative_and_not
from tests.unit.decisions.results import result_of_game, result_of_values


@pytest.fixture(scope="module")
def result():
    valued = value_counts(informative_and_not(400), ValuationSettings(coalitions=True))
    parties = [replace(p, interval=cmi_interval(p.value, 0.0, p.se_data)) for p in valued.parties]
    return replace(valued, parties=tuple(parties))


def test_answer_goes_by_what_can_be_learned(result):
    """The strongest party leads, and who only memorises is named as bringing next to nothing."""
    answer = view(result).answer
    part = wording.percent(result.learnable_total / result.label_entropy)
    assert answer.startswith(
        f"From 400 samples, the 4 parties together teach {part} of what was still unknown"
    )
    assert "strong brings" in answer
    assert "noise and rows next to nothing" in answer or "rows and noise next to nothing" in answer


def test_bars_hold_the_numbers_and_fit_the_chart(result):
    shown = view(result)
    assert shown.bars[0].name == "strong"
    for bar in shown.bars:
        party = result[bar.name]
        assert 0 <= bar.learnable <= 100
        assert 0 <= bar.low <= bar.value <= bar.high <= 100
        assert bar.value / shown.bars[0].value == pytest.approx(
            party.value / result[shown.bars[0].name].value, rel=1e-3
        )


def test_table_has_every_party_with_its_interval(result):
    rows = {row.name: row for row in view(result).rows}
    assert set(rows) == set(result.values)
    low, high = result["strong"].interval
    assert rows["strong"].interval == f"{wording.nats(low)} to {wording.nats(high)}"


def test_flags_come_with_their_sentences(result):
    flags = {(flag.party, flag.name): flag.sentence for flag in view(result).flags}
    assert flags["rows", "near_unique"] == MEANINGS["near_unique"]
    assert ("strong", "memorised") not in flags


def test_map_shows_percents_pluses_and_dots():
    shown = view(result_of_game([0, 1.0, 0.5, 1.1, 0.0, 1.0, 0.5, 1.1], names=["a", "b", "c"]))
    cells = dict(shown.map.rows)
    assert [cell.text for cell in cells["b"]] == ["80%", "–", "0%"]
    assert [cell.text for cell in cells["c"]] == ["·", "·", "–"]
    together = view(result_of_game([0, 0.5, 0.5, 1.5], names=["a", "b"]))
    assert dict(together.map.rows)["a"][1].text == "+100%"


def test_result_without_statistics_says_so_and_claims_nothing():
    plain = value_counts(informative_and_not(100), ValuationSettings(statistics=False))
    shown = view(plain)
    assert {row.interval for row in shown.rows} == {"not computed"}
    assert {row.learnable for row in shown.rows} == {"not computed"}
    assert shown.flags == ()
    assert shown.map is None
    assert "tell" in shown.answer


def test_selection_with_prices_and_budget(result):
    prices = {"strong": 1000, "weak": 500, "noise": 10, "rows": 1}
    shown = view(result, prices=prices, budget=1200).curve
    assert "With a budget of 1,200, invite strong for 1,000" in shown.sentence
    assert shown.budget_x is not None
    assert {step.party for step in shown.order} == set(prices)
    assert view(result).curve.x_label == "number of parties"


def test_selection_with_a_missing_price_is_refused(result):
    with pytest.raises(InputError, match="no price for 'noise', 'rows'"):
        view(result, prices={"strong": 1, "weak": 1})


def test_how_it_was_computed_names_protocol_policy_and_certificate(result):
    federated = replace(
        result, protocol="mirror", run_id="run-7", coalitions=None,
        details={"policy": "valuation", "certificate_digest": "sha256:ab12", "harden": True, "notes": ["n"],
                 "cost": {"n_bytes": 12345}},
    )  # fmt: skip
    shown = view(federated)
    rows = dict(shown.how)
    assert rows["Protocol"] == "mirror"
    assert rows["Run"] == "run-7"
    assert rows["Output policy"] == "valuation"
    assert rows["Certificate digest"] == "sha256:ab12"
    assert rows["Added checks"] == "yes"
    assert rows["Cost"] == "n bytes 12,345"
    assert "Notes" not in rows
    assert shown.notes == ("n",)
    assert "a lie of one server is detected" in shown.protection
    assert "nothing was hidden" in view(result).protection


def test_sampled_method_is_described():
    sampled = replace(result_of_values([1.0, 2.0]), method="sampled", n_permutations=5000, seed=3)
    assert dict(view(sampled).how)["Method"] == "sampled, 5,000 permutations, seed 3"


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        (replace(result_of_values([1.0]), label_entropy=0.0), "The task party knows the label already"),
        (
            result_of_values([0.0, 0.0]),
            "Nothing could be learned about the label from the 2 parties",
        ),
        (result_of_values([1.0]), "From 1,000 samples, the party teaches 48% of what"),
    ],
)
def test_answers_of_edge_cases(case, expected):
    assert wording.answer(case).startswith(expected)


@pytest.mark.parametrize(
    ("part", "text"), [(0.0, "0.0%"), (0.0001, "<0.1%"), (0.0312, "3.1%"), (0.0996, "10%"), (0.83, "83%")]
)
def test_percents_read_well(part, text):
    assert wording.percent(part) == text


@pytest.mark.parametrize(
    ("value", "top"), [(0.44, 0.5), (0.5, 0.5), (1.01, 1.2), (9.0, 10), (0.0021, 0.0025), (6.1, 8)]
)
def test_charts_end_at_round_numbers(value, top):
    assert curve.round_up(value) == pytest.approx(top)
    assert curve.ticks(top)[-1] == pytest.approx(top)
    assert 1 <= len(curve.ticks(top)) <= 6


def test_listing_reads_as_people_write():
    assert [wording.listing(x) for x in ([], ["a"], ["a", "b"], ["a", "b", "c"])] == [
        "", "a", "a and b", "a, b and c",
    ]  # fmt: skip
