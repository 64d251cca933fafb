"""The configuration files of servers and parties: TOML into documents.

- The structs below are the files: a field is a key, a nested struct is a section.
- Unknown keys are refused, so that a misspelt one is not silently ignored; a mistake names file and key.
- Relative paths are relative to the file they are in.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from fedvalue import documents
from fedvalue.agreement.manifest_rules import Terms
from fedvalue.documents import Document
from fedvalue.errors import ConfigError
from fedvalue.tables.file_options import AS_DETECTED, FileOptions

C = TypeVar("C", bound=msgspec.Struct)
Text = Annotated[str, Meta(min_length=1)]

DEFAULT_BUDGET = 3.0
"""A judgement: three runs with epsilon 1, that is a factor of at most exp(3), about 20, in all."""
EXACT_RUNS = 5
"""A judgement: enough for a pilot that corrects its columns, too few to ask without end."""
MEMORY_MIB = 1536
"""Default memory for a party's rows."""


class MetricsConfig(Document, frozen=True, kw_only=True):
    """[metrics]: where metrics and the health check are served, on loopback."""

    listen: str

    def __post_init__(self) -> None:
        _check_address("listen", self.listen)


class Limits(Document, frozen=True, kw_only=True):
    """[limits]: how much one server carries at once.

    Args:
        runs: Active runs.
        waiting: Callers that wait for messages.
        workers: Runs that compute at the same time.
        retention_days: Days for which answers can be fetched again.
    """

    runs: Annotated[int, Meta(ge=1, le=10_000)] = 64
    waiting: Annotated[int, Meta(ge=1, le=10_000)] = 128
    workers: Annotated[int, Meta(ge=1, le=256)] = 2
    retention_days: Annotated[int, Meta(ge=1, le=3650)] = 30


class ServerConfig(Document, frozen=True, kw_only=True):
    """`server.toml`.

    Args:
        identity: Folder of `fedvalue init`.
        peers: Folder of the pinned cards.
        state: Folder of the database and the uploads.
        listen: host:port.
        metrics: None serves no metrics.
        accept: The weakest terms that the operator accepts.
        limits: How much the server carries at once.
        port_file: File for the chosen port when `listen` asks for port 0.
        home: Folder in which `fedvalue accept` keeps accepted invitations; None takes part in no exchange.
    """

    identity: Path
    peers: Path
    state: Path
    listen: str
    metrics: MetricsConfig | None = None
    accept: Terms = msgspec.field(default_factory=Terms)
    limits: Limits = msgspec.field(default_factory=Limits)
    port_file: Path | None = None
    home: Path | None = None

    def __post_init__(self) -> None:
        _check_address("listen", self.listen)


class TableConfig(Document, frozen=True, kw_only=True):
    """[table]: where a party's rows are and what they mean. The manifest says how they are coded.

    Args:
        source: CSV, Excel, Parquet or Arrow file, a folder of them, or a database URI with `#table` or
            `#query`.
        id: Column that names a sample, the same for all parties.
        features: Columns to value; None takes all but id and label.
        label: The task party's label.
        categorical: Numeric columns whose numbers are names, such as zip codes.
        file: How to read the file where detection needs help: delimiter, decimal, encoding, dates, sheet,
            header, missing.
        fold_case: Whether ids that differ only in case are the same.
        memory_mib: A table whose rows need more memory is kept on disk during the run.
    """

    source: Text
    id: Text
    features: Annotated[tuple[Text, ...], Meta(min_length=1)] | None = None
    label: Text | None = None
    categorical: tuple[Text, ...] = ()
    file: FileOptions = AS_DETECTED
    fold_case: bool = False
    memory_mib: Annotated[int, Meta(ge=1, le=1 << 24)] = MEMORY_MIB

    def __repr__(self) -> str:
        return f"TableConfig(id={self.id!r}, label={self.label!r})"  # a database URI may hold a password


class OutputConfig(Document, frozen=True, kw_only=True):
    """[output]: where a party's results go.

    Args:
        result: The result as JSON.
        report: The HTML report (task party), or None.
        certificate: The certificate (task party), or None.
    """

    result: Path = Path("result.json")
    report: Path | None = None
    certificate: Path | None = None


