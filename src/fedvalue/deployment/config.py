"""TOML files into frozen dataclasses. A mistake names the file, the key, what was expected and what came.

Paths are relative to the file in which they stand. Unknown keys are refused, so that a misspelt
one is not silently ignored.
"""

from __future__ import annotations

import math
import tomllib
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

from fedvalue.agreement.manifest_rules import ALIGNMENTS, POLICIES, PROTOCOLS, Terms
from fedvalue.errors import ConfigError

DEFAULT_BUDGET = Fraction(3)
"""A judgement: three runs with epsilon 1, that is at most exp(3), about 20 times, in all."""
MEMORY_MIB = 1024
"""What a party's rows may take in memory unless its configuration says otherwise."""


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """`server.toml`.

    Args:
        identity: Folder of `fedvalue init`.
        peers: Folder of the pinned cards.
        state: Folder of the database and the spool.
        listen: host:port.
        metrics: host:port on loopback, or None for no metrics.
        terms: The weakest terms that the operator accepts.
        max_runs: Runs at once.
        workers: Runs that compute at once.
        retention_days: How long answers can be fetched again.
        port_file: Where the chosen port is written, when `listen` asks for port 0.
    """

    identity: Path
    peers: Path
    state: Path
    listen: str
    metrics: str | None
    terms: Terms
    max_runs: int
    workers: int
    retention_days: int
    port_file: Path | None


@dataclass(frozen=True, slots=True)
class TableConfig:
    """Where a party's rows are and what they mean.

    Args:
        source: CSV, Parquet or Arrow file, a folder of them, or a database URI with `#table` or `#query`.
        id: Column that names a sample, the same for all parties.
        features: Columns to value; None takes all but id and label.
        label: The task party's label.
        binning: "width" or "quantile".
        pca: Principal components instead of the features.
        fold_case: Whether ids differ by case.
        memory_mib: A table whose rows would take more memory is kept on disk while it is worked on.
    """

    source: str | Path = field(repr=False)  # a database URI may hold a password
    id: str
    features: tuple[str, ...] | None
    label: str | None
    binning: str
    pca: int | None
    fold_case: bool
    memory_mib: int = MEMORY_MIB


@dataclass(frozen=True, slots=True)
class PartyConfig:
    """`party.toml` of a data party, `task.toml` of the task party.

    Args:
        identity: Folder of `fedvalue init`.
        peers: Folder of the pinned cards.
        state: Folder of the journal.
        manifest: The agreement that everybody signed.
        table: The party's rows.
        terms: The weakest terms that the party accepts.
        result: Where the result JSON goes.
        report: Where the HTML report goes (task party), or None.
        certificate: Where the certificate goes (task party), or None.
        addresses: Another host:port for a server than the manifest's, e.g. of a tunnel.
        budget: The most epsilon that runs with noise may spend on the same samples in all.
    """

    identity: Path
    peers: Path
    state: Path
    manifest: Path
    table: TableConfig
    terms: Terms
    result: Path
    report: Path | None
    certificate: Path | None
    addresses: dict[str, str]
    budget: Fraction = DEFAULT_BUDGET


def read_server_config(path: Path) -> ServerConfig:
    """Raises ConfigError, naming file and key."""
    top = _Section.read(path)
    metrics = top.section("metrics", optional=True)
    limits = top.section("limits", optional=True)
    config = ServerConfig(
        identity=top.path("identity"),
        peers=top.path("peers"),
        state=top.path("state"),
        listen=top.address("listen"),
        metrics=metrics.address("listen") if metrics.given else None,
        terms=_terms(top.section("accept", optional=True)),
        max_runs=limits.integer("runs", 64, 1, 10_000),
        workers=limits.integer("workers", 2, 1, 256),
        retention_days=limits.integer("retention_days", 30, 1, 3650),
        port_file=top.optional_path("port_file"),
    )
    for section in (top, metrics, limits):
        section.no_more()
    return config


def read_party_config(path: Path) -> PartyConfig:
    """Raises ConfigError, naming file and key."""
    top = _Section.read(path)
    output = top.section("output", optional=True)
    addresses = top.section("addresses", optional=True)
    privacy = top.section("privacy", optional=True)
    config = PartyConfig(
        identity=top.path("identity"),
        peers=top.path("peers"),
        state=top.path("state"),
        manifest=top.path("manifest"),
        table=_table(top.section("table")),
        terms=_terms(top.section("accept", optional=True)),
        result=output.path("result", "result.json"),
        report=output.optional_path("report"),
        certificate=output.optional_path("certificate"),
        addresses={name: addresses.address(name) for name in addresses.names()},
        budget=privacy.amount("budget", DEFAULT_BUDGET),
    )
    for section in (top, output, addresses, privacy):
        section.no_more()
    return config


