"""Incremental valuation: a state file holds the counts so far, and later rows are added to it.

    line 1   fedvalue.state/1
    line 2   SHA-256 of all that follows, in hexadecimal
    line 3   JSON: layout, codings, sources, the last valuation
    rest     the distinct rows of codes and their counts, as an Arrow stream

The file holds codes and counts, and the categories' names: it is as confidential as the data.

It is replaced in one step (a temporary file, synced, renamed): who is killed in the middle finds
the old state. The content of each file that was counted is remembered by its hash, so that running
the same command again counts nothing twice; a file that has grown is refused, because its old rows
are in already. Rows from a database have no such memory.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedvalue.errors import InputError
from fedvalue.local.file_layout import CellTable, Layout
from fedvalue.storage.durable_files import PRIVATE, atomic_write
from fedvalue.tables.coding import ColumnCoding
from fedvalue.valuation.result import Valuation

if TYPE_CHECKING:
    from fedvalue.tables.sources import Source

SCHEMA = "fedvalue.state/1"


@dataclass(frozen=True, slots=True)
class CountedFile:
    """A file whose rows are in the counts.

    Args:
        name: Its name, for people.
        size: Its size in bytes.
        sha256: Hash of its content.
    """

    name: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True, eq=False)
class State:
    """Counts so far, how they were coded, and what they were last worth.

    Args:
        table: The distinct rows and their counts.
        files: The files that were counted.
        valuation: The last valuation, or None.
    """

    table: CellTable
    files: tuple[CountedFile, ...] = ()
    valuation: Valuation | None = field(default=None, repr=False)

    def check_layout(self, layout: Layout) -> None:
        """Refuse another layout or binning than the state's.

        Raises:
            InputError: Naming the first difference.
        """
        mine, theirs = _layout_to_dict(self.table.layout), _layout_to_dict(layout)
        for key, expected in mine.items():
            if theirs[key] != expected:
                raise InputError(f"the state was made with {key} {expected!r}, got {theirs[key]!r}")


def save_state(path: Source, state: State) -> None:
    """Write a state file in one step; a symbolic link to it stays one.

    Raises:
        InputError: The folder cannot be written to.
    """
    target = Path(path).resolve()
    content = _encode(state)
    try:
        atomic_write(target, content, mode=PRIVATE)
    except OSError as error:
        raise InputError(f"{target}: cannot write the state there: {error.strerror}") from error


def load_state(path: Source) -> State:
    """Read a state file.

    Raises:
        InputError: It cannot be read, is of another schema, or is damaged.
    """
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise InputError(f"{path}: expected a state file, got {error.strerror}") from error
    schema, _, rest = content.partition(b"\n")
    if schema != SCHEMA.encode():
        found = schema[:40].decode("ascii", "replace") if schema.startswith(b"fedvalue.") else "another file"
        raise InputError(f"{path}: expected a state of schema {SCHEMA!r}, got {found!r}")
    digest, _, body = rest.partition(b"\n")
    if hashlib.sha256(body).hexdigest().encode() != digest:
        raise InputError(
            f"{path}: the state file is damaged: its content does not have the hash it was written with"
        )
    try:
        return _decode(body)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{path}: expected a complete state, got one without {error}") from error


def fingerprint(path: str, size: int | None = None) -> str:
    """SHA-256 of a file's content, or of its first `size` bytes."""
    digest = hashlib.sha256()
    left = os.path.getsize(path) if size is None else size
    try:
        with open(path, "rb") as file:
            while left > 0 and (block := file.read(min(left, 1 << 20))):
                digest.update(block)
                left -= len(block)
    except OSError as error:
        raise InputError(f"{path}: expected a readable file, got {error.strerror}") from error
    return digest.hexdigest()


def _encode(state: State) -> bytes:
    import pyarrow as pa

    table = state.table
    head = {
        "layout": _layout_to_dict(table.layout),
        "codings": [coding.to_dict() for coding in table.codings],
        "notes": list(table.notes),
        "files": [{"name": f.name, "size": f.size, "sha256": f.sha256} for f in state.files],
        "valuation": None if state.valuation is None else state.valuation.to_dict(),
    }
    arrays = {f"c{k}": column.astype(_narrow(column)) for k, column in enumerate(table.codes)}
    cells = pa.table({**arrays, "count": table.counts})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, cells.schema) as writer:
        writer.write_table(cells)
    payload: bytes = sink.getvalue().to_pybytes()
    body = json.dumps(head, ensure_ascii=False, allow_nan=False).encode() + b"\n" + payload
    return SCHEMA.encode() + b"\n" + hashlib.sha256(body).hexdigest().encode() + b"\n" + body


def _decode(body: bytes) -> State:
    import pyarrow as pa

    head_line, _, payload = body.partition(b"\n")
    head = json.loads(head_line)
    cells = pa.ipc.open_stream(payload).read_all()
    layout = _layout_from_dict(head["layout"])
    table = CellTable(
        layout=layout,
        codings=tuple(ColumnCoding.from_dict(item) for item in head["codings"]),
        codes=tuple(cells[f"c{k}"].to_numpy().astype(np.int64) for k in range(len(layout.columns))),
        counts=cells["count"].to_numpy().astype(np.int64),
        notes=tuple(head["notes"]),
    )
    valuation = head["valuation"]
    return State(
        table=table,
        files=tuple(CountedFile(**item) for item in head["files"]),
        valuation=None if valuation is None else Valuation.from_dict(valuation),
    )


def _narrow(column: Any) -> Any:
    return np.min_scalar_type(int(column.max())) if len(column) else np.dtype(np.uint8)


def _layout_to_dict(layout: Layout) -> dict[str, Any]:
    return {
        "label": layout.label,
        "task": list(layout.task),
        "parties": {name: list(columns) for name, columns in layout.parties},
        "bins": layout.bins,
    }


def _layout_from_dict(data: Mapping[str, Any]) -> Layout:
    return Layout.of(label=data["label"], task=data["task"], parties=data["parties"], bins=data["bins"])
