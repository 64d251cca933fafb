"""Sentences, pictures and tables of a report never contradict each other, whatever the game."""

from __future__ import annotations

import re

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from fedvalue.decisions import payout, select
from fedvalue.reports import wording
from fedvalue.reports.html import render
from fedvalue.reports.view import view
from tests.unit.decisions.results import random_monotone_game, result_of_game

games = st.tuples(
    st.integers(1, 5), st.integers(0, 10**6), st.sampled_from([0.0, 0.01, 0.3]),
    st.sampled_from([300, 10**5]), st.booleans(),
)  # fmt: skip


def result_and_prices(case):
    p, seed, se, n_samples, priced = case
    rng = np.random.default_rng(seed)
    table = random_monotone_game(rng, p)
    result = result_of_game(table, names=[f"party{k}" for k in range(p)], se=se, n_samples=n_samples)
    prices = {f"party{k}": int(rng.integers(0, 10)) for k in range(p)} if priced else None
    return replace(result, label_entropy=float(table[-1]) + 0.1), prices, 12 if priced else None


def named(text: str) -> list[str]:
    return re.findall(r"party\d", text)


@given(games)
def test_every_party_is_in_one_sentence_and_its_bar_says_the_same(case):
    result, prices, budget = result_and_prices(case)
    selection = select(result, prices, budget)
    sentences = wording.decision(result, selection)
    shown = view(result, prices=prices, budget=budget)
    assert (shown.decision, *shown.more) == sentences
    assert sorted(name for one in sentences for name in set(named(one))) == sorted(result.values)
    kinds = {step.party: step.kind for step in shown.waterfall.steps}
    if selection.parties:
        assert tuple(named(sentences[0])) == selection.parties
    assert {name for name, kind in kinds.items() if kind == "invited"} == set(selection.parties)
    for group, kind in (
        (selection.undecided, "undecided"),
        (selection.idle, "nothing"),
        (selection.unaffordable, "unaffordable"),
    ):  # fmt: skip
        assert {step.party for step in group} == {name for name, own in kinds.items() if own == kind}
    for before, after in zip(shown.waterfall.steps, shown.waterfall.steps[1:], strict=False):
        assert after.start == before.end
    assert not re.search(
        r"\b(nan|None|inf)\b", re.sub(r"<style>.*</style>", "", render(result), flags=re.DOTALL)
    )


@given(games)
def test_payout_calls_idle_and_undecided_whom_the_advice_does(case):
    result, _, _ = result_and_prices(case)
    if not any(value > 0 for value in result.learnable.values()):
        return
    paid, advice = payout(result, 1000), select(result)
    assert set(paid.idle) == {step.party for step in advice.idle}
    assert set(paid.undecided) == {step.party for step in advice.undecided}
