"""`fedvalue manifest` with an epsilon: the file, and the words for it."""

from __future__ import annotations

import json

import pytest

from tests.cli.runner import fedvalue
from tests.support.town import TASK, Town


@pytest.fixture(scope="module")
def town(tmp_path_factory):
    return Town(tmp_path_factory.mktemp("epsilon"), n=100)


def new(town, path, *options):
    return fedvalue(
        "manifest", "new", path, "--cards", town.root / "cards", "--purpose", "a test", "--samples", "10000",
        "--compute", "127.0.0.1:1", "--validate", "127.0.0.1:2", *options,
    )  # fmt: skip


def test_epsilon_stands_in_the_manifest_and_is_explained_with_all_that_belongs_to_it(town, tmp_path):
    """Scale by hand: two parties, n = 10,000: 2 S(n) = 0.0038069 nats, and four steps of the grid."""
    path = tmp_path / "manifest.json"
    assert new(town, path, "--epsilon", "0.50").code == 0
    assert json.loads(path.read_text())["manifest"]["epsilon"] == "0.5"
    shown = fedvalue("manifest", "show", path)
    text = " ".join(shown.out.split())
    for words in (
        "Noise with epsilon = 0.5 and delta = 0", "a scale of 0.00761 nats", "at most 1.65 times as likely",
        "differ in all codes of one person", "not the servers", "keeps a ledger", "bin edges",
        "each value with random noise added", "by more than 2e-9",
    ):  # fmt: skip
        assert words in text
    assert "value when added last" not in text
    assert "samples of every label" not in text


def test_without_epsilon_the_file_says_so(town, tmp_path):
    path = tmp_path / "manifest.json"
    assert new(town, path).code == 0
    assert json.loads(path.read_text())["manifest"]["epsilon"] is None
    assert "oise" not in fedvalue("manifest", "show", town.member(TASK).folder / "manifest.json").out


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (("--epsilon", "0"), 3, "epsilon must be between 0.001 and 10"),
        (("--epsilon", "much"), 3, "epsilon must be a number"),
        (
            ("--epsilon", "1", "--policy", "counts"),
            4,
            "epsilon needs protocol 'mirror' with policy 'valuation'",
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
