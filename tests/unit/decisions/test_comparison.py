"""Two results side by side: which differences their errors explain."""

from __future__ import annotations

import numpy as np
from msgspec import structs

import fedvalue
from fedvalue.decisions.comparison import compare
from fedvalue.valuation.acceptance_test import AcceptanceTest
from fedvalue.valuation.provenance import Provenance, SourceFile


def world(seed: int, n: int = 2000, strong: float = 0.15, **options):
    """Two parties whose noisy copies of the label are wrong in `strong` and in 35% of the rows."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    parties = {name: {"x": y ^ (rng.random(n) < flip)} for name, flip in (("a", strong), ("b", 0.35))}
    return fedvalue.value(label=y, parties=parties, **options)


def test_other_rows_of_the_same_world_differ_within_their_error():
    """Ten pairs: at 95% at most a few of twenty differences are called more than noise."""
    beyond = [
        change.beyond_error for seed in range(10) for change in compare(world(seed), world(seed + 50)).parties
    ]
    assert sum(beyond) <= 4


def test_a_party_that_became_worse_is_seen():
    """Its copies of the label went from 15% to 30% wrong; the other party did not change."""
    found = compare(world(1), world(2, strong=0.30))
    changed = {change.name: change.beyond_error for change in found.parties}
    assert changed["a"] is True
    assert any("a falls beyond its error" in sentence for sentence in found.sentences)
    assert found.same_rows is None


def test_what_was_asked_differently_is_listed():
    """Settings, columns and rows."""
    before, after = world(1), world(1, n=1500, bins=3)
    assert {"rows: 2,000 -> 1,500", "bins: 5 -> 3"} <= set(compare(before, after).asked)


def test_settings_are_written_as_on_the_command_line():
    """Not as Python writes its objects."""
    before = world(1)
    after = world(
        1,
        acceptance=AcceptanceTest.parse("a:auc_gain=0.02"),
        categorical=["x"],
        precision=0.01,
        columns="joint",
        clean_labels=True,
    )
    assert set(compare(before, after).asked) == {
        "acceptance: none -> a:auc_gain=0.02",
        "categorical: none -> x",
        "precision: none -> 0.01",
        "columns: features -> joint",
        "clean labels: no -> yes",
    }
    fewer = structs.replace(
        before,
        columns=tuple(structs.replace(one, name="z") if one.party == "a" else one for one in before.columns),
    )
    assert "columns of a: without x, with z" in compare(before, fewer).asked


def test_a_party_that_came_or_left_is_named():
    """Its value is not compared."""
    before = world(1)
    alone = structs.replace(before, parties=before.parties[:1], interactions=None, coalitions=None)
    found = compare(before, alone)
    assert found.only_before == ("b",)
    assert [change.name for change in found.parties] == ["a"]
    assert compare(alone, before).only_after == ("b",)


def from_file(result, sha256: str):
    """The result as if it came from a file with this digest."""
    sources = (SourceFile(name="table", sha256=sha256),)
    return structs.replace(result, provenance=Provenance(software="", created="", sources=sources))


def test_a_difference_that_cannot_be_printed_is_no_change():
    before = from_file(world(1), "aa")
    parties = tuple(structs.replace(party, learnable=party.learnable - 4e-5) for party in before.parties)
    found = compare(before, structs.replace(before, parties=parties))
    assert found.same_rows is True
    assert not any(change.beyond_error for change in found.parties)
    assert "no value changes beyond its error" in found.sentences
    parties = tuple(structs.replace(party, learnable=party.learnable - 4e-4) for party in before.parties)
    moved = compare(before, structs.replace(before, parties=parties))
    assert all(change.beyond_error for change in moved.parties)


def test_another_protocol_is_named():
    before = world(1)
    found = compare(before, structs.replace(before, protocol="vpsic"))
    assert found.asked == ("protocol: none -> vpsic",)


def test_another_file_may_hold_the_same_rows():
    """Other numbers of rows are other rows; other bytes need not be."""
    result = world(1)
    csv, parquet = from_file(result, "aa"), from_file(result, "bb")
    assert compare(csv, csv).same_rows is True
    assert compare(csv, parquet).same_rows is None
    assert compare(csv, structs.replace(parquet, n_samples=result.n_samples + 1)).same_rows is False