class PrivacyConfig(Document, frozen=True, kw_only=True):
    """[privacy]: how much runs on the same samples may reveal in all.

    Args:
        budget: The most epsilon that runs with noise may spend.
        exact_runs: The most runs that may release exact values; 0 refuses them all.
    """

    budget: Annotated[float, Meta(ge=0, le=1e6)] = DEFAULT_BUDGET
    exact_runs: Annotated[int, Meta(ge=0, le=10**6)] = EXACT_RUNS

    @property
    def epsilon_budget(self) -> Fraction:
        """The budget as it is written: 0.1 is a tenth."""
        return Fraction(repr(self.budget))


class PartyConfig(Document, frozen=True, kw_only=True):
    """`party.toml` of a data party, `task.toml` of the task party.

    Args:
        identity: Folder of `fedvalue init`.
        peers: Folder of the pinned cards.
        state: Folder of the journal.
        manifest: The agreement that everybody signed.
        table: The party's rows.
        output: Where results go.
        accept: The weakest terms that the party accepts.
        addresses: host:port of servers whose address differs from the manifest's, for example of a tunnel.
        privacy: How much runs on the same samples may reveal in all.
        wait_hours: How long to wait for late participants beyond the manifest's deadline, if everybody else
            waits too; at most until the manifest expires.
    """

    identity: Path
    peers: Path
    state: Path
    manifest: Path
    table: TableConfig
    output: OutputConfig = msgspec.field(default_factory=OutputConfig)
    accept: Terms = msgspec.field(default_factory=Terms)
    addresses: dict[str, str] = msgspec.field(default_factory=dict)
    privacy: PrivacyConfig = msgspec.field(default_factory=PrivacyConfig)
    wait_hours: Annotated[float, Meta(ge=0, le=1e5)] = 0.0

    def __post_init__(self) -> None:
        for name, address in self.addresses.items():
            _check_address(f"addresses.{name}", address)


def read_server_config(path: Path) -> ServerConfig:
    """Read `server.toml`. Raises ConfigError, naming file and key."""
    return _read(ServerConfig, path)


def read_party_config(path: Path) -> PartyConfig:
    """Read `party.toml` or `task.toml`. Raises ConfigError, naming file and key."""
    config = _read(PartyConfig, path)
    if "://" in config.table.source:
        return config
    source = str((path.parent / config.table.source).resolve())
    return replace(config, table=replace(config.table, source=source))


def _read(kind: type[C], path: Path) -> C:
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"{path} is not TOML: {error}") from None
    try:
        config = documents.convert(kind, data, error=ConfigError)
    except ConfigError as error:
        raise ConfigError(f"{path}: {_readable(str(error), kind)}") from None
    return _resolved(config, path.parent)


def _resolved(config: C, base: Path) -> C:
    """Make all paths absolute, relative to `base`."""
    changes: dict[str, Any] = {}
    for name in config.__struct_fields__:
        value = getattr(config, name)
        if isinstance(value, Path):
            changes[name] = (base / value).resolve()
        elif isinstance(value, OutputConfig):
            changes[name] = _resolved(value, base)
    return replace(config, **changes)


def _check_address(key: str, address: str) -> None:
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65535:
        raise ValueError(f"{key} must be host:port, got {address!r}")


def _readable(problem: str, kind: type[msgspec.Struct]) -> str:
    """Msgspec's message about a document, as one about a file with keys and sections."""
    match = re.fullmatch(r"(.*?)(?: - at `\$\.?(.*)`)?", problem, re.DOTALL)
    assert match is not None
    text, place = match[1], match[2] or ""
    section = f"{place}." if place else ""
    if missing := re.fullmatch(r"Object missing required field `(.*)`", text):
        return f"key {section}{missing[1]} is missing"
    if unknown := re.fullmatch(r"Object contains unknown field `(.*)`", text):
        known = _keys(kind, place)
        close = difflib.get_close_matches(unknown[1], known, 1)
        hint = f"did you mean {close[0]}?" if close else f"known keys: {', '.join(known)}"
        return f"unknown key {section}{unknown[1]}; {hint}"
    return f"{place}: {text[:1].lower()}{text[1:]}" if place else text


def _keys(kind: Any, place: str) -> list[str]:
    """The known keys of a section."""
    for name in filter(None, place.split(".")):
        info = next(field.type for field in msgspec.structs.fields(kind) if field.encode_name == name)
        kinds = (info, *getattr(info, "__args__", ()))  # a section may be optional
        kind = next(kind for kind in kinds if hasattr(kind, "__struct_fields__"))
    return sorted(field.encode_name for field in msgspec.structs.fields(kind))
