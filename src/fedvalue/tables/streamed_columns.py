"""Columns of tables larger than memory: examined in a first pass, coded in a second.

The first pass gathers a summary of every column. Text is read as its first values suggest; if a later value
does not fit, the summary is dropped, and a second look uses the reading that fits all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fedvalue.errors import InputError
from fedvalue.tables.arrow_columns import arrow_column, is_text
from fedvalue.tables.coding_settings import CodingSettings
from fedvalue.tables.column_coder import ColumnCoder
from fedvalue.tables.column_summary import ColumnSummary
from fedvalue.tables.columns import with_one_spelling
from fedvalue.tables.parts import Part
from fedvalue.tables.text_readings import Reading, TextReadings, read_text, without_missing_spellings

if TYPE_CHECKING:
    from fedvalue.typing import Codes


class ColumnLook:
    """The first pass over one column.

    Args:
        name: The column.
        categorical: Its numbers are names.
        reading: How to read its text, if known.
        clean: Text that differs only in case or blanks is the same.
        part: The file, whose decimal mark settles what its numbers leave open.
    """

    def __init__(
        self,
        name: str,
        *,
        categorical: bool = False,
        reading: Reading | None = None,
        clean: bool = False,
        part: Part | None = None,
    ) -> None:
        self.name = name
        self.summary = ColumnSummary(name)
        self.categorical = categorical
        self.clean = clean
        self._known: Reading | None = "text" if categorical else reading
        self._used: Reading | None = None
        decimal, dates = ("", None) if part is None else (part.decimal, part.options.dates)
        self._readings = TextReadings(decimal, dates)
        self._dropped = False

    @property
    def reading(self) -> Reading | None:
        """How to read the column's text; None if it has none."""
        return self._known or self._readings.reading

    @property
    def problem(self) -> str | None:
        """Why the column cannot be read without help."""
        return None if self._known else self._readings.problem

    @property
    def settled(self) -> bool:
        """The summary covers all rows."""
        return not self._dropped

    def add(self, array: Any) -> None:
        """Add a chunk of the column, an Arrow array."""
        if is_text(array.type):
            array = self._read(without_missing_spellings(array))
            self._dropped |= self.problem is not None
        if not self._dropped:
            column = arrow_column(array, self.name, categorical=self.categorical)
            self.summary.add(with_one_spelling(column) if self.clean else column)

    def _read(self, text: Any) -> Any:
        """The text under its known reading, or under the one that fits so far."""
        if self._known is not None:
            return read_known(text, self._known, self.name)
        typed = self._readings.look(text)
        self._dropped |= self._used is not None and self._used != self.reading
        self._used = self.reading
        return text if typed is None else typed

    def merge(self, other: ColumnLook) -> None:
        """Add a look at other rows of the column."""
        self._readings.merge(other._readings)
        used = {look._used for look in (self, other)} - {None}
        self._dropped |= other._dropped or len(used | ({self.reading} if used else set())) > 1
        self._used = self._used or other._used
        if not self._dropped:
            self.summary.merge(other.summary)

    def again(self) -> ColumnLook:
        """A look at the same rows with the reading that fits all of them."""
        return self._like(self.reading)

    def at(self, part: Part) -> ColumnLook:
        """A look at the same column in one file, to be merged with others."""
        return self._like(self._known, part)

    def _like(self, reading: Reading | None, part: Part | None = None) -> ColumnLook:
        return ColumnLook(
            self.name, categorical=self.categorical, reading=reading, clean=self.clean, part=part
        )

    def streamed(self, coder: ColumnCoder) -> StreamedColumn:
        """The column for the second pass."""
        return StreamedColumn(coder, self.reading, self.categorical, self.clean)


def new_looks(
    names: Iterable[str], settings: CodingSettings, label: str | None = None, text: Collection[str] = ()
) -> list[ColumnLook]:
    """Looks at columns before anything is read; those in `text` are known to be text."""
    return [
        ColumnLook(
            name,
            categorical=name in settings.categorical,
            reading="text" if name in text else None,
            clean=settings.clean_labels and name == label,
        )
        for name in names
    ]


def look_at(part: Part, looks: Iterable[ColumnLook], batches: Iterable[Any]) -> list[ColumnLook]:
    """Looks at the same columns in some batches of a file, to be merged with others."""
    file_looks = [look.at(part) for look in looks]
    for batch in batches:
        for look in file_looks:
            look.add(batch.column(look.name))
    return file_looks


def settled_looks(
    looks: list[ColumnLook], read: Callable[[list[ColumnLook]], list[ColumnLook]]
) -> list[ColumnLook]:
    """Looks at all rows. Columns whose first values suggested a wrong reading are read once more.

    `read` reads the columns of some looks from all files.

    Raises:
        InputError: The values of a column have two readings.
    """
    looks = read(looks)
    for look in looks:
        if look.problem:
            raise InputError(f"column {look.name!r}: {look.problem}")
    unsettled = [look.again() for look in looks if not look.settled]
    again = {look.name: look for look in read(unsettled)} if unsettled else {}
    return [again.get(look.name, look) for look in looks]


@dataclass(frozen=True, slots=True)
class StreamedColumn:
    """A column whose coder and reading are known (see `ColumnLook`)."""

    coder: ColumnCoder
    reading: Reading | None = None
    categorical: bool = False
    clean: bool = False

    def codes(self, batch: Any) -> Codes:
        """The codes of a batch's rows."""
        name = self.coder.name
        array = batch.column(name)
        if is_text(array.type):
            array = without_missing_spellings(array)
            array = array if self.reading is None else read_known(array, self.reading, name)
        column = arrow_column(array, name, categorical=self.categorical)
        return self.coder.codes(with_one_spelling(column) if self.clean else column)


def read_known(text: Any, reading: Reading, name: str) -> Any:
    """Text whose reading is known; a value that does not fit is refused."""
    typed = read_text(text, reading)
    if typed is None:
        raise InputError(f"column {name!r}: a value does not read as a {reading}, unlike those before it")
    return typed
