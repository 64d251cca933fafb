"""The six words, as the command compares them."""

from __future__ import annotations

import pytest

from fedvalue.cli.taking_part import _confirm
from fedvalue.errors import VerificationError

WORDS = ("ivory", "ankle", "crystal", "zebra", "saddle", "quilt")


def test_words_as_people_write_them_are_the_same():
    assert _confirm("bank", "telco", "Ivory-ankle crystal  ZEBRA saddle quilt", skip=False)(WORDS)


def test_a_mistyped_word_names_the_harmless_remedy_before_the_alarm():
    with pytest.raises(VerificationError) as differ:
        _confirm("bank", "telco", "ivory ankle cristal zebra saddle quilt", skip=False)(WORDS)
    assert differ.value.code == "E_WORDS"
    harmless, alarm = str(differ.value).split("if they really differ")
    assert "mistyped, start the command again" in harmless
    assert "new invitation" in alarm
