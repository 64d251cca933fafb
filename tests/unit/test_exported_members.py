"""The public surface is what `__all__` says, and each name is where it says."""

from __future__ import annotations

import fedvalue


def test_all_is_sorted_and_complete() -> None:
    assert sorted(fedvalue.__all__) == fedvalue.__all__ == dir(fedvalue)
    for name in fedvalue.__all__:
        assert getattr(fedvalue, name) is not None


def test_an_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(fedvalue, "nothing_of_the_kind")
