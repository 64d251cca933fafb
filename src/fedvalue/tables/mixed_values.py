"""Columns of numbers or dates with a few other texts, such as one "unknown" among two thousand amounts.

As categories, the numbers would lose their order, and nearly all of them would be merged into "other". Such a
column is refused, with the texts to look at. Columns with few distinct values keep all of them as categories,
and columns with hundreds of distinct texts are text: neither is refused.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from fedvalue.errors import InputError
from fedvalue.tables.column_coder import FEW_CATEGORIES
from fedvalue.tables.column_report import counted
from fedvalue.tables.number_shapes import NUMBER, bare_numbers

Notation = Literal["number", "amount", "date", "name", "text"]

MOST_KEPT = 256
"""Distinct values kept per notation. A column with this many other texts is text."""

_SLICE = 1 << 16
_SHOWN = 3
_LONGEST = 30
_DATE = (
    r"^(?:\d{4}-\d{1,2}-\d{1,2}|\d{1,2}[/.-]\d{1,2}[/.-]\d{4}|\d{4}[/.]\d{1,2}[/.]\d{1,2}"
    r"|\d{1,2}[/. -][A-Za-z]{3,9}[/. -]\d{4})(?:[ T].*)?$"
)
_TIME = r"^\d{1,2}:\d{2}(?::\d{2}.*)?$"


class MixedValues:
    """The notations of a column's values, in any number of chunks."""

    def __init__(self) -> None:
        self._rows: dict[Notation, dict[str, int]] = {}

    def add(self, array: Any, notation: Notation) -> None:
        """Add text of one notation, without counting its rows."""
        kept = self._rows.setdefault(notation, {})
        for start in range(0, len(array), _SLICE):
            if len(kept) >= MOST_KEPT:
                return
            texts = pc.unique(array.slice(start, _SLICE))[: 2 * MOST_KEPT].to_pylist()
            _count(kept, ((text, 0) for text in texts if text is not None))

    def look(self, array: Any) -> None:
        """Add a chunk, text whose missing values are null."""
        for start in range(0, len(array), _SLICE):
            if self._is_text:
                return
            values = pc.value_counts(array.slice(start, _SLICE).drop_null())
            texts, counts = values.field(0), values.field(1)
            left = pa.array([True] * len(texts), pa.bool_())
            for notation, mask in _masks(texts):
                chosen = pc.and_(left, mask)
                left = pc.and_(left, pc.invert(mask))
                kept = self._rows.setdefault(notation, {})
                if notation == "text" or len(kept) < MOST_KEPT:
                    chosen_texts, rows = texts.filter(chosen).to_pylist(), counts.filter(chosen).to_pylist()
                    _count(kept, zip(chosen_texts, rows, strict=True))

    def merge(self, other: MixedValues) -> None:
        """Add the values of another part of the column."""
        for notation, rows in other._rows.items():
            _count(self._rows.setdefault(notation, {}), rows.items())

    @property
    def strays(self) -> str | None:
        """Why texts among numbers or dates are refused; None where there are none, or the column is text."""
        texts = self._rows.get("text", {})
        if not texts or not self._ordered:
            return None
        named = sorted(texts, key=lambda text: (-texts[text], text))[:_SHOWN]
        listed = ", ".join(f"{_short(text)!r} ({counted(texts[text], 'row')})" for text in named)
        n_more = len(texts) - len(named)
        more = f" and {counted(n_more, 'other text')}" if n_more else ""
        markers = "TEXT,…" if n_more else _marker_option(named)
        verb = "is" if len(texts) == 1 else "are"
        return (
            f"most values are {self._leading}s, but {listed}{more} {verb} not; add --missing {markers} to "
            "read such texts as missing, correct them, or list the column as categorical"
        )

    @property
    def problem(self) -> str | None:
        """Why a column that no single reading fits is refused; None where it is text."""
        if self.strays or not self._ordered:
            return self.strays
        examples = [sorted(rows)[0] for notation, rows in self._rows.items() if rows and notation != "text"]
        if len(examples) < 2:
            examples = [*examples, max(self._rows[self._leading])]
        return (
            f"its values are {self._leading}s in several notations, such as {_short(examples[0])!r} and "
            f"{_short(examples[1])!r}; write all of them in the same way, or list the column as categorical"
        )

    @property
    def _is_text(self) -> bool:
        return len(self._rows.get("text", ())) >= MOST_KEPT

    @property
    def _leading(self) -> Notation:
        kinds: tuple[Notation, ...] = ("number", "amount", "date")
        return max(kinds, key=lambda kind: len(self._rows.get(kind, ())))

    @property
    def _ordered(self) -> bool:
        """Most values are numbers or dates, too many to be categories."""
        numbers = self._rows.get("number", {})
        if self._rows.get("name") and all(text.isdigit() for text in numbers):
            return False  # a leading zero: zip codes, phone numbers, ids
        n_ordered = sum(len(rows) for notation, rows in self._rows.items() if notation != "text")
        n_texts = len(self._rows.get("text", ()))
        return not self._is_text and n_ordered > FEW_CATEGORIES and n_ordered >= n_texts


def _count(kept: dict[str, int], counts: Iterable[tuple[str, int]]) -> None:
    """Add counts, of at most `MOST_KEPT` texts."""
    for text, count in counts:
        if text in kept or len(kept) < MOST_KEPT:
            kept[text] = kept.get(text, 0) + count


def refuse_strays(array: Any, name: str) -> None:
    """Refuse a text column in memory whose values are numbers or dates, except for a few texts."""
    mixed = MixedValues()
    mixed.look(array.cast(pa.large_string()))
    if mixed.strays:
        raise InputError(f"column {name!r}: {mixed.strays}")


def _masks(texts: Any) -> list[tuple[Notation, Any]]:
    """Masks of the texts by notation; the first one that fits counts."""
    trimmed = pc.utf8_trim_whitespace(texts)
    bare = bare_numbers(trimmed)
    number = pc.match_substring_regex(bare, NUMBER)
    date = pc.or_(pc.match_substring_regex(trimmed, _DATE), pc.match_substring_regex(trimmed, _TIME))
    return [
        ("name", pc.match_substring_regex(trimmed, r"^0\d+$")),
        ("amount", pc.and_(number, pc.not_equal(trimmed, bare))),
        ("number", number),
        ("date", date),
        ("text", pa.array([True] * len(texts), pa.bool_())),
    ]


def _marker_option(texts: list[str]) -> str:
    """The texts as --missing takes them; a placeholder if one needs more than shell quotes."""
    plain = all(text.isprintable() and not {",", '"'} & set(text) and len(text) <= _LONGEST for text in texts)
    return shlex.quote(",".join(text.strip() for text in texts)) if plain else "TEXT,…"


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
