"""The arguments of `fedvalue.value` as aligned tables.

- A table may be a path or database URI; it is read.
- With `data`, label, task and parties are column names of that table. A party may have its own table instead,
  which is joined by id.
- pandas inputs have an index. If the indexes are permutations of each other, rows are put into the label's
  order; if they disagree, the tables are refused. Other inputs match by position.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fedvalue.errors import InputError
from fedvalue.local.party_files import join_by_id
from fedvalue.tables.columns import is_pandas, named_columns
from fedvalue.tables.file_options import AS_DETECTED, FileOptions
from fedvalue.tables.sources import refuse_unknown_columns


@dataclass(frozen=True, slots=True, eq=False)
class ValueInputs:
    """Label, task features and the features of each data party, rows aligned.

    Args:
        label: One column.
        task: The task party's features, or None.
        parties: A table per data party.
        ids: One id per sample, a dict of ids by party, or None.
        notes: Remarks on the matching of tables.
    """

    label: Any
    task: Any
    parties: dict[str, Any]
    ids: Any = None
    notes: tuple[str, ...] = ()


def gathered_inputs(
    *,
    data: Any,
    label: Any,
    task: Any,
    parties: Mapping[str, Any],
    ids: Any = None,
    categorical: Collection[str] = (),
    aligned: bool = True,
    options: FileOptions = AS_DETECTED,
) -> ValueInputs:
    """The inputs of a valuation in one form.

    Args:
        data: A table of all columns, or None.
        label: A column; with `data` its name.
        task: A table or None; with `data` column names.
        parties: A table per party; with `data` column names per party.
        ids: As for `fedvalue.value`; with `data` possibly a column name.
        categorical: Columns whose numbers are names.
        aligned: The rows of all tables are the same samples.
        options: How to read files; overrides detection.

    Raises:
        InputError: A missing column or one with two owners, a name without `data`, or pandas indexes that
            disagree.
    """
    _check_parties(parties)
    if data is not None:
        return _chosen(data, label, task, parties, ids, categorical, options)
    if isinstance(label, str):
        raise InputError(f"label {label!r} is a name: pass the column itself, or the table it is in as data")
    if isinstance(ids, str):
        raise InputError(
            f"ids={ids!r} names a column of data: pass the table that has the label as data, or the ids "
            "themselves; without data, tables match by index or row by row"
        )
    inputs = ValueInputs(
        label=label,
        task=_read(task, categorical, options),
        parties={name: _read(table, categorical, options) for name, table in parties.items()},
        ids=ids,
    )
    return _aligned(inputs) if aligned else inputs


def _check_parties(parties: Mapping[str, Any]) -> None:
    if parties is not None and not isinstance(parties, Mapping):
        raise InputError(f"parties must be a dict of tables by party name, got {type(parties).__name__}")
    if not parties:
        raise InputError("at least one data party is needed, got none")
    for name in parties:
        if not isinstance(name, str) or not name:
            raise InputError(f"a party's name must be text, got {name!r}")


def is_source(table: object) -> bool:
    """The table is a path or database URI."""
    return isinstance(table, str | os.PathLike)


def _read(table: Any, texts: Collection[str], options: FileOptions) -> Any:
    """The table, read if it is a path."""
    if not is_source(table):
        return table
    from fedvalue.tables.sources import read_table

    return read_table(table, text_columns=texts, options=options)


def _chosen(
    data: Any,
    label: Any,
    task: Any,
    parties: Mapping[str, Any],
    ids: Any,
    categorical: Collection[str],
    options: FileOptions,
) -> ValueInputs:
    """The columns of `data` by owner, joined by id with the parties' own tables."""
    order = tuple(parties)
    tables = {name: table for name, table in parties.items() if not _are_names(table)}
    parties = {name: columns for name, columns in parties.items() if name not in tables}
    if tables and not isinstance(ids, str):
        raise InputError(
            f"party {next(iter(tables))!r} has a table of its own: name the column of ids that joins it to "
            "data, as in ids='customer'"
        )
    task_columns = _names(task, "task") if task is not None else []
    owners = {
        "the label": _names(label, "label"),
        "the task party": task_columns,
        **{f"party {name!r}": _names(columns, f"party {name!r}") for name, columns in parties.items()},
    }
    if len(owners["the label"]) != 1:
        raise InputError(f"label must name one column of data, got {label!r}")
    if isinstance(ids, str):
        owners["the id"] = [ids]
    refuse_shared(owners)
    wanted = [name for names in owners.values() for name in names]
    texts = (*categorical, *owners.get("the id", ()))
    columns = _columns(data, wanted, texts, options)
    joined: dict[str, Any] = {}
    notes: tuple[str, ...] = ()
    if tables:
        keyed = {name: (_arrow(_read(table, texts, options), name), ids) for name, table in tables.items()}
        for name, (table, _) in keyed.items():
            refuse_unknown_columns([ids], table.column_names, f"party {name!r}")
        result = join_by_id(_arrow(columns, "data"), ids, keyed)
        columns, joined, notes = dict(named_columns(result.main, "data")), result.parties, result.notes
    return ValueInputs(
        label={name: columns[name] for name in owners["the label"]},
        task={name: columns[name] for name in task_columns} if task_columns else None,
        parties={
            name: joined[name]
            if name in joined
            else {column: columns[column] for column in owners[f"party {name!r}"]}
            for name in order
        },
        ids=columns[ids] if isinstance(ids, str) else ids,
        notes=notes,
    )


