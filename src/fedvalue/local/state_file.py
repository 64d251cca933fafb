"""State files of incremental valuation: the counts so far, to which later rows are added.

    line 1   fedvalue.state/2
    line 2   SHA-256 of all that follows, in hexadecimal
    line 3   JSON: layout, coders, files, the last valuation
    rest     the distinct rows, packed into words, and their counts, as an Arrow stream

- The file contains codes, counts and the names of categories: it is as confidential as the data.
- It is replaced atomically: a killed process leaves the old state.
- It keeps the hash of each counted file, so that running the same command again counts nothing twice. A file
  that has grown is refused, because its old rows are already counted. Rows from a database have no hash.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from fedvalue import documents
from fedvalue.errors import InputError
from fedvalue.local.file_layout import CellTable, Layout
from fedvalue.storage.durable_files import PRIVATE, atomic_write
from fedvalue.tables.column_coder import ColumnCoder
from fedvalue.tables.column_report import ColumnCoding
from fedvalue.valuation.result import Valuation

if TYPE_CHECKING:
    from fedvalue.tables.parts import Source

SCHEMA = "fedvalue.state/2"


@dataclass(frozen=True, slots=True)
class CountedFile:
    """A file whose rows are in the counts, with its size in bytes and the hash of its content."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True, eq=False)
class SavedState:
    """Distinct rows and their counts, the files they came from, and their last valuation."""

    table: CellTable
    files: tuple[CountedFile, ...] = ()
    valuation: Valuation | None = field(default=None, repr=False)

    def check_layout(self, layout: Layout) -> None:
        """Refuse another layout or binning than the state's; the error names the first difference."""
        for key in ("label", "task", "parties", "coding"):
            expected, got = getattr(self.table.layout, key), getattr(layout, key)
            if got != expected:
                raise InputError(f"the state was made with {key} {_shown(expected)}, got {_shown(got)}")


def _shown(setting: object) -> str:
    if isinstance(setting, msgspec.Struct):
        return ", ".join(f"{key}={item!r}" for key, item in msgspec.structs.asdict(setting).items())
    return repr(setting)


def save_state(path: Source, state: SavedState) -> None:
    """Write a state file atomically; a symbolic link to it stays a link."""
    target = Path(path).resolve()
    content = _encode(state)
    try:
        atomic_write(target, content, mode=PRIVATE)
    except OSError as error:
        raise InputError(f"{target}: cannot write the state there: {error.strerror}") from error


def load_state(path: Source) -> SavedState:
    """Read a state file.

    Raises:
        InputError: It cannot be read, is of another schema, or is damaged.
    """
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot read the state file: {error.strerror}") from error
    schema, _, rest = content.partition(b"\n")
    if schema != SCHEMA.encode():
        other = schema[:40].decode("ascii", "replace") if schema.startswith(b"fedvalue.") else "another file"
        raise InputError(f"{path}: expected a state of schema {SCHEMA!r}, got {other!r}")
    digest, _, body = rest.partition(b"\n")
    if hashlib.sha256(body).hexdigest().encode() != digest:
        raise InputError(f"{path}: the state file is damaged: its content does not match its hash")
    try:
        return _decode(body)
    except (msgspec.MsgspecError, KeyError, ValueError) as error:
        raise InputError(f"{path}: the state file is incomplete: {error}") from error


def file_sha256(path: str, size: int | None = None) -> str:
    """SHA-256 of a file's content, or of its first `size` bytes."""
    digest = hashlib.sha256()
    left = os.path.getsize(path) if size is None else size
    try:
        with open(path, "rb") as file:
            while left > 0 and (block := file.read(min(left, 1 << 20))):
                digest.update(block)
                left -= len(block)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    return digest.hexdigest()


class _Head(msgspec.Struct, frozen=True):
    """Everything except the counts."""

    layout: Layout
    coders: tuple[ColumnCoder, ...]
    codings: tuple[ColumnCoding, ...]
    notes: tuple[str, ...]
    warnings: tuple[str, ...]
    files: tuple[CountedFile, ...]
    valuation: Valuation | None


def _encode(state: SavedState) -> bytes:
    import pyarrow as pa

    table = state.table
    head = _Head(
        table.layout, table.coders, table.codings, table.notes, table.warnings, state.files, state.valuation
    )
    words = {f"w{k}": np.ascontiguousarray(word) for k, word in enumerate(table.keys.T)}
    cells = pa.table({**words, "count": table.counts})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, cells.schema) as writer:
        writer.write_table(cells)
    body: bytes = msgspec.json.encode(head) + b"\n" + sink.getvalue().to_pybytes()
    return SCHEMA.encode() + b"\n" + hashlib.sha256(body).hexdigest().encode() + b"\n" + body


def _decode(body: bytes) -> SavedState:
    import pyarrow as pa

    line, _, payload = body.partition(b"\n")
    documents.prepare(_Head)
    head = msgspec.json.decode(line, type=_Head)
    cells = pa.ipc.open_stream(payload).read_all()
    words = [cells[f"w{k}"].to_numpy() for k in range(cells.num_columns - 1)]
    table = CellTable(
        layout=head.layout,
        coders=head.coders,
        keys=np.column_stack(words),
        counts=cells["count"].to_numpy().astype(np.int64),
        codings=head.codings,
        notes=head.notes,
        warnings=head.warnings,
    )
    return SavedState(table, head.files, head.valuation)
