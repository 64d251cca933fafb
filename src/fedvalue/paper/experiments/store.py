"""The out folder: finished units are kept, and results of different runs are never mixed.

    run.json            version, seed and profile of the run
    units/<key>.json    settings, result and CPU time of one finished unit
    <name>.json, .svg   one experiment
    index.html          all experiments on one page

Every file is written whole or not at all, so a killed run leaves nothing half done.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedvalue._version import __version__
from fedvalue.errors import InputError
from fedvalue.paper.experiments.experiment import Numbers, Unit
from fedvalue.storage.durable_files import atomic_write

SCHEMA = "fedvalue.reproduction/1"


@dataclass(frozen=True, slots=True)
class Store:
    """An out folder that belongs to one version, seed and profile."""

    folder: Path
    seed: int
    profile: str

    @classmethod
    def open(cls, folder: Path, *, seed: int, profile: str, fresh: bool = False) -> Store:
        """Start or continue the results in a folder, which is created if missing.

        `fresh` first discards earlier results of any run in it.

        Raises:
            InputError: The folder holds results of another version, seed or profile, or other files.
        """
        ours = {"schema": SCHEMA, "version": __version__, "seed": seed, "profile": profile}
        try:
            folder.mkdir(parents=True, exist_ok=True)
            theirs = _read(folder / "run.json")
            if theirs is None and any(folder.iterdir()):
                raise InputError(
                    f"{folder} is not empty and holds no results of `fedvalue reproduce`; name another "
                    "folder with --out",
                    code="E_OUT",
                )
            if theirs is not None and fresh:
                _clear(folder)
                theirs = None
            if theirs is None:
                write(folder / "run.json", json.dumps(ours, indent=2) + "\n")
            elif theirs != ours:
                raise InputError(_mismatch(folder, theirs, ours), code="E_OUT")
        except OSError as error:
            raise InputError(f"cannot use {folder}: {error.strerror}", code="E_OUT") from error
        return cls(folder, seed, profile)

    def unit(self, unit: Unit) -> Numbers | None:
        """The stored record of a unit, or None when it is not finished (with these settings)."""
        record = _read(self._path(unit.key))
        return record if record is not None and record.get("settings") == _plain(unit.settings) else None

    def keep(self, unit: Unit, result: Numbers, cpu_seconds: float) -> Numbers:
        """Store a finished unit and return its record."""
        record = {
            "key": unit.key,
            "settings": unit.settings,
            "cpu_seconds": round(cpu_seconds, 3),
            "result": result,
        }
        write(self._path(unit.key), json.dumps(record, allow_nan=False) + "\n")
        return record

    def _path(self, key: str) -> Path:
        return self.folder / "units" / f"{key.replace('/', '.')}.json"


def write(path: Path, text: str) -> None:
    """Write a file so that a reader, or the next run, sees all of it or nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic_write(path, text.encode())


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise InputError(
            f"{path} is damaged ({error}); remove it, and the next run rebuilds it", code="E_OUT"
        ) from error


def _plain(settings: Numbers) -> Any:
    """Settings as they come back from JSON, tuples as lists."""
    return json.loads(json.dumps(settings))


def _mismatch(folder: Path, theirs: Numbers, ours: Numbers) -> str:
    what = ", ".join(
        f"{key} {theirs.get(key)!r} (now {ours[key]!r})" for key in ours if theirs.get(key) != ours[key]
    )
    return (
        f"{folder} holds results of {what}, which are not mixed with new ones; "
        f"`--out OTHER` keeps both, `--fresh` discards the old ones"
    )


def _clear(folder: Path) -> None:
    """Remove what earlier runs wrote, and nothing else."""
    shutil.rmtree(folder / "units", ignore_errors=True)
    for pattern in ("table*.json", "fig*.json", "table*.svg", "fig*.svg"):
        for path in folder.glob(pattern):
            path.unlink()
    for name in ("index.html", "run.json"):
        (folder / name).unlink(missing_ok=True)
