"""The public surface is what `__all__` says, and each name is where it says."""

from __future__ import annotations

import fedvalue


def test_all_is_sorted_and_complete() -> None:
    assert sorted(fedvalue.__all__) == fedvalue.__all__ == dir(fedvalue)
    for name in fedvalue.__all__:
        assert getattr(fedvalue, name) is not None


def test_every_name_has_a_home_and_the_names_that_people_need_are_there() -> None:
    assert {*fedvalue._HOMES, "__version__"} == set(fedvalue.__all__)
    needed = {
        "PartyValue",
        "Valuation",
        "ValuationSettings",
        "datasets",
        "errors",
        "join",
        "payout",
        "run",
        "select",
        "serve",
        "value",
    }
    assert needed <= set(fedvalue.__all__)
    for name in ("join", "payout", "run", "select", "serve", "value"):
        assert callable(getattr(fedvalue, name))


def test_an_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(fedvalue, "nothing_of_the_kind")
