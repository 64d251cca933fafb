"""What to pay: sums to the cent, floors and caps, ties, and coalitions that would rather leave."""

from __future__ import annotations

import csv
import io
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from msgspec.structs import replace

from fedvalue.decisions import payout
from fedvalue.decisions.payout import divide
from fedvalue.errors import InputError
from tests.unit.decisions.results import result_of_game, result_of_values
from tests.unit.reports.worlds import four_parties, with_undecided


def amounts(found):
    return [share.amount for share in found.shares]


def by_bisection(values, pot, floor, cap):
    """clamp(lambda v, floor, cap) with lambda found by halving an interval."""
    low, high = 0.0, 1e12
    for _ in range(300):
        middle = (low + high) / 2
        if sum(min(max(middle * max(v, 0), floor), cap) for v in values) < pot:
            low = middle
        else:
            high = middle
    return [min(max(high * max(v, 0), floor), cap) for v in values]


def test_shares_are_proportional_and_exact():
    found = payout(result_of_values([1.0, 2.0, 3.0]), "100000")
    assert amounts(found) == [Decimal("16666.67"), Decimal("33333.33"), Decimal("50000.00")]
    assert sum(amounts(found)) == found.pot


@pytest.mark.parametrize("seed", range(8))
def test_amounts_equal_a_search_for_the_level(seed):
    rng = np.random.default_rng(seed)
    values = rng.exponential(size=7)
    values[rng.random(7) < 0.2] = 0.0
    values[0] = 1.0
    pot, floor, cap = 100_000, int(rng.integers(0, 5_000)), int(rng.integers(60_000, 100_000))
    ideal = divide(values.tolist(), pot, floor, cap)
    assert sum(ideal) == pot
    assert [float(x) for x in ideal] == pytest.approx(by_bisection(values, pot, floor, cap), rel=1e-9)


def test_floor_and_cap_bind_and_the_rest_stays_proportional():
    found = payout(result_of_values([0.01, 1.0, 2.0, 10.0]), 1000, floor=50, cap=600)
    assert amounts(found) == [Decimal("50.00"), Decimal("116.67"), Decimal("233.33"), Decimal("600.00")]
    assert [share.bound for share in found.shares] == ["floor", "", "", "cap"]


def test_an_empty_pot_pays_nobody_and_says_so():
    found = payout(result_of_values([1.0, 2.0]), 0)
    assert amounts(found) == [0, 0]
    assert [share.percent for share in found.shares] == [0.0, 0.0]
    assert found.remarks()[-1] == "Groups of parties were not checked: there is nothing to divide."
    paid = payout(result_of_values([1.0, 2.0]), 3)
    assert [share.percent for share in paid.shares] == pytest.approx([100 / 3, 200 / 3], abs=0.01)


def test_last_cents_go_to_the_largest_remainders():
    """Three equal parties and a cent too many: the first of equals gets it."""
    assert amounts(payout(result_of_values([1.0, 1.0, 1.0]), "100.00")) == [
        Decimal("33.34"), Decimal("33.33"), Decimal("33.33"),
    ]  # fmt: skip


def test_cents_never_go_beyond_the_cap():
    found = payout(result_of_values([5.0, 1.0, 1.0, 1.0]), "100.00", cap="50.00")
    assert amounts(found)[0] == Decimal("50.00")
    assert sum(amounts(found)) == 100


def test_negative_values_get_nothing():
    table = np.array([0, -0.5, 1.0, 0.5])
    assert amounts(payout(result_of_game(table), 10)) == [Decimal("0.00"), Decimal("10.00")]


def test_by_chooses_the_value():
    from msgspec.structs import replace

    result = result_of_values([1.0, 1.0])
    parties = (replace(result.parties[0], value=3.0), result.parties[1])
    result = replace(result, parties=parties)
    assert amounts(payout(result, 4, by="shapley-cmi")) == [Decimal("3.00"), Decimal("1.00")]
    assert amounts(payout(result, 4)) == [Decimal("2.00"), Decimal("2.00")]


def test_parties_inside_the_error_bars_are_tied():
    """Errors of 0.1 on each: 0.25 apart is within 1.96 x 0.141, 0.75 is not."""
    found = payout(result_of_values([2.0, 1.25, 1.0, 0.0], se=0.1, n_samples=10**6), 100)
    assert [share.rank for share in found.shares] == [1, 2, 2, 4]
    assert [share.tied for share in found.shares] == [False, True, True, False]
    assert "Too close to rank: p1 and p2; their values differ by less than their error." in found.remarks()


def test_coalition_that_would_do_better_alone_is_named():
    """Copies: each alone is worth everything, so half a pot each tempts both; no sharing avoids it."""
    found = payout(result_of_game([0, 1, 1, 1.0], names=["a", "b"]), 100)
    assert found.stability is not None
    assert not found.stability.stable
    assert found.stability.coalition in (("a",), ("b",))
    assert found.stability.excess == Decimal("50.00")
    assert found.stability.least == Decimal("50.00")
    assert found.remarks()[-1].endswith(
        "gets 50.00 less than it would bring without the others. "
        "In every division of this pot some group falls short, by 50.00 at least."
    )


def test_partners_who_need_each_other_are_stable():
    found = payout(result_of_game([0, 0, 0, 1.0]), 100)
    assert found.stability is not None
    assert found.stability.stable
    assert found.remarks() == (
        "Too close to rank: p0 and p1; their values differ by less than their error.",
        "Every group of parties gets at least what it would bring without the others: "
        "none has a reason to leave.",
    )


