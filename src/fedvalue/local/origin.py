"""The provenance of a result (files with digests, software, date), its notes, and its repetition."""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Callable, Iterable
from pathlib import Path

from msgspec import structs

from fedvalue._version import __version__
from fedvalue.errors import InputError
from fedvalue.local.state_file import file_sha256
from fedvalue.tables.file_options import FileOptions
from fedvalue.tables.parts import shown
from fedvalue.tables.sources import first_part, source_bytes, source_files
from fedvalue.valuation.provenance import Provenance, Request, SourceFile
from fedvalue.valuation.result import Valuation
from fedvalue.valuation.settings import ValuationSettings


def described_source(source: str, party: str, options: FileOptions) -> SourceFile:
    """A source with its digest, taken before reading, since the file may change later."""
    part = first_part(source, options)
    files = source_files(source) or []
    more = f", {len(files)} files" if len(files) > 1 else ""
    return SourceFile(
        name=shown(source),
        party=party,
        format=part.description + more,
        size=source_bytes(source),
        sha256=source_sha256(source),
        notes=() if part.dialect is None else part.dialect.notes,
    )


def source_sha256(source: str) -> str | None:
    """Digest of a source's content; None for a database."""
    files = source_files(source)
    if files is None:
        return None
    if not Path(source).is_dir():
        return file_sha256(str(files[0]))
    digest = hashlib.sha256()
    for path in files:
        digest.update(f"{path.relative_to(source)}\0{file_sha256(str(path))}\n".encode())
    return digest.hexdigest()


def provenance(
    command: str = "", request: Request | None = None, sources: tuple[SourceFile, ...] = ()
) -> Provenance:
    """Provenance as of now."""
    now = dt.datetime.now(dt.UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    return Provenance(
        software=f"fedvalue {__version__}", created=now, command=command, request=request, sources=sources
    )


def with_notes(valuation: Valuation, *, before: Iterable[str] = (), after: Iterable[str] = ()) -> Valuation:
    """The result with more notes in its details."""
    notes = [*before, *valuation.details.get("notes", ()), *after]
    return structs.replace(valuation, details={**valuation.details, "notes": notes}) if notes else valuation


def repeated_request(
    earlier: Valuation, path: Path, data: str | None = None
) -> tuple[Request, ValuationSettings]:
    """The request and settings of an earlier result, which was read from `path`.

    Sources that do not exist are also looked for beside that file. `data` is another file with the label, to
    value in the same way.

    Raises:
        InputError: The result has no provenance, or a file is missing or has changed.
    """
    record = earlier.provenance
    if record is None or record.request is None or earlier.settings is None:
        raise InputError(
            f"{path}: does not say which files it comes from, so it cannot be repeated; results of "
            "`fedvalue value` do"
        )
    digests = {source.party: source.sha256 for source in record.sources}

    def unchanged(source: str, party: str) -> str:
        return _unchanged(source, digests.get(party), path)

    source = unchanged(record.request.source, "") if data is None else data
    return with_sources(record.request, source, unchanged), earlier.settings


def with_sources(request: Request, source: str, own: Callable[[str, str], str]) -> Request:
    """The request with other sources; `own` maps a party's own source and its name to another source."""
    parties = tuple(
        party if party.source is None else structs.replace(party, source=own(party.source, party.name))
        for party in request.parties
    )
    return structs.replace(request, source=source, parties=parties)


def _unchanged(source: str, sha256: str | None, result: Path) -> str:
    """The current path of a source with the same content."""
    if sha256 is None:  # a database has no digest
        return source
    beside = result.parent / source
    place = source if Path(source).exists() or not beside.exists() else str(beside)
    source_files(place)  # refuses a file that is gone
    if source_sha256(place) != sha256:
        raise InputError(
            f"{place}: has changed since {result} was computed; name a file as DATA to value it in the same "
            "way"
        )
    return place
