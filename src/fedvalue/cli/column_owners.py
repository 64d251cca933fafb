"""The files and columns of each party, from the arguments of a command."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedvalue.errors import InputError

if TYPE_CHECKING:
    from fedvalue.tables.file_options import FileOptions
    from fedvalue.valuation.provenance import PartyRequest, Request

_KINDS = "a file of its own ends in .csv, .xlsx, .parquet, .arrow or .feather"
_NAME = re.compile(r'\s*"((?:[^"]|"")*)"\s*(?:,|$)|([^,]+)')  # in double quotes, or up to a comma


def parse_request(
    source: str,
    *,
    label: str,
    task: str = "",
    party: Sequence[str] = (),
    each: bool = False,
    ids: Sequence[str] = (),
    drop: str = "",
    options: Mapping[str, FileOptions] | None = None,
) -> Request:
    """Parse the arguments that describe files and parties.

    Args:
        source: The file with the label.
        label: Its column.
        task: The task party's features, separated by commas.
        party: `NAME=COL,COL` for columns of `source`, `NAME=FILE` for a file of its own.
        each: Make every other column of `source` a party.
        ids: `COL`, the id in every file, and `NAME=COL`, the id in one party's file.
        drop: Columns to leave out.
        options: How to read files (see `parse_file_options`).

    Raises:
        InputError: A malformed party, no party, or a column with two owners.
    """
    import msgspec

    from fedvalue.local.inputs import refuse_shared
    from fedvalue.tables.sources import column_names, refuse_unknown_columns
    from fedvalue.valuation.provenance import PartyRequest, Request

    task_columns, dropped = tuple(split_names(task)), set(split_names(drop))
    main_id, party_ids = _ids(ids)
    request = Request(
        source=source, label=label, task=task_columns, parties=(), id=main_id, options=dict(options or {})
    )
    parties: list[PartyRequest] = [
        _party(request, name, text, party_ids.pop(name, None), dropped)
        for name, text in parse_parties(party).items()
    ]
    if party_ids:
        raise InputError(f"--id names {_listed(party_ids)}, which has no file of its own")
    taken = {label, *task_columns, main_id, *dropped}
    taken |= {column for known in parties if known.source is None for column in known.columns}
    if each:
        names = {known.name for known in parties}
        rest = [column for column in column_names(source, request.options_of()) if column not in taken]
        for column in rest:
            if column in names:
                raise InputError(
                    f"--each would make a second party {column!r}; leave the column out with --drop"
                )
        parties += [PartyRequest(name=column, columns=(column,)) for column in rest]
    if not parties:
        raise InputError("at least one data party is needed: give --party NAME=COL,… or --each")
    if dropped:
        own = [(known.source, known.name) for known in parties if known.source is not None]
        present = [
            column
            for file, name in ((source, ""), *own)
            for column in column_names(file, request.options_of(name))
        ]
        refuse_unknown_columns(sorted(dropped), present, "--drop")
    unknown = set(request.options) - {"", *(known.name for known in parties)}
    if unknown:
        raise InputError(f"{_listed(unknown)} is not a party of this command, so it has no file to read")
    owners = {f"party {known.name!r}": list(known.columns) for known in parties if known.source is None}
    id_column = {} if main_id is None else {"the id": [main_id]}
    refuse_shared({**id_column, "the label": [label], "the task party": task_columns, **owners})
    return msgspec.structs.replace(request, parties=tuple(parties))


def _party(request: Request, name: str, text: str, party_id: str | None, dropped: set[str]) -> PartyRequest:
    """A party with columns of the common file, or with a file of its own."""
    from fedvalue.tables.sources import column_names, is_file_name
    from fedvalue.valuation.provenance import PartyRequest

    if not is_file_name(text):
        columns = tuple(column for column in split_names(text) if column not in dropped)
        if Path(text).exists() and text not in column_names(request.source, request.options_of()):
            known = f"a folder is written with a slash: {text}/" if Path(text).is_dir() else _KINDS
            raise InputError(f"party {name!r}: {text!r} is no column of {request.source!r}; {known}")
        if party_id is not None:
            raise InputError(f"--id {name}={party_id}: party {name!r} has no file of its own")
        return PartyRequest(name=name, columns=columns)
    key = party_id or request.id
    if key is None:
        raise InputError(f"party {name!r} has a file of its own: name the column of its ids with --id")
    every = column_names(text, request.options_of(name))
    if key not in every:
        from fedvalue.tables.parts import shown
        from fedvalue.tables.sources import refuse_unknown_columns

        refuse_unknown_columns([key], every, f"{shown(text)} (an id of its own: --id {name}=COL)")
    columns = tuple(column for column in every if column != key and column not in dropped)
    if not columns:
        raise InputError(f"party {name!r}: its file has no column besides the id")
    return PartyRequest(name=name, columns=columns, source=text, id=None if key == request.id else key)


def _ids(arguments: Sequence[str]) -> tuple[str | None, dict[str, str]]:
    """The id of all files, and those of single parties."""
    common: str | None = None
    by_party: dict[str, str] = {}
    for argument in arguments:
        name, equals, column = argument.partition("=")
        if equals and name.strip() and column:
            by_party[name.strip()] = column
        elif common is not None:
            raise InputError(
                f"--id is given twice ({common!r}, {argument!r}); for one party's file write --id NAME=COL"
            )
        else:
            common = argument
    return common, by_party


def parse_file_options(**arguments_by_option: Sequence[str] | None) -> dict[str, FileOptions]:
    """`--decimal ,` for all files and `--decimal NAME=,` for a party's own; by party, "" for all."""
    from fedvalue.tables.file_options import FileOptions

    by_party: dict[str, dict[str, Any]] = {}
    for key, arguments in arguments_by_option.items():
        for argument in arguments or ():
            name, equals, setting = argument.partition("=")
            party, text = (name.strip(), setting) if equals and name.strip() and setting else ("", argument)
            if key in by_party.setdefault(party, {}):
                raise InputError(f"--{key} is given twice{f' for {party}' if party else ''}")
            by_party[party][key] = _setting(key, text)
    return {party: FileOptions(**settings) for party, settings in by_party.items()}


def _setting(key: str, text: str) -> object:
    if key == "missing":
        return tuple(split_names(text))
    if key == "header":
        if not text.isdecimal():
            raise InputError(f"--header must be the number of a line, such as 3, got {text!r}")
        return int(text)
    return text


def parse_parties(arguments: Sequence[str]) -> dict[str, str]:
    """`NAME=…` arguments by party."""
    parties: dict[str, str] = {}
    for argument in arguments:
        name, _, text = argument.partition("=")
        name = name.strip()
        if not name or not split_names(text):
            raise InputError(f"--party must read NAME=COL,COL,… or NAME=FILE, got {argument!r}")
        if name in parties:
            raise InputError(f"party {name!r} is given twice; list all its columns in one --party")
        parties[name] = text
    return parties


def split_names(text: str) -> list[str]:
    """Column names separated by commas; double quotes protect commas and spaces in a name."""
    names = (quoted.replace('""', '"') or plain.strip() for quoted, plain in _NAME.findall(text))
    return [name for name in names if name]


def _listed(names: Sequence[str] | set[str] | dict[str, str]) -> str:
    return ", ".join(repr(name) for name in sorted(names))
