"""One printer shows every result: a task party's, a data party's own share, with and without statistics."""

from __future__ import annotations

from msgspec.structs import replace

from fedvalue.cli.terminal import show_valuation
from fedvalue.reports.view import view
from fedvalue.valuation.result import PartyValue, Valuation
from tests.unit.decisions.results import result_of_game
from tests.unit.reports.test_noisy_report import noisy
from tests.unit.reports.worlds import four_parties


def lines(capsys, valuation, **options):
    show_valuation(valuation, **options)
    return capsys.readouterr().out.splitlines()


def test_the_decision_leads_and_parties_are_sorted_by_learnable_value(capsys):
    out = lines(capsys, four_parties())
    assert out[0] == (
        "Invite insurer, shop and telco: together they avoid 46 of 190 wrong decisions per 1,000 cases."
    )
    heading = next(line.split() for line in out if "Shapley-CMI" in line)
    assert heading[:4] == ["party", "learnable", "95%", "interval"]
    first = [line.split()[0] for line in out if line.startswith((" insurer", " shop", " telco", " utility"))]
    assert first == ["insurer", "shop", "telco", "utility"]
    assert any(line.split()[:3] == ["all", "together", "0.2100"] for line in out)


def test_memorised_value_does_not_change_the_order(capsys):
    result = four_parties()
    parties = tuple(replace(p, value=9.0) if p.name == "utility" else p for p in result.parties)
    out = lines(capsys, replace(result, parties=parties))
    names = [line.split()[0] for line in out if line.startswith((" insurer", " shop", " telco", " utility"))]
    assert names == ["insurer", "shop", "telco", "utility"]


def test_a_data_party_sees_its_own_share_and_no_decision(capsys):
    own = Valuation(
        parties=(PartyValue(name="telco", value=0.13, learnable=0.06, learnable_share=0.3),),
        total=0.5, learnable_total=0.2, n_samples=5000, method="exact", protocol="mirror", run_id="ab",
    )  # fmt: skip
    out = lines(capsys, own, own="telco")
    assert not any("Invite" in line for line in out)
    telco = next(line.split() for line in out if line.startswith(" telco"))
    assert telco == ["telco", "0.0600", "30.0%", "0.1300"]
    assert any("protocol mirror" in line for line in out)


def test_a_share_without_learnable_value_is_shown_as_far_as_it_goes(capsys):
    own = Valuation(
        parties=(PartyValue(name="telco", value=0.13),), total=0.5, n_samples=5000, method="exact"
    )
    telco = next(line.split() for line in lines(capsys, own, own="telco") if line.startswith(" telco"))
    assert telco == ["telco", "0.1300"]


def test_values_with_noise_come_with_their_promise(capsys):
    out = lines(capsys, noisy(0.2, 0.1, -0.01))
    assert out[0] == "Invite telco and shop: together they bring 100% of what all parties would."
    assert out[1] == "Whether insurer adds to that is undecided; the agreed noise hides it."
    assert not any("Shapley-CMI " in line for line in out)
    assert any("Differentially private with epsilon 1 and delta 1e-06" in line for line in out)


def test_results_without_statistics_give_no_advice(capsys):
    out = lines(capsys, result_of_game([0, 1.0, 1.0, 2.0], learnable=False))
    assert out[0].startswith("No advice")


def test_names_cannot_command_the_terminal(capsys):
    result = result_of_game([0, 1.0], names=["\x1b[2Jevil\u202e"])
    shown = "\n".join(lines(capsys, result))
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert r"\x1b[2Jevil\u202e" in shown


def test_warnings_reasons_and_notes_are_printed_once(capsys):
    result = four_parties()
    parties = tuple(
        replace(p, interval=None, interval_reason="too few rows per cell") for p in result.parties
    )
    result = replace(result, parties=parties, warnings=("The label is rare.",), details={"notes": ["n"]})
    out = lines(capsys, result)
    assert out.count("Shapley-CMI has no interval: too few rows per cell.") == 1
    assert out.count("The label is rare.") == 1
    known = (replace(parties[0], interval=(0.1, 0.2), interval_reason=""), *parties[1:])
    rest = ", ".join(party.name for party in parties[1:-1]) + f" and {parties[-1].name}"
    assert f"Shapley-CMI of {rest} has no interval: too few rows per cell." in lines(
        capsys, replace(result, parties=known)
    )
    assert out.count("note: n") == 1


def test_nothing_is_not_printed_as_less_than_nothing(capsys):
    result = four_parties()
    parties = tuple(
        replace(p, learnable=-1e-6, learnable_share=-1e-5) if p.name == "utility" else p
        for p in result.parties
    )
    utility = next(line for line in lines(capsys, replace(result, parties=parties)) if "utility  " in line)
    assert "-0.0" not in utility
    assert "-0.0" not in str(replace(result, parties=parties))


def test_parts_of_a_total_that_may_be_nothing_are_not_printed(capsys):
    """0.0102 of 0.01 ± 0.02 would be 102%; the same parts of 0.01 ± 0.005 are printed."""
    parties = (
        PartyValue(name="telco", value=0.1, share=0.5, learnable=0.0102, learnable_share=1.02),
        PartyValue(name="shop", value=0.1, share=0.5, learnable=-0.0002, learnable_share=-0.02),
    )
    undecided, known = (
        Valuation(
            parties=parties, total=0.2, learnable_total=0.01, learnable_total_interval=ends, n_samples=120,
            method="exact", label_entropy=0.6,
        )
        for ends in ((-0.01, 0.03), (0.005, 0.015))
    )  # fmt: skip
    for result, shown in ((undecided, False), (known, True)):
        printed = [line for line in lines(capsys, result) + str(result).splitlines() if "telco  " in line]
        assert len(printed) == 2
        assert all(("102.0%" in line) is shown for line in printed)
        assert view(result).shares is shown
        assert [row.share for row in view(result).parties] == (["102%", "−2.0%"] if shown else ["", ""])
        assert result["telco"].learnable_share == 1.02
