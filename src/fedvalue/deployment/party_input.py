"""A party's table, as the protocol wants it: canonical ids, codes, and a commitment to both.

Everything is checked here, before any byte leaves: missing columns, duplicate or empty ids,
labels that are missing, and the manifest's gates.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from fedvalue.errors import ConfigError, InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from fedvalue.crypto.ids import PackedIds
    from fedvalue.deployment.config import TableConfig
    from fedvalue.protocol.manifest import Manifest
    from fedvalue.typing import Codes


@dataclass(frozen=True, slots=True, eq=False)
class PartyInput:
    """What a party brings into a run.

    Args:
        ids: Sample ids.
        codes: Code of the features per sample: X_d, or X_t (zeros when there are none).
        label: Code of Y per sample, for the task party.
        sizes: Sizes of the code ranges: (X_t, Y) or (X_d,).
        digest: SHA-256 of all of it: the same table gives the same digest.
        notes: What a person should know about the coding.
        select: The same table reduced to some rows, coded anew from these alone.
    """

    ids: PackedIds = field(repr=False)
    codes: Codes = field(repr=False)
    label: Codes | None = field(repr=False)
    sizes: tuple[int, ...]
    digest: bytes = field(repr=False)
    notes: tuple[str, ...]
    select: Callable[[NDArray[np.int64]], PartyInput] = field(repr=False)

    @property
    def rows(self) -> int:
        """Number of samples."""
        return len(self.codes)


def read_input(table: TableConfig, manifest: Manifest, party: str, role: str) -> PartyInput:
    """Read and code a party's table.

    Raises:
        InputError: The table cannot be read or used.
        ConfigError: The configuration asks for the impossible.
    """
    from fedvalue.crypto.ids import canonical_ids
    from fedvalue.tables.files import column_names, read_table
    from fedvalue.tables.party_table import check_ids

    if (table.label is not None) != (role == "task"):
        raise ConfigError("table.label is needed by the task party, and by nobody else")
    names = column_names(table.source)
    special = {table.id} | ({table.label} if table.label else set())
    features = table.features if table.features is not None else tuple(n for n in names if n not in special)
    if special & set(features):
        raise ConfigError("table.features must not name the id or the label")
    if role != "task" and not features:
        raise InputError(f"party {party!r}: the table has no feature column")
    wanted = [table.id, *([table.label] if table.label else []), *features]
    found = read_table(table.source, wanted, text_columns=(table.id,))
    ids_column = found.column(table.id)
    check_ids(ids_column, name=table.id)
    ids = canonical_ids(_one_array(ids_column), fold_case=table.fold_case)
    return _coded(table, manifest, party, role, found, ids)


def _coded(
    table: TableConfig, manifest: Manifest, party: str, role: str, found: Any, ids: PackedIds
) -> PartyInput:
    def select(rows: NDArray[np.int64]) -> PartyInput:
        return _coded(table, manifest, party, role, found.take(rows), _picked(ids, rows))

    from fedvalue.tables.party_table import label_table, party_table, task_table

    features = [name for name in found.column_names if name not in (table.id, table.label)]
    options: dict[str, Any] = {"bins": manifest.bins, "binning": table.binning, "pca": table.pca}
    chosen = found.select(features) if features else None
    if role == "task":
        own = task_table(chosen, len(ids), name=party, **options)
        label = label_table(found.column(table.label), bins=manifest.bins, name=str(table.label))
        notes, sizes = (*own.notes, *label.notes), (own.n_codes, label.n_codes)
        return _made(ids, own.codes, label.codes, sizes, notes, select)
    own = party_table(party, chosen, **options)
    return _made(ids, own.codes, None, (own.n_codes,), own.notes, select)


def _picked(ids: PackedIds, rows: NDArray[np.int64]) -> PackedIds:
    from fedvalue.crypto.ids import PackedIds

    lengths = np.diff(ids.offsets)[rows]
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    place = np.repeat(ids.offsets[:-1][rows] - offsets[:-1], lengths) + np.arange(offsets[-1])
    return PackedIds(ids.data[place], offsets)


def _made(
    ids: PackedIds,
    codes: Codes,
    label: Codes | None,
    sizes: tuple[int, ...],
    notes: tuple[str, ...],
    select: Callable[[NDArray[np.int64]], PartyInput],
) -> PartyInput:
    state = hashlib.sha256(repr((len(codes), sizes)).encode())
    columns = [ids.data, ids.offsets, np.asarray(codes, dtype="<i8")]
    if label is not None:
        columns.append(np.asarray(label, dtype="<i8"))
    for column in columns:
        state.update(np.ascontiguousarray(column).data)
    return PartyInput(ids, codes, label, sizes, state.digest(), notes, select)


def _one_array(column: Any) -> Any:
    return column.combine_chunks()
