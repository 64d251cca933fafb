"""Where a source's data lies: which files are behind a path, and of which kind.

A source is a file, a folder or a database URI. Nothing is opened here, except to look at the first
bytes of a file whose name does not tell its kind.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

from fedvalue.errors import InputError
from fedvalue.tables import sql_source as database

Source: TypeAlias = str | os.PathLike[str]
Format = Literal["csv", "parquet", "arrow", "database"]

_FORMATS: dict[str, Format] = {
    ".csv": "csv", ".tsv": "csv", ".txt": "csv", ".parquet": "parquet", ".pq": "parquet",
    ".arrow": "arrow", ".arrows": "arrow", ".feather": "arrow", ".ipc": "arrow",
}  # fmt: skip
_COMPRESSED = {".gz", ".bz2", ".zst", ".lz4"}


@dataclass(frozen=True, slots=True)
class Location:
    """One file or query.

    Args:
        path: The file, or the database URI (which may hold a password, so it is not shown).
        format: How to read it.
        constants: Values of columns that the folder's name gives (`key=value`).
    """

    path: str = field(repr=False)
    format: Format
    constants: tuple[tuple[str, str], ...] = ()


def find(source: Source) -> list[Location]:
    """The files behind a source, in the order of their paths."""
    if database.is_database(source):
        return [Location(str(source), "database")]
    scheme, found, _ = str(source).partition("://")
    if isinstance(source, str) and found:  # the rest may hold a password
        raise InputError(f"{scheme}://…: expected a file, a folder or a URI of postgresql://, got {scheme!r}")
    path = Path(source)
    if path.is_dir():
        return _find_in(path)
    if not path.exists():
        raise InputError(f"{path}: expected a file, a folder or a database URI, got nothing there")
    return [Location(str(path), _format(path))]


def _find_in(folder: Path) -> list[Location]:
    files = sorted(
        path
        for path in folder.rglob("*")
        if path.is_file()
        and not any(name.startswith((".", "_")) for name in path.relative_to(folder).parts)
        and _suffix(path) in _FORMATS
    )
    formats = sorted({_format(path) for path in files})
    if len(formats) != 1:
        got = " and ".join(formats) if formats else "none"
        raise InputError(
            f"{folder}: expected a folder with files of one kind (Parquet, CSV or Arrow), got {got}"
        )
    return [Location(str(path), formats[0], _partition(path, folder)) for path in files]


def _partition(path: Path, folder: Path) -> tuple[tuple[str, str], ...]:
    steps = path.relative_to(folder).parts[:-1]
    return tuple((key, value) for key, mark, value in (step.partition("=") for step in steps) if mark)


def _suffix(path: Path) -> str:
    suffix = path.suffix.lower()
    return Path(path.stem).suffix.lower() if suffix in _COMPRESSED else suffix


def _format(path: Path) -> Format:
    known = _FORMATS.get(_suffix(path))
    if known is not None:
        return known
    try:
        with path.open("rb") as file:
            magic = file.read(6)
    except OSError as error:
        raise InputError(f"{path}: expected a readable file, got {error.strerror}") from error
    if magic.startswith(b"PAR1"):
        return "parquet"
    if magic == b"ARROW1":
        return "arrow"
    raise InputError(f"{path}: expected a file named .csv, .parquet, .arrow or .feather, got {path.name!r}")


def shown(source: Source) -> str:
    """The source as messages may show it: no password."""
    return (
        database.public_name(source)
        if isinstance(source, str) and database.is_database(source)
        else str(source)
    )
