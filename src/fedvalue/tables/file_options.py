"""Options for reading files, which override detection."""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from typing import Literal, get_args

import msgspec

from fedvalue.errors import InputError

DateOrder = Literal["DD/MM/YYYY", "MM/DD/YYYY"]
_TABS = ("\\t", "tab", "TAB")


class FileOptions(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """How to read a file; None means detect.

    Args:
        delimiter: The character between the fields of a CSV file; "tab" for a tab.
        decimal: The decimal mark of numbers in text, "." or ",".
        encoding: Of a CSV file, by Python's name, as in "cp1252".
        dates: The order of day and month in dates such as 03/04/2024.
        sheet: The sheet of an Excel workbook.
        header: The line of a CSV file, or the row of a sheet, that names the columns, counted from 1; what
            stands above it is skipped.
        missing: Text that stands for a missing value, as in ("?", "unknown"), beside the usual spellings.

    Raises:
        InputError: An option has an invalid value.
    """

    delimiter: str | None = None
    decimal: Literal[".", ","] | None = None
    encoding: str | None = None
    dates: DateOrder | None = None
    sheet: str | None = None
    header: int | None = None
    missing: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if self.delimiter in _TABS:
            msgspec.structs.force_setattr(self, "delimiter", "\t")
        if self.delimiter is not None and (len(self.delimiter) != 1 or self.delimiter in '"\r\n\0'):
            raise InputError(f"delimiter must be one character, such as ; or tab, got {self.delimiter!r}")
        if self.decimal is not None and self.decimal not in (".", ","):
            raise InputError(f"decimal must be . or a comma, got {self.decimal!r}")
        if self.dates is not None and self.dates not in get_args(DateOrder):
            raise InputError(f"dates must be DD/MM/YYYY or MM/DD/YYYY, got {self.dates!r}")
        if self.header is not None and (type(self.header) is not int or self.header < 1):
            raise InputError(f"header must be the number of a line, at least 1, got {self.header!r}")
        if self.missing is not None:
            msgspec.structs.force_setattr(self, "missing", _texts(self.missing))
        if self.encoding is not None:
            try:
                codecs.lookup(self.encoding)
            except LookupError:
                raise InputError(
                    f"encoding {self.encoding!r} is not known; common ones are utf-8, utf-16, cp1252"
                ) from None


def _texts(texts: object) -> tuple[str, ...]:
    if isinstance(texts, str) or not isinstance(texts, Sequence) or not texts:
        raise InputError(f"missing must be a list of texts, as in ('?', 'unknown'), got {texts!r}")
    for text in texts:
        if not isinstance(text, str):
            raise InputError(f"missing must be a list of texts, got {text!r} in it")
    return tuple(texts)


AS_DETECTED = FileOptions()
