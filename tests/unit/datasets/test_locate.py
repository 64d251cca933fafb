"""Where data sets are looked for, in which order, and what happens when a copy is missing or wrong."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fedvalue import datasets
from fedvalue.datasets import locate, parse
from fedvalue.datasets.catalogue import CATALOGUE
from fedvalue.errors import InputError, TransportError

WINE = CATALOGUE["wine"]


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine without data: empty folders, no checkout, no scikit-learn; returns the cache's home."""
    monkeypatch.setenv("FEDVALUE_DATA", str(tmp_path / "named"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(locate, "__file__", str(tmp_path / "site-packages/a/b/c/locate.py"))
    monkeypatch.setattr(locate, "_SKLEARN", ())
    return tmp_path


def wine_file(values: np.ndarray | None = None) -> bytes:
    columns = parse.from_sklearn("wine")
    return parse.write_common_layout(
        "wine", parse.Columns(columns.names, columns.values if values is None else values, columns.labels)
    )


def uci_wine() -> bytes:
    columns = parse.from_sklearn("wine")
    rows = zip(columns.labels.tolist(), columns.values.tolist(), strict=True)
    return "".join(f"{label},{','.join(map(repr, row))}\n" for label, row in rows).encode()


def put(path: Path, raw: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(raw)
    return path


def test_named_folder_then_checkout_then_cache_then_scikit_learn(
    nowhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert locate.find(WINE) is None
    monkeypatch.setattr(locate, "_SKLEARN", ("wine",))
    assert str(locate.find(WINE)) == "scikit-learn"
    cached = put(nowhere / "cache/fedvalue/datasets/wine.csv", wine_file())
    assert locate.find(WINE) == locate.Place(cached)
    # A checkout is a folder with pyproject.toml, three above the module's folder.
    put(nowhere / "checkout/pyproject.toml", b"")
    monkeypatch.setattr(locate, "__file__", str(nowhere / "checkout/src/fedvalue/datasets/locate.py"))
    beside = put(nowhere / "shared/data/wine.csv", wine_file())
    assert locate.find(WINE) == locate.Place(beside)
    named = put(nowhere / "named/wine.csv", wine_file())
    assert locate.find(WINE) == locate.Place(named)
    assert datasets.load("wine").source == str(named)


def test_a_copy_with_another_value_is_refused_not_skipped(nowhere: Path) -> None:
    """The folder that the user named must not be outvoted by a good copy elsewhere."""
    put(nowhere / "cache/fedvalue/datasets/wine.csv", wine_file())
    values = parse.from_sklearn("wine").values.copy()
    values[3, 3] += 0.001
    put(nowhere / "named/wine.csv", wine_file(values))
    with pytest.raises(InputError, match=r"named/wine.csv is not the wine data set: expected 178"):
        datasets.load("wine")
    assert datasets.load("wine", verify=False).sha256 != WINE.fingerprint


def test_a_damaged_file_is_named(nowhere: Path) -> None:
    put(nowhere / "named/wine.csv", wine_file()[:1000])
    with pytest.raises(InputError, match=r"named/wine\.csv is not the wine data set"):
        datasets.load("wine")


def test_a_missing_set_comes_with_the_command_that_helps(nowhere: Path) -> None:
    with pytest.raises(InputError, match=r"`fedvalue datasets --download spect` fetches it \(licence: "):
        datasets.load("spect")


def test_music_is_never_downloaded_and_says_where_to_get_it(nowhere: Path) -> None:
    def fetch(url: str) -> bytes:
        raise AssertionError(url)

    with pytest.raises(InputError, match=r"features_30_sec\.csv yourself from https://www\.kaggle\.com/"):
        locate.download(CATALOGUE["music"], fetch)
    with pytest.raises(InputError, match=r"features_30_sec\.csv yourself from https://www\.kaggle\.com/"):
        datasets.load("music", download=True)


def test_a_download_is_checked_and_then_found_in_the_cache(nowhere: Path) -> None:
    asked: list[str] = []

    def fetch(url: str) -> bytes:
        asked.append(url)
        return uci_wine()

    place = locate.download(WINE, fetch)
    assert asked == list(WINE.urls)
    assert place.path == nowhere / "cache/fedvalue/datasets/wine.csv"
    assert datasets.load("wine").sha256 == WINE.fingerprint
    assert [path.name for path in place.path.parent.iterdir()] == ["wine.csv"]


@pytest.mark.parametrize("cut", [0, 50, -40])
def test_a_download_that_is_something_else_is_not_kept(nowhere: Path, cut: int) -> None:
    with pytest.raises(InputError, match="is not the wine data set"):
        locate.download(WINE, lambda url: uci_wine()[:cut])
    assert not (nowhere / "cache").exists()


def test_nothing_is_downloaded_without_being_asked(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fetch(url: str) -> bytes:
        raise AssertionError(url)

    monkeypatch.setattr(locate, "_fetch", fetch)
    with pytest.raises(InputError, match="not on this machine"):
        datasets.load("wine")


def test_an_unreachable_server_is_a_transport_error(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import urllib.error
    import urllib.request

    def refuse(url: str, timeout: float) -> None:
        raise urllib.error.URLError("name or service not known")

    monkeypatch.setattr(urllib.request, "urlopen", refuse)
    with pytest.raises(TransportError, match="cannot download https://archive"):
        locate.download(WINE)


def test_only_https_is_fetched() -> None:
    with pytest.raises(InputError, match="not https"):
        locate._fetch("http://example.org/wine.data")


def test_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(
        InputError, match="unknown data set 'iris'; there are wine, parkinsons, spect, breast"
    ):
        datasets.load("iris")