def test_stability_is_not_claimed_without_the_coalitions():
    found = payout(result_of_values([1.0, 2.0]), 10)
    assert found.stability is None
    assert "not checked" in found.remarks()[-1]
    assert "stability" not in found.to_dict()


def test_another_division_is_mentioned_where_one_would_satisfy_every_group():
    """v(ab) = 1 of 1 while c adds nothing: a and b get all by value; a floor for c takes from them."""
    table = [0, 0, 0, 1.0, 0, 0, 0, 1.0]
    found = payout(result_of_game(table, names=["a", "b", "c"]), 100, floor=10)
    assert found.remarks()[-1] == (
        "a and b get 10.00 less than they would bring without the others; "
        "another division of this pot would leave no group short."
    )


def test_paying_by_shapley_cmi_names_who_is_paid_for_memorised_value():
    """Learnable 3 and 0 of 3, Shapley-CMI 2 and 2: half of the pot would go to the second for nothing."""
    result = result_of_values([2.0, 2.0], names=["telco", "utility"])
    parties = (
        replace(result.parties[0], learnable=3.0),
        replace(result.parties[1], learnable=0.0),
    )
    found = payout(replace(result, parties=parties, learnable_total=3.0), 100, by="shapley-cmi")
    assert found.memorised == {"utility": Decimal("0.00")}
    assert found.remarks()[0] == (
        "Warning: utility would be paid 50.00 mostly for memorised value; by learnable value it gets 0.00."
    )
    assert found.to_dict()["memorised"] == {"utility": "0.00"}
    assert not payout(result, 100).memorised


def test_paying_by_shapley_cmi_alone_says_that_nobody_can_tell():
    found = payout(result_of_game([0, 1.0, 1.0, 2.0], learnable=False), 100, by="shapley-cmi")
    assert found.memorised is None
    assert "nobody can say how much of this pays for memorised value" in found.remarks()[0]


def test_csv_and_json_say_the_same():
    found = payout(result_of_game([0, 1, 1, 3.0], names=["=cmd", "b, c"]), "10.01")
    rows = list(csv.DictReader(io.StringIO(found.to_csv())))
    assert [row["party"] for row in rows] == ["'=cmd", "b, c"]
    assert [row["amount"] for row in rows] == [s["amount"] for s in found.to_dict()["shares"]]
    assert sum(Decimal(row["amount"]) for row in rows) == Decimal("10.01")
    assert found.to_dict()["stability"]["stable"] is True


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"pot": "-5"}, "the pot must not be negative"),
        ({"pot": "1.005"}, "whole cents"),
        ({"pot": "lots"}, "must be an amount"),
        ({"pot": 100, "floor": 60}, "a floor of 60.00 for 2 parties takes 120.00, more than the pot"),
        ({"pot": 100, "cap": 40}, "with a cap of 40.00 at most 80.00 can be paid"),
        ({"pot": 100, "floor": 20, "cap": 10}, "the floor of 20.00 is above the cap"),
        ({"pot": 100, "by": "charm"}, "by must be one of"),
    ],
)
def test_wrong_amounts_are_refused(arguments, message):
    pot = arguments.pop("pot")
    with pytest.raises(InputError, match=message):
        payout(result_of_values([1.0, 2.0]), pot, **arguments)


def test_nothing_of_value_is_not_shared_out():
    with pytest.raises(InputError, match="no party has a value above 0"):
        payout(result_of_values([0.0, 0.0]), 100)
    with pytest.raises(InputError, match="not finite"):
        divide([float("nan"), 1.0], 10, 0, 10)


def test_caps_of_worthless_parties_do_not_help():
    """Only one party has value, and its cap is below the pot."""
    with pytest.raises(InputError, match=r"with a cap of 6\.00 at most 6\.00"):
        payout(result_of_values([1.0, 0.0]), 10, cap=6)


def test_pot_of_floors_alone_is_paid_out():
    assert divide([0.0, 0.0], 10, 5, 10) == [Fraction(5), Fraction(5)]
    assert amounts(payout(result_of_values([1.0, 0.5]), 0)) == [Decimal("0.00"), Decimal("0.00")]


def test_payments_to_parties_that_the_advice_does_not_invite_are_named():
    """b is 0.004 +- 0.01 in 1,000 rows: undecided, and paid 1.96 of 100; a useless party is paid nothing."""
    paid = payout(with_undecided(), 100)
    assert paid.undecided == ("b",)
    assert (
        "b is paid 1.96 although these rows do not show whether it adds anything to the others."
        in paid.remarks()
    )
    useless = payout(four_parties(), 100)
    assert useless.idle == ("utility",)
    assert not any("utility" in remark for remark in useless.remarks())


def test_a_shortfall_within_its_error_is_not_told_to_the_cent():
    """Each gets 0.075 less than alone; the errors are 1.96 se, widened by the ratio of 0.6 to the value."""
    table = [0, 0.6, 0.55, 1.0]
    noise = payout(result_of_game(table, names=["a", "b"], se=0.5), 100)
    assert noise.remarks()[-1] == (
        "No group of parties clearly gets less than it would bring without the others."
    )
    assert noise.stability is not None
    assert noise.stability.stable
    clear = payout(result_of_game(table, names=["a", "b"], se=0.005), 100)
    assert "gets 7.50 less than it would bring without the others" in clear.remarks()[-1]


def test_an_empty_pot_is_the_reason_for_no_check():
    found = payout(result_of_game([0, 1.0, 1.0, 2.0]), 0)
    assert found.remarks()[-1] == "Groups of parties were not checked: there is nothing to divide."
