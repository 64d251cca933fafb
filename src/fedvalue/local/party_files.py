"""Files of several parties, joined by id.

The result has the rows of the file with the label whose ids are in every party's file, in the order of that
file. Repeated ids are refused. Ids that are all whole numbers with a decimal .0 are read without it, as
they are where the file stores numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from fedvalue.errors import InputError
from fedvalue.tables.arrow_columns import as_names
from fedvalue.tables.party_table import check_ids

_DECIMAL_ZERO = r"^-?\d+\.0$"

LOW_MATCH = 0.5
"""Below this fraction of matched ids, a wrong id column is more likely than different customers."""


@dataclass(frozen=True, slots=True)
class Match:
    """The number of the `n_samples` ids of the file with the label that are in a party's file."""

    party: str
    n_rows: int
    n_matched: int
    n_samples: int

    @property
    def sentence(self) -> str:
        """The match rate."""
        share = self.n_matched / self.n_samples
        return f"{self.party}: {self.n_matched:,} of {self.n_samples:,} ids matched ({share:.1%})"


@dataclass(frozen=True, slots=True, eq=False)
class Joined:
    """Tables whose rows are the same samples, in the same order.

    Args:
        main: The table with the label.
        parties: The parties' tables, without their ids.
        ids: The common ids.
        matches: One per party, in their order.
        notes: The match rates as sentences, with likely reasons for low ones.
    """

    main: Any
    parties: dict[str, Any]
    ids: Any
    matches: tuple[Match, ...]
    notes: tuple[str, ...]


def join_by_id(main: Any, main_id: str, parties: Mapping[str, tuple[Any, str]]) -> Joined:
    """Reduce Arrow tables to their common ids.

    `main` is the table with the label and `main_id` its column of ids, as text; each party has a table and
    the name of its column of ids.

    Raises:
        InputError: Repeated or missing ids, or no common id.
    """
    ids = _ids(main, main_id, "the file with the label")
    places = {  # where each id is in a party's table, null if it is not
        name: pc.index_in(ids, value_set=_ids(table, column, f"party {name!r}"))
        for name, (table, column) in parties.items()
    }
    matches = tuple(
        Match(name, table.num_rows, len(ids) - places[name].null_count, len(ids))
        for name, (table, _) in parties.items()
    )
    common = pa.array([True] * len(ids))
    for place in places.values():
        common = pc.and_(common, pc.is_valid(place))
    n_common = pc.sum(common).as_py() or 0
    notes = tuple(
        f"{match.sentence}; {_suspicion(match, ids, *parties[match.party])}"
        if match.n_matched < LOW_MATCH * len(ids)
        else match.sentence
        for match in matches
    )
    if not n_common:
        raise InputError(f"no id is in all files: {'; '.join(notes)}")
    return Joined(
        main=main.filter(common),
        parties={
            name: table.take(places[name].filter(common)).drop_columns([column])
            for name, (table, column) in parties.items()
        },
        ids=ids.filter(common),
        matches=matches,
        notes=notes,
    )


def _ids(table: Any, column: str, owner: str) -> Any:
    try:
        check_ids(table.column(column), name=column)
    except InputError as error:
        raise InputError(f"{owner}: {error}") from None
    return _names(table, column)


def _names(table: Any, column: str) -> Any:
    ids = as_names(table.column(column)).cast(pa.large_string())
    if pc.all(pc.match_substring_regex(ids, _DECIMAL_ZERO)).as_py():
        return _without_decimal(ids)
    return ids


def _suspicion(match: Match, ids: Any, table: Any, column: str) -> str:
    """A likely reason for few matches: another spelling of the ids, or a wrong column."""
    theirs = _names(table, column)
    alike = {
        words: pc.sum(pc.is_in(plain(ids), value_set=plain(theirs))).as_py() or 0
        for words, plain in _DIFFERENCES.items()
    }
    # The first of the best: a single difference before all together.
    words = max(alike, key=alike.__getitem__)
    if alike[words] > match.n_matched:
        return f"{alike[words]:,} would match without {words}: write the ids in the same way in both files"
    return f"is {column!r} the right id?"


def _without_zeros(ids: Any) -> Any:
    return pc.replace_substring_regex(ids, "^0+(.)", r"\1")


def _without_decimal(ids: Any) -> Any:
    return pc.replace_substring_regex(ids, r"\.0+$", "")


_DIFFERENCES: dict[str, Callable[[Any], Any]] = {
    "blanks at either end": pc.utf8_trim_whitespace,
    "differences of case": pc.utf8_lower,
    "leading zeros": _without_zeros,
    "a decimal .0": _without_decimal,
    "blanks, leading zeros, a decimal .0 and differences of case": lambda ids: _without_zeros(
        _without_decimal(pc.utf8_lower(pc.utf8_trim_whitespace(ids)))
    ),
}
