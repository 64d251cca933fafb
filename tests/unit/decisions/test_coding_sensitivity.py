"""Whether the advice depends on the bins, on results made by hand."""

from __future__ import annotations

from msgspec.structs import replace

from fedvalue.decisions.coding_sensitivity import other_codings, sensitivity
from fedvalue.tables.coding_settings import CodingSettings
from fedvalue.valuation.settings import ValuationSettings
from tests.unit.decisions.results import result_of_values


def coded(values, bins, binning="quantile", **options):
    settings = ValuationSettings(coding=CodingSettings(bins=bins, binning=binning))
    return replace(result_of_values(values, names=["a", "b"], **options), settings=settings)


def test_other_codings_are_five_or_six():
    assert len(other_codings(CodingSettings())) == 5
    others = other_codings(CodingSettings(bins=10, categorical=("zip",)))
    assert [(c.bins, c.binning) for c in others] == [
        (3, "quantile"), (5, "quantile"), (8, "quantile"), (3, "width"), (5, "width"), (8, "width"),
    ]  # fmt: skip
    assert {c.categorical for c in others} == {("zip",)}


def test_the_same_advice_is_called_so():
    found = sensitivity([coded([1.0, 0.0], 5), coded([0.9, 0.0], 3), coded([0.8, 0.0], 8, "width")])
    assert found.same_advice
    assert found.sentence.endswith("the same parties are invited in all 3 codings tried.")
    assert [run.coding for run in found.runs] == [
        "5 bins, about equally filled", "3 bins, about equally filled", "8 bins, of equal width",
    ]  # fmt: skip


def test_parties_that_make_the_difference_are_named():
    """b is invited twice, once undecided (0.02 +- 0.06 in 1,000 rows)."""
    unsure = coded([1.0, 0.02], 8, se=0.03, n_samples=1000)
    found = sensitivity([coded([1.0, 0.5], 5), coded([1.0, 0.4], 3), unsure])
    assert not found.same_advice
    assert found.sentence == (
        "The advice depends on how numbers are cut into bins: b is invited in 2 of 3 codings and undecided "
        "in 1."
    )
    assert found.runs[2].undecided == ("b",)
