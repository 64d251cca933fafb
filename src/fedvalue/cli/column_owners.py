"""Which column belongs to which party, from the words of the command line."""

from __future__ import annotations

import re
from dataclasses import dataclass

from fedvalue.errors import InputError

_NAME = re.compile(r'\s*"((?:[^"]|"")*)"\s*(?:,|$)|([^,]+)')  # in double quotes, or up to a comma


@dataclass(frozen=True, slots=True)
class ColumnOwners:
    """The owners of a source's columns.

    Args:
        label: The label's column.
        task: The task party's own features.
        parties: The columns of each data party.
        ids: The column of sample ids, or None.
    """

    label: str
    task: tuple[str, ...]
    parties: dict[str, list[str]]
    ids: str | None

    @classmethod
    def parse(
        cls, source: str, *, label: str, task: str, party: list[str], each: bool, ids: str | None
    ) -> ColumnOwners:
        """Read the command line's words.

        Raises:
            InputError: A malformed party, no party, or a column with two owners.
        """
        own = tuple(split_names(task))
        parties = parse_parties(party)
        if each:
            from fedvalue.tables.sources import column_names

            taken = {label, *own, ids, *(column for columns in parties.values() for column in columns)}
            rest = [column for column in column_names(source) if column not in taken]
            for column in rest:
                if column in parties:
                    raise InputError(
                        f"party {column!r} exists already, and --each would make another of that name"
                    )
            parties |= {column: [column] for column in rest}
        if not parties:
            raise InputError("at least one data party is needed: give --party NAME=COL,… or --each")
        owners = {f"party {name!r}": columns for name, columns in parties.items()}
        refuse_shared({"the label": [label], "the task party": list(own), **owners}, ids)
        return cls(label, own, parties, ids)

    @property
    def all(self) -> list[str]:
        """Every column that is needed."""
        return [
            self.label,
            *self.task,
            *([self.ids] if self.ids else []),
            *(column for columns in self.parties.values() for column in columns),
        ]


def parse_parties(arguments: list[str]) -> dict[str, list[str]]:
    """`NAME=COL,COL` arguments -> columns by party.

    Raises:
        InputError: No `=`, no name, no column, or a party named twice.
    """
    parties: dict[str, list[str]] = {}
    for argument in arguments:
        name, equals, columns = argument.partition("=")
        name = name.strip()
        if not equals or not name or not split_names(columns):
            raise InputError(f"--party must read NAME=COL,COL,…, got {argument!r}")
        if name in parties:
            raise InputError(f"party {name!r} is given twice; list all its columns in one --party")
        parties[name] = split_names(columns)
    return parties


def split_names(text: str) -> list[str]:
    """Column names separated by commas.

    A name with a comma, or with spaces around it, stands in double quotes.
    """
    found = (quoted.replace('""', '"') or plain.strip() for quoted, plain in _NAME.findall(text))
    return [name for name in found if name]


def refuse_shared(owners: dict[str, list[str]], id_column: str | None) -> None:
    """Refuse a column that has two owners, or one that is also the id.

    Raises:
        InputError: Naming the column and both owners.
    """
    seen: dict[str, str] = {} if id_column is None else {id_column: "the id"}
    for owner, columns in owners.items():
        for column in columns:
            if seen.get(column) == owner:
                raise InputError(f"column {column!r} is given to {owner} twice")
            if column in seen:
                raise InputError(
                    f"column {column!r} is given to {seen[column]} and to {owner}; it can have one owner"
                )
            seen[column] = owner