def _table(section: _Section) -> TableConfig:
    source = section.text("source")
    table = TableConfig(
        source=source if "://" in source else section.resolve(source),
        id=section.text("id"),
        features=section.texts("features", None),
        label=section.text("label", None) or None,
        binning=section.choice("binning", "width", ("width", "quantile")),
        pca=section.integer("pca", 0, 0, 10_000) or None,
        fold_case=section.flag("fold_case", False),
        memory_mib=section.integer("memory_mib", MEMORY_MIB, 1, 1 << 24),
    )
    section.no_more()
    return table


def _terms(section: _Section) -> Terms:
    plain = Terms()
    terms = Terms(
        protocols=section.texts("protocols", plain.protocols, PROTOCOLS) or (),
        policies=section.texts("policies", plain.policies, POLICIES) or (),
        alignments=section.texts("align", plain.alignments, ALIGNMENTS) or (),
        research=section.flag("research", plain.research),
        harden=section.flag("harden", plain.harden),
        exact=section.flag("exact", plain.exact),
    )
    section.no_more()
    return terms


_MISSING = object()


class _Section:
    """One table of a TOML file, that knows which of its keys were asked for."""

    def __init__(self, path: Path, name: str, data: dict[str, Any] | None) -> None:
        self._path = path
        self._name = name
        self._data = data or {}
        self._asked: set[str] = set()
        self.given = data is not None

    @classmethod
    def read(cls, path: Path) -> _Section:
        try:
            data = tomllib.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise ConfigError(f"cannot read {path}: {error.strerror}") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ConfigError(f"{path} is not TOML: {error}") from None
        return cls(path, "", data)

    def section(self, name: str, *, optional: bool = False) -> _Section:
        data = self._get(name, None if optional else _MISSING)
        if data is not None and not isinstance(data, dict):
            raise self._wrong(name, "a table", data)
        return _Section(self._path, f"{self._name}{name}.", data)

    def text(self, key: str, default: Any = _MISSING) -> str:
        value = self._get(key, default)
        if value is not default and (not isinstance(value, str) or not value):
            raise self._wrong(key, "text", value)
        return value  # type: ignore[no-any-return]

    def texts(
        self, key: str, default: tuple[str, ...] | None, allowed: tuple[str, ...] | None = None
    ) -> tuple[str, ...] | None:
        value = self._get(key, default)
        if key not in self._data:
            return default
        if not isinstance(value, list) or not value or not all(isinstance(one, str) for one in value):
            raise self._wrong(key, "a list of texts", value)
        if allowed is not None and not set(value) <= set(allowed):
            raise self._wrong(key, f"some of {', '.join(allowed)}", value)
        return tuple(value)

    def choice(self, key: str, default: str, allowed: tuple[str, ...]) -> str:
        value = self.text(key, default)
        if value not in allowed:
            raise self._wrong(key, f"one of {', '.join(allowed)}", value)
        return value

    def integer(self, key: str, default: int, low: int, high: int) -> int:
        value = self._get(key, default)
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise self._wrong(key, f"an integer in {low} .. {high}", value)
        return value

    def amount(self, key: str, default: Fraction) -> Fraction:
        """A number of at least 0, as it is written: 0.1 is a tenth."""
        value = self._get(key, None)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
            raise self._wrong(key, "a number of at least 0", value)
        return Fraction(repr(value))

    def flag(self, key: str, default: bool) -> bool:
        value = self._get(key, default)
        if not isinstance(value, bool):
            raise self._wrong(key, "true or false", value)
        return value

    def address(self, key: str) -> str:
        value = self.text(key)
        host, _, port = value.rpartition(":")
        if not host or not port.isdigit() or int(port) > 65535:
            raise self._wrong(key, "host:port", value)
        return value

    def path(self, key: str, default: Any = _MISSING) -> Path:
        return self.resolve(self.text(key, default))

    def optional_path(self, key: str) -> Path | None:
        value = self.text(key, None)
        return None if value is None else self.resolve(value)

    def resolve(self, value: str) -> Path:
        return (self._path.parent / value).resolve()

    def names(self) -> tuple[str, ...]:
        return tuple(self._data)

    def no_more(self) -> None:
        unknown = sorted(set(self._data) - self._asked)
        if unknown:
            known = ", ".join(sorted(self._name + key for key in self._asked))
            raise ConfigError(f"{self._path}: unknown key {self._name}{unknown[0]} (known: {known})")

    def _get(self, key: str, default: Any) -> Any:
        self._asked.add(key)
        value = self._data.get(key, default)
        if value is _MISSING:
            raise ConfigError(f"{self._path}: key {self._name}{key} is missing")
        return value

    def _wrong(self, key: str, expected: str, value: Any) -> ConfigError:
        return ConfigError(f"{self._path}: {self._name}{key} must be {expected}, got {value!r}")
