"""`fedvalue datasets` as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.here import fedvalue_here
from tests.cli.runner import fedvalue


def test_the_list_names_all_of_them_with_their_sizes() -> None:
    ran = fedvalue("datasets")
    assert ran.code == 0
    for name, rows in (("wine", "178"), ("music", "1,000"), ("credit", "30,000"), ("adult", "32,561")):
        assert any(line.split()[:2] == [name, rows] for line in ran.out.splitlines())
    assert "Licence: CC BY 4.0" in ran.out


def test_json_is_alone_on_stdout() -> None:
    ran = fedvalue_here("datasets", "--json", "-")
    rows = {row["name"]: row for row in json.loads(ran.out)}
    assert list(rows) == [
        "wine",
        "parkinsons",
        "spect",
        "breast",
        "music",
        "credit",
        "adult",
        "bank",
        "digits",
    ]
    assert rows["wine"]["found"] is not None
    assert rows["breast"]["n_features"] == 30


def test_missing_sets_come_with_what_helps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The named folder holds a Wine of the wrong name; the others may be found elsewhere or not."""
    from fedvalue.datasets import locate
    from fedvalue.datasets.catalogue import CATALOGUE

    monkeypatch.setenv("FEDVALUE_DATA", str(tmp_path))
    ran = fedvalue_here("datasets", "--json", "-")
    for row in json.loads(ran.out):
        assert row["found"] == (
            None if (place := locate.find(CATALOGUE[row["name"]])) is None else str(place)
        )


def test_music_is_not_downloaded() -> None:
    ran = fedvalue_here("datasets", "--download", "music")
    assert ran.code == 3
    assert "kaggle.com" in ran.err
    assert "[E_DATASET]" in ran.err


def test_unknown_name() -> None:
    ran = fedvalue_here("datasets", "--download", "iris")
    assert ran.code == 3
    assert "unknown data set 'iris'" in ran.err
