"""The rule that makes vertical splits."""

from __future__ import annotations

import numpy as np
import pytest

from fedvalue.benchmark.benchmark_problems import (
    DESIGN_SPLITS,
    JUDGE_SPLITS,
    Setting,
    settings,
    vertical_problem,
)
from fedvalue.datasets import Dataset
from fedvalue.errors import InputError


def numbered(n_samples: int, n_features: int) -> Dataset:
    """Every cell says its row and column; the label is the parity of the row."""
    rows = np.arange(n_samples)
    return Dataset(
        "numbered",
        {f"f{k}": rows + k / 100 for k in range(n_features)},
        (rows % 2).astype(np.str_),
        "", "", "", "",
    )  # fmt: skip


@pytest.mark.parametrize("split", [0, 1])
@pytest.mark.parametrize("k", [1, 2, 3])
def test_every_feature_has_one_holder_and_noise_is_a_shuffled_party(k: int, split: int) -> None:
    setting = Setting("numbered", k, split)
    problem = vertical_problem(numbered(100, 20), setting)
    table = problem.table
    assert table.names == ("party-1", "party-2", "party-3", "party-4", "noise")
    assert all(len(columns) == k for columns in table.parties.values())
    assert len(table.task) == (k if setting.with_task else 0)
    held = [name for party, columns in table.parties.items() if party != "noise" for name in columns]
    assert len({*held, *table.task}) == len(held) + len(table.task)
    copied = next(
        party for party, columns in table.parties.items() if list(columns) == list(table.parties["noise"])
    )
    for name, column in table.parties["noise"].items():
        original = table.parties[copied][name]
        assert sorted(column) == sorted(original)
        assert np.mean(column == original) < 0.1
    # A party's columns stay together: all cells of a row come from one row.
    rows = np.array([np.floor(column) for column in table.parties["noise"].values()])
    assert (rows == rows[0]).all()
    assert problem.unseen is None


def test_large_sets_are_seen_in_part_and_tested_on_other_rows() -> None:
    problem = vertical_problem(numbered(6000, 6), Setting("numbered", 1, 2))
    assert problem.unseen is not None
    assert (problem.table.n_samples, problem.unseen.n_samples) == (1500, 3000)
    seen = np.floor(problem.table.parties["party-1"][next(iter(problem.table.parties["party-1"]))])
    unseen = np.floor(problem.unseen.parties["party-1"][next(iter(problem.unseen.parties["party-1"]))])
    assert not set(seen) & set(unseen)
    assert problem.table.label.tolist() == (seen % 2).astype(int).tolist()


def test_methods_see_at_most_half_of_a_set() -> None:
    problem = vertical_problem(numbered(1400, 6), Setting("numbered", 1, 2))
    assert problem.unseen is not None
    assert (problem.table.n_samples, problem.unseen.n_samples) == (700, 700)


def test_fewer_features_make_fewer_parties_but_not_fewer_than_three() -> None:
    few = vertical_problem(numbered(50, 13), Setting("numbered", 3, 0))
    assert few.table.names == ("party-1", "party-2", "party-3", "noise")
    with pytest.raises(InputError, match="8 features are too few for 3 parties of 3"):
        vertical_problem(numbered(50, 8), Setting("numbered", 3, 1))


def test_a_name_says_everything() -> None:
    first, again, other = (
        vertical_problem(numbered(100, 20), Setting("numbered", 2, split)) for split in (1, 1, 2)
    )
    assert first.key == again.key
    assert first.key != other.key


def test_half_of_the_settings_have_task_features_and_judging_ones_are_not_for_design() -> None:
    everything = settings(splits=(*DESIGN_SPLITS, *JUDGE_SPLITS))
    assert len(everything) == 81
    assert abs(sum(setting.with_task for setting in everything) - 40.5) < 6
    assert not any(setting.split in DESIGN_SPLITS for setting in settings())
