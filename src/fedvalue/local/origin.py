"""Where a result comes from: the files with their digests, the software and the date."""

from __future__ import annotations

import datetime as dt
import hashlib
from pathlib import Path

from fedvalue._version import __version__
from fedvalue.local.state_file import file_sha256
from fedvalue.tables.file_options import FileOptions
from fedvalue.tables.parts import shown
from fedvalue.tables.sources import first_part, source_bytes, source_files
from fedvalue.valuation.provenance import Provenance, Request, SourceFile


def described_source(source: str, party: str, options: FileOptions) -> SourceFile:
    """A source with its digest, before it is read: afterwards it may have changed."""
    part = first_part(source, options)
    files = source_files(source) or []
    words = part.format if part.dialect is None else part.dialect.words
    if part.format == "excel":
        words = "Excel" if options.sheet is None else f"Excel, sheet {options.sheet!r}"
    more = f", {len(files)} files" if len(files) > 1 else ""
    return SourceFile(
        name=shown(source),
        party=party,
        format=words + more,
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
    """The provenance of a result that is computed now."""
    now = dt.datetime.now(dt.UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    return Provenance(
        software=f"fedvalue {__version__}", created=now, command=command, request=request, sources=sources
    )
