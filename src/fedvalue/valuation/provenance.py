"""The provenance of a result: files, columns, software and request.

- It is enough to repeat the valuation on the same files.
- It holds no password and no value of a row.
"""

from __future__ import annotations

from typing import Any

import msgspec

from fedvalue.documents import Document
from fedvalue.tables.file_options import FileOptions


class SourceFile(Document, frozen=True, kw_only=True, omit_defaults=True):
    """A file, folder or database table that was read.

    Args:
        name: As the user wrote it, without a password.
        party: Whose file it is; "" for the file with the label.
        format: Kind, delimiter and encoding, in words.
        size: In bytes; None for a database.
        sha256: Of its content; of a folder, of the names and digests of its files. None for a database.
        n_rows: Its rows.
        n_matched: How many of its rows have an id of the file with the label.
        notes: What a person should know about its reading.
    """

    name: str
    party: str = ""
    format: str = ""
    size: int | None = None
    sha256: str | None = None
    n_rows: int | None = None
    n_matched: int | None = None
    notes: tuple[str, ...] = ()


class PartyRequest(Document, frozen=True, kw_only=True, omit_defaults=True):
    """A data party's columns.

    Args:
        name: The party.
        columns: Its features.
        source: Its own file; None when they are columns of the file with the label.
        id: Column of the ids in its own file.
    """

    name: str
    columns: tuple[str, ...]
    source: str | None = None
    id: str | None = None


class Request(Document, frozen=True, kw_only=True, omit_defaults=True):
    """A request to value files; its settings are beside it in the result.

    Args:
        source: The file with the label.
        label: Column of the label.
        task: Columns of the task party's own features.
        parties: The data parties.
        id: Column of the sample ids in `source`.
        options: How to read files, by party; "" for all.
        protocol: The protocol that computes it in one process, if any.
        protocol_options: Its options.
    """

    source: str
    label: str
    task: tuple[str, ...] = ()
    parties: tuple[PartyRequest, ...]
    id: str | None = None
    options: dict[str, FileOptions] = msgspec.field(default_factory=dict)
    protocol: str | None = None
    protocol_options: dict[str, Any] = msgspec.field(default_factory=dict)

    @property
    def columns(self) -> list[str]:
        """The columns of `source` that are needed, the id among them."""
        shared = [column for party in self.parties if party.source is None for column in party.columns]
        return [self.label, *self.task, *([self.id] if self.id else []), *shared]

    @property
    def one_source(self) -> bool:
        """Whether all columns are in one source."""
        return all(party.source is None for party in self.parties)

    def options_of(self, party: str = "") -> FileOptions:
        """How to read a party's file: its own options first, then those for all files."""
        common, own = self.options.get("", FileOptions()), self.options.get(party, FileOptions())
        merged = {**_given(common), **_given(own)}
        return FileOptions(**merged)


def _given(options: FileOptions) -> dict[str, Any]:
    return {key: item for key, item in msgspec.structs.asdict(options).items() if item is not None}


class Provenance(Document, frozen=True, kw_only=True, omit_defaults=True, eq=False):
    """Where a result comes from. When and by which command it was computed does not affect equality.

    Args:
        software: Name and version.
        created: When it was computed, in UTC.
        command: The command line, with database passwords left out.
        request: What was asked, where files were valued.
        sources: The files that were read.
    """

    software: str
    created: str
    command: str = ""
    request: Request | None = None
    sources: tuple[SourceFile, ...] = ()

    def __eq__(self, other: object) -> bool:
        """Whether software, request and files are the same."""
        if not isinstance(other, Provenance):
            return NotImplemented
        mine, theirs = ((one.software, one.request, one.sources) for one in (self, other))
        return mine == theirs

    def __hash__(self) -> int:
        return hash((self.software, self.sources))
