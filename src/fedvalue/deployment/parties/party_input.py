"""A party's table as the protocol needs it: canonical ids, codes, and a commitment to both.

Everything is checked here, before any byte leaves: missing columns, duplicate or empty ids, missing
labels, and the manifest's gates.

A table that needs more memory than `table.memory_mib` is read in batches and kept on disk, if the run
allows that: `mirror` or `gram` over equal tables, no PCA. The uploads are the same. Every other run holds the
table in memory.
"""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec.structs import replace

from fedvalue.errors import ConfigError, InputError
from fedvalue.protocol.samples import CodedColumn, MemorySamples

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from fedvalue.agreement.manifest import Manifest
    from fedvalue.crypto.ids import PackedIds
    from fedvalue.deployment.config import TableConfig
    from fedvalue.protocol.samples import Samples
    from fedvalue.tables.coding_settings import CodingSettings
    from fedvalue.tables.column_report import ColumnCoding


ROW_BYTES = 100
"""Memory per row of a table in memory: its id, hash, codes and place, and the chunks for the servers until
they are delivered. In all 160 bytes were measured with three features of float64 and ids of 16 characters,
103 with one of int32 and whole numbers as ids."""

COLUMN_BYTES = 20
"""And per feature: the column and its copies while it is coded."""


@dataclass(slots=True, eq=False)
class PartyInput:
    """A party's table, coded for a run.

    Args:
        samples: Ids and codes: X_t (zeros when there are no features) and Y, or X_d alone.
        columns: How each column was coded, the label among them. It stays at home. Once the run has reduced
            the table to the common ids, these rows alone are coded, and this is how.
        notes: What a person should know about the coding.
        warnings: Those of the notes that are about the label.
    """

    samples: Samples = field(repr=False)
    columns: tuple[ColumnCoding, ...] = field(repr=False)
    notes: tuple[str, ...]
    warnings: tuple[str, ...] = ()

    @property
    def rows(self) -> int:
        """Number of samples."""
        return self.samples.n_samples

    @property
    def sizes(self) -> tuple[int, ...]:
        """Sizes of the code ranges: (X_t, Y) or (X_d,)."""
        return self.samples.sizes

    @property
    def digest(self) -> bytes:
        """Equal for equal tables."""
        return self.samples.digest


def read_input(
    table: TableConfig, manifest: Manifest, party: str, role: str, scratch: Path | None = None
) -> PartyInput:
    """Read and code a party's table.

    Args:
        table: Where it is and what it means.
        manifest: What was agreed.
        party: The owner.
        role: task or data.
        scratch: Folder for the rows of a table that does not fit into memory; None reads any table
            into memory.

    Raises:
        InputError: The table cannot be read or used, or needs more memory than this machine has.
        ConfigError: The configuration asks for the impossible.
    """
    from fedvalue.crypto.ids import canonical_ids
    from fedvalue.tables.party_table import refuse_repeated_ids
    from fedvalue.tables.sources import read_table

    features = feature_columns(table, party, role)
    needed = manifest.n_samples * (ROW_BYTES + COLUMN_BYTES * len(features))
    if scratch is not None and needed > table.memory_mib << 20:
        why_not = _needs_memory(table, manifest)
        if why_not is None:
            from fedvalue.deployment.parties.spooled_samples import Space
            from fedvalue.deployment.parties.streamed_input import read_streamed

            space = Space(scratch, table.memory_mib << 20)
            samples, stream = read_streamed(table, manifest, features, space)
            return _described(samples, stream.codings, stream.notes, stream.warnings, party, role)
        _check_machine(needed, why_not)
    wanted = [table.id, *([table.label] if table.label else []), *features]
    texts = (table.id, *coding_of(table, manifest).categorical)
    found = read_table(table.source, wanted, text_columns=texts, options=table.file)
    ids = canonical_ids(found.column(table.id), fold_case=table.fold_case)
    refuse_repeated_ids(table.id, _n_repeated(ids), len(ids))
    return _coded(table, manifest, party, role, found, ids)


def coding_of(table: TableConfig, manifest: Manifest) -> CodingSettings:
    """How columns become codes: as agreed, and with the party's own categorical columns."""
    agreed = manifest.settings.coding
    return replace(agreed, categorical=tuple(dict.fromkeys((*agreed.categorical, *table.categorical))))