def _are_names(columns: object) -> bool:
    """The party is a list of column names; the path of a file is a table."""
    from fedvalue.tables.sources import is_file_name

    if isinstance(columns, str):
        return not is_file_name(columns)
    is_table = is_pandas(columns) or hasattr(columns, "__arrow_c_stream__") or isinstance(columns, Mapping)
    return not is_table and not isinstance(columns, os.PathLike)


def _arrow(table: Any, name: str) -> Any:
    import pyarrow as pa

    from fedvalue.tables.arrow_columns import as_arrow_array, without_views
    from fedvalue.tables.columns import column_data

    return pa.table(
        {
            key: without_views(as_arrow_array(column_data(data), key))
            for key, data in named_columns(table, name)
        }
    )


def _names(names: object, what: str) -> list[str]:
    if isinstance(names, str):
        return [names]
    if isinstance(names, Sequence) and names and all(isinstance(name, str) for name in names):
        return list(names)
    raise InputError(f"{what}: with data, give the names of its columns, got {type(names).__name__}")


def refuse_shared(owners: Mapping[str, Iterable[str]]) -> None:
    """Refuse a column with two owners."""
    seen: dict[str, str] = {}
    for owner, names in owners.items():
        for name in names:
            if seen.get(name) == owner:
                raise InputError(f"column {name!r} is given to {owner} twice")
            if name in seen:
                raise InputError(
                    f"column {name!r} belongs to {seen[name]} and to {owner}; it can have one owner"
                )
            seen[name] = owner


def _columns(
    data: Any, wanted: Sequence[str], texts: Collection[str], options: FileOptions
) -> dict[str, Any]:
    """The wanted columns of a table, or of a file, of which only these are read."""
    from fedvalue.tables.sources import read_table

    if is_source(data):
        data = read_table(data, wanted, text_columns=texts, options=options)
    columns = dict(named_columns(data, "data"))
    refuse_unknown_columns(wanted, list(columns), "data")
    return {name: columns[name] for name in wanted}


def _aligned(inputs: ValueInputs) -> ValueInputs:
    """The inputs with the rows of pandas tables in the order of the first of them, by index."""
    tables = {"the label": inputs.label, "the task party": inputs.task}
    tables |= {f"party {name!r}": table for name, table in inputs.parties.items()}
    if is_pandas(inputs.ids):
        tables["the ids"] = inputs.ids
    indexes = [(owner, index) for owner, table in tables.items() for index in _indexes(table)]
    if not indexes:
        return inputs
    first, reference = indexes[0]
    others = [(owner, index) for owner, index in indexes if len(index) == len(reference)]
    if all(index.equals(reference) for _, index in others):
        return inputs
    for owner, index in others:
        _refuse_mismatch(owner, index, first, reference)
    by_position = [owner for owner, table in tables.items() if table is not None and not _indexes(table)]
    if by_position:
        raise InputError(
            f"the indexes put rows into different orders, and {by_position[0]} has no index to follow: "
            "use pandas for all tables, or reset_index(drop=True) to match rows by position"
        )
    moved = {owner: _reordered(table, reference) for owner, table in tables.items()}
    return ValueInputs(
        label=moved["the label"],
        task=moved["the task party"],
        parties={name: moved[f"party {name!r}"] for name in inputs.parties},
        ids=moved.get("the ids", inputs.ids),
    )


def _indexes(table: Any) -> list[Any]:
    """The pandas indexes of a table, or of the columns of a dict."""
    columns = table.values() if isinstance(table, Mapping) else [table]
    return [column.index for column in columns if is_pandas(column) and hasattr(column, "iloc")]


def _refuse_mismatch(owner: str, index: Any, first: str, reference: Any) -> None:
    remedy = "align the rows first, or reset_index(drop=True) to match rows by position"
    if index.equals(reference):
        return
    if not (index.is_unique and reference.is_unique):
        raise InputError(f"{owner} and {first} have different indexes with repeated values: {remedy}")
    n_unknown = len(index.difference(reference))
    if n_unknown:
        raise InputError(
            f"{owner}: {n_unknown:,} of {len(index):,} index values are not in the index of {first}: {remedy}"
        )


def _reordered(table: Any, reference: Any) -> Any:
    if isinstance(table, Mapping):
        return {name: _reordered(column, reference) for name, column in table.items()}
    same_rows = is_pandas(table) and hasattr(table, "iloc") and len(table) == len(reference)
    return table.reindex(reference) if same_rows else table
