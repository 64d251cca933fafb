"""Find data sets on this machine, or download them.

Search order: the folder in `FEDVALUE_DATA`, `../shared/data` beside a checkout, the user's cache,
scikit-learn (Wine, Breast and Digits). Nothing is downloaded unless the user asks. A copy that fails its
fingerprint is an error, never skipped: the user's folder takes precedence over all others.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from fedvalue.datasets import parse
from fedvalue.datasets.catalogue import CATALOGUE, Entry
from fedvalue.errors import InputError, TransportError
from fedvalue.storage.durable_files import atomic_write

Fetch = Callable[[str], bytes]

_SKLEARN = ("wine", "breast", "digits")
_KAGGLE_MUSIC = "features_30_sec.csv"
_TIMEOUT_SECONDS = 60
_SIZE_LIMIT = 64 * 2**20  # twenty times the largest of the files


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a copy: a file, or scikit-learn if `path` is None."""

    path: Path | None

    def __str__(self) -> str:
        return "scikit-learn" if self.path is None else str(self.path)


def cache_folder() -> Path:
    """The user's cache for downloaded data sets."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "fedvalue" / "datasets"


def folders() -> list[Path]:
    """The folders to look in, in order."""
    folders = []
    if named := os.environ.get("FEDVALUE_DATA"):
        folders.append(Path(named))
    checkout = Path(__file__).resolve().parents[3]
    if (checkout / "pyproject.toml").is_file():
        folders.append(checkout.parent / "shared" / "data")
    folders.append(cache_folder())
    return folders


def find(entry: Entry) -> Place | None:
    """The first place that has the data set, or None."""
    names = [entry.file_name] + ([_KAGGLE_MUSIC] if entry.name == "music" else [])
    for folder in folders():
        for name in names:
            if (folder / name).is_file():
                return Place(folder / name)
    if entry.name in _SKLEARN and importlib.util.find_spec("sklearn") is not None:
        return Place(None)
    return None


def read(entry: Entry, place: Place, *, verify: bool = True) -> parse.Columns:
    """Read a copy, and refuse one with another layout or other values."""
    if place.path is None:
        columns = parse.from_sklearn(entry.name)
    else:
        try:
            raw = place.path.read_bytes()
            if place.path.name == _KAGGLE_MUSIC:
                columns = parse.kaggle_music(raw)
            else:
                columns = parse.common_layout(raw, entry.text)
        except OSError as error:
            raise InputError(f"cannot read {place}: {error.strerror}", code="E_DATASET") from error
        except (InputError, ValueError) as error:
            raise InputError(
                f"{place} is not the {entry.name} data set: {error}", code="E_DATASET"
            ) from error
    if verify:
        _check(entry, columns, str(place))
    return columns


def download(entry: Entry, fetch: Fetch | None = None) -> Place:
    """Fetch a data set, check it and keep it in the user's cache; `fetch` replaces the network in tests."""
    if not entry.urls:
        raise InputError(f"{entry.name} is not downloaded by FedValue: {entry.by_hand}", code="E_DATASET")
    try:
        columns = parse.DOWNLOADED[entry.name]([(fetch or _fetch)(url) for url in entry.urls])
    except (InputError, ValueError, IndexError) as error:
        raise InputError(
            f"the download from {entry.urls[0]} is not the {entry.name} data set: {error}", code="E_DATASET"
        ) from error
    _check(entry, columns, entry.urls[0])
    target = cache_folder() / entry.file_name
    target.parent.mkdir(parents=True, exist_ok=True)
    atomic_write(target, parse.write_common_layout(entry.name, columns))
    return Place(target)


def missing_message(entry: Entry) -> str:
    """How to get a data set that is not on this machine."""
    how = entry.by_hand or (
        f"`fedvalue datasets --download {entry.name}` fetches it (licence: {entry.licence}), "
        f"or set FEDVALUE_DATA to a folder with {entry.file_name}"
    )
    if entry.name in _SKLEARN:
        how += "; scikit-learn also carries it: pip install 'fedvalue[paper]'"
    return f"the data set {entry.name} is not on this machine: {how}"


def missing(names: Collection[str]) -> dict[str, str]:
    """The data sets among `names` that are not on this machine, each with how to get it."""
    return {
        entry.name: missing_message(entry)
        for entry in CATALOGUE.values()
        if entry.name in names and find(entry) is None
    }


def _check(entry: Entry, columns: parse.Columns, where: str) -> None:
    fingerprint = parse.fingerprint(columns)
    if fingerprint != entry.fingerprint:
        n, m = columns.values.shape
        raise InputError(
            f"{where} is not the {entry.name} data set: expected {entry.n_samples} rows and "
            f"{entry.n_features} features with fingerprint {entry.fingerprint[:12]}…, "
            f"got {n} rows and {m} features with {fingerprint[:12]}…",
            code="E_DATASET",
        )


def _fetch(url: str) -> bytes:
    import urllib.error
    import urllib.request

    if not url.startswith("https://"):
        raise InputError(f"refusing to download from {url}: not https")
    try:
        with urllib.request.urlopen(url, timeout=_TIMEOUT_SECONDS) as answer:  # noqa: S310 - https checked above
            raw: bytes = answer.read(_SIZE_LIMIT + 1)
    except (urllib.error.URLError, OSError) as error:
        raise TransportError(f"cannot download {url}: {getattr(error, 'reason', error)}") from error
    if len(raw) > _SIZE_LIMIT:
        raise InputError(f"{url}: expected at most {_SIZE_LIMIT} bytes")
    return raw
