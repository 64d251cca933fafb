"""Columns of numbers or dates with other texts in them, such as one "unknown" among two thousand amounts.

As categories such a column would lose the order of its numbers, and nearly every number would be merged into
"other". It is refused instead, with the texts to look at. A column with few different values keeps all of
them as categories and is not refused; nor is one with hundreds of different texts, which is text.
"""

from __future__ import annotations

import shlex
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from fedvalue.errors import InputError
from fedvalue.tables.column_coder import FEW_CATEGORIES
from fedvalue.tables.number_shapes import NUMBER, bare_numbers

Notation = Literal["number", "amount", "date", "name", "text"]

MOST_KEPT = 256
"""Different values of a notation that are kept. A column with as many texts is text."""

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
        """Add text that all has this notation, without counting its rows."""
        kept = self._rows.setdefault(notation, {})
        for start in range(0, len(array), _SLICE):
            if len(kept) >= MOST_KEPT:
                return
            for text in pc.unique(array.slice(start, _SLICE))[: 2 * MOST_KEPT].to_pylist():
                if text is not None and len(kept) < MOST_KEPT:
                    kept.setdefault(text, 0)

    def look(self, array: Any) -> None:
        """Add a chunk, text whose missing values are null."""
        for start in range(0, len(array), _SLICE):
            if self._is_text:
                return
            values = pc.value_counts(array.slice(start, _SLICE).drop_null())
            words, counts = values.field(0), values.field(1)
            left = pa.array([True] * len(words), pa.bool_())
            for notation, mask in _masks(words):
                chosen = pc.and_(left, mask)
                left = pc.and_(left, pc.invert(mask))
                self._keep(notation, words.filter(chosen), counts.filter(chosen))

    def merge(self, other: MixedValues) -> None:
        """Add what another part of the column has shown."""
        for notation, rows in other._rows.items():
            kept = self._rows.setdefault(notation, {})
            for text, count in rows.items():
                if text in kept or len(kept) < MOST_KEPT:
                    kept[text] = kept.get(text, 0) + count

    @property
    def strays(self) -> str | None:
        """Why texts among numbers or dates are refused; None where there are none, or the column is text."""
        texts = self._rows.get("text", {})
        if not texts or not self._ordered:
            return None
        named = sorted(texts, key=lambda text: (-texts[text], text))[:_SHOWN]
        listed = ", ".join(f"{_short(text)!r} ({_counted(texts[text], 'row')})" for text in named)
        n_more = len(texts) - len(named)
        more = f" and {_counted(n_more, 'other text')}" if n_more else ""
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
        """Whether most values are numbers or dates, too many to be categories."""
        numbers = self._rows.get("number", {})
        if self._rows.get("name") and all(text.isdigit() for text in numbers):
            return False  # a leading zero: zip codes, phone numbers, ids
        n_ordered = sum(len(rows) for notation, rows in self._rows.items() if notation != "text")
        n_texts = len(self._rows.get("text", ()))
        return not self._is_text and n_ordered > FEW_CATEGORIES and n_ordered >= n_texts

    def _keep(self, notation: Notation, words: Any, counts: Any) -> None:
        if not len(words):
            return
        kept = self._rows.setdefault(notation, {})
        if notation != "text" and len(kept) >= MOST_KEPT:
            return
        for text, count in zip(words.to_pylist(), counts.to_pylist(), strict=True):
            if text in kept or len(kept) < MOST_KEPT:
                kept[text] = kept.get(text, 0) + count


def refuse_strays(array: Any, name: str) -> None:
    """Refuse a column of text in memory whose values are numbers or dates but for a few.

    Raises:
        InputError: Naming the texts.
    """
    mixed = MixedValues()
    mixed.look(array.cast(pa.large_string()))
    if mixed.strays:
        raise InputError(f"column {name!r}: {mixed.strays}")


def _masks(words: Any) -> list[tuple[Notation, Any]]:
    """Which words have each notation; the first one that fits counts."""
    trimmed = pc.utf8_trim_whitespace(words)
    bare = bare_numbers(trimmed)
    number = pc.match_substring_regex(bare, NUMBER)
    date = pc.or_(pc.match_substring_regex(trimmed, _DATE), pc.match_substring_regex(trimmed, _TIME))
    return [
        ("name", pc.match_substring_regex(trimmed, r"^0\d+$")),
        ("amount", pc.and_(number, pc.not_equal(trimmed, bare))),
        ("number", number),
        ("date", date),
        ("text", pa.array([True] * len(words), pa.bool_())),
    ]


def _marker_option(texts: list[str]) -> str:
    """The texts as the option takes them; where one would need an explanation, a placeholder."""
    plain = all(text.isprintable() and not {",", '"'} & set(text) and len(text) <= _LONGEST for text in texts)
    return shlex.quote(",".join(text.strip() for text in texts)) if plain else "TEXT,…"


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _counted(n: int, noun: str) -> str:
    return f"{n:,} {noun if n == 1 else noun + 's'}"
