"""`fedvalue manifest` with an epsilon: the file, and the words for it."""

from __future__ import annotations

import json
import re

import pytest

from tests.cli.here import fedvalue_here
from tests.support.town import TASK, Town


@pytest.fixture(scope="module")
def town(tmp_path_factory):
    return Town(tmp_path_factory.mktemp("epsilon"), n=100)


def new(town, path, *options):
    return fedvalue_here(
        "manifest", "new", path, "--cards", town.root / "cards", "--purpose", "a test", "--samples", "10000",
        "--compute", "127.0.0.1:1", "--validate", "127.0.0.1:2", *options,
    )  # fmt: skip


def test_epsilon_stands_in_the_manifest_and_is_explained_with_all_that_belongs_to_it(town, tmp_path):
    """The noise by hand: two columns move by 2 each, three quarters of rho for tables with the label.

    The usual conversion of (0.5, 1e-6) gives rho = 0.00444 and a deviation of 24.5; the exact one of the
    Gaussian mechanism 18.6, which the noise has.
    """
    path = tmp_path / "manifest.json"
    assert new(town, path, "--epsilon", "0.50").code == 0
    assert json.loads(path.read_text())["manifest"]["epsilon"] == "0.5"
    shown = fedvalue_here("manifest", "show", path)
    text = " ".join(shown.out.split())
    for words in (
        "Noise with epsilon = 0.5 and delta = 1e-06", "at most 1.65 times as likely",
        "except with a probability of 1e-06", "differ in all codes of one person", "not the servers",
        "keeps a ledger", "bin edges",
    ):  # fmt: skip
        assert words in text
    (deviation,) = re.findall(r"in a count with a label is ([\d.]+) persons", text)
    assert deviation == "18.6"
    assert "value when added last" not in text
    assert "samples of every label" not in text


def test_without_epsilon_the_file_says_so(town, tmp_path):
    path = tmp_path / "manifest.json"
    assert new(town, path).code == 0
    assert json.loads(path.read_text())["manifest"]["epsilon"] is None
    shown = fedvalue_here("manifest", "show", town.member(TASK).folder / "manifest.json").out
    assert "No noise is added." in " ".join(shown.split())
    assert "Noise with epsilon" not in shown


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (("--epsilon", "0"), 3, "epsilon must be between 0.001 and 10"),
        (("--epsilon", "much"), 3, "epsilon must be a number"),
        (
            ("--epsilon", "1", "--policy", "counts"),
            4,
            "epsilon needs protocol 'mirror' or 'gram' with policy 'valuation'",
        ),
        (
            ("--epsilon", "1", "--protocol", "paper", "--policy", "counts"),
            4,
            "epsilon needs protocol 'mirror'",
        ),
    ],
)
def test_an_epsilon_that_makes_no_sense_is_refused(town, tmp_path, options, code, words):
    done = new(town, tmp_path / "manifest.json", *options)
    assert done.code == code
    assert words in done.err
    assert not (tmp_path / "manifest.json").exists()