def _needs_memory(table: TableConfig, manifest: Manifest) -> str | None:
    """Why this table cannot be processed in batches; None if it can."""
    reasons = {
        f"protocol {manifest.protocol!r}": manifest.protocol not in ("mirror", "gram"),
        f"align = {manifest.align!r}": manifest.align != "equal",
        "principal components": manifest.settings.coding.pca is not None,
    }
    return next((reason for reason, applies in reasons.items() if applies), None)


def _check_machine(needed: int, reason: str) -> None:
    """Refuse a table for which the kernel would kill this process.

    Raises:
        InputError: The machine does not have that much memory at all.
    """
    there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if needed > there:
        raise InputError(
            f"{reason}: needs the whole table in memory, about {needed >> 20:,} MiB, and this machine has "
            f"{there >> 20:,} MiB"
        )


def feature_columns(table: TableConfig, party: str, role: str) -> tuple[str, ...]:
    """The feature columns, by the configuration and the table's header; no rows are read.

    Raises:
        InputError: The table cannot be opened, or lacks a named column.
        ConfigError: The configuration asks for the impossible.
    """
    from fedvalue.tables.parts import shown
    from fedvalue.tables.sources import column_names, refuse_unknown_columns

    if (table.label is not None) != (role == "task"):
        raise ConfigError("the task party, and only the task party, needs table.label")
    names = column_names(table.source, table.file)
    named = (table.id, *([table.label] if table.label else []), *(table.features or ()), *table.categorical)
    refuse_unknown_columns(named, names, shown(table.source))
    special = {table.id} | ({table.label} if table.label else set())
    features = table.features if table.features is not None else tuple(n for n in names if n not in special)
    if special & set(features):
        raise ConfigError("table.features must not name the id or the label")
    if role != "task" and not features:
        raise InputError(f"party {party!r}: the table has no feature column")
    return features


def _coded(
    table: TableConfig, manifest: Manifest, party: str, role: str, found: Any, ids: PackedIds
) -> PartyInput:
    def reduce(rows: NDArray[np.int64]) -> MemorySamples:
        """The table reduced to some rows, coded from these alone."""
        reduced = _coded(table, manifest, party, role, found.take(rows), ids.take(rows))
        assert isinstance(reduced.samples, MemorySamples)
        whole.columns, whole.warnings = reduced.columns, reduced.warnings
        return reduced.samples

    from fedvalue.tables.party_table import label_table, party_table, task_table

    features = [name for name in found.column_names if name not in (table.id, table.label)]
    coding = coding_of(table, manifest)
    chosen = found.select(features) if features else None
    if role == "task":
        own = task_table(chosen, len(ids), coding, name=party)
        label = label_table(found.column(table.label), coding, name=str(table.label))
        coded = [
            CodedColumn("column 0", own.codes, own.n_codes, own.codebook),
            CodedColumn("column 1", label.codes, label.n_codes),
        ]
        codings, notes, warnings = (*own.columns, *label.columns), (*own.notes, *label.notes), label.warnings
    else:
        own = party_table(party, chosen, coding)
        coded = [CodedColumn("column 0", own.codes, own.n_codes, own.codebook)]
        codings, notes, warnings = own.columns, own.notes, ()
    whole = _described(MemorySamples(ids, coded, reduce=reduce), codings, notes, warnings, party, role)
    return whole


def _described(
    samples: Samples,
    codings: tuple[ColumnCoding, ...],
    notes: tuple[str, ...],
    warnings: tuple[str, ...],
    party: str,
    role: str,
) -> PartyInput:
    """The input with its columns under their owner's name, the label first as in every result."""
    from fedvalue.tables.party_table import column_warnings

    owner = "task" if role == "task" else party
    label = [coding for coding in codings if coding.party == "label"]
    own = [replace(coding, party=owner) for coding in codings if coding.party != "label"]
    return PartyInput(samples, (*label, *own), (*notes, *warnings, *column_warnings(codings)), warnings)


def _n_repeated(ids: PackedIds) -> int:
    """How many ids are repeated. Compares their hashes under some key, which is faster than the text."""
    from fedvalue.crypto.hashing import hash_ids
    from fedvalue.crypto.sorting import n_repeated

    return n_repeated(hash_ids(secrets.token_bytes(16), ids))
