"""The encoding of a CSV file, and whether its bytes and quotes are sound.

- A byte order mark decides; otherwise text that is valid UTF-8 from the first byte to the last is UTF-8.
- Every second byte zero: UTF-16 without a mark.
- Everything else is read as cp1252, the encoding of Western Windows programs, with less confidence. Another
  encoding of one byte per character would change the spelling of categories, not their codes.
"""

from __future__ import annotations

import codecs
import csv
import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa

from fedvalue.errors import InputError

Confidence = Literal["certain", "high", "fair"]

_BLOCK = 1 << 20
_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF32_LE: "utf-32", codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16",
}  # fmt: skip


class Encoding(NamedTuple):
    """An encoding and how certain it is."""

    name: str
    confidence: Confidence


def detect_encoding(path: str) -> Encoding:
    """The encoding of a file, which is read to its end.

    Raises:
        InputError: It holds bytes that no common encoding of text has.
    """
    with opened(path) as raw:
        first = raw.read(_BLOCK)
        for mark, name in _MARKS.items():
            if first.startswith(mark):
                return Encoding(name, "certain")
        zeros = np.frombuffer(first[:4096], np.uint8) == 0
        if zeros.any():
            odd, even = zeros[1::2].mean() if len(zeros) > 1 else 0.0, zeros[::2].mean()
            if max(odd, even) > 0.5 > min(odd, even):
                return Encoding("utf-16-le" if odd > even else "utf-16-be", "high")
        decoder = codecs.getincrementaldecoder("utf-8")()
        defined = True
        utf8 = True
        block = first
        while True:
            if b"\0" in block:
                raise InputError(f"{path}: contains zero bytes: not a CSV file, or name its --encoding")
            if utf8:
                try:
                    decoder.decode(block, final=not block)
                except UnicodeDecodeError:
                    utf8 = False
            if not utf8:
                defined = defined and not any(byte in block for byte in b"\x81\x8d\x8f\x90\x9d")
            if not block:
                break
            block = raw.read(_BLOCK)
    if utf8:
        return Encoding("utf-8", "high")
    if not defined:
        raise InputError(
            f"{path}: the text is neither UTF-8 nor cp1252; give its --encoding, or save it as UTF-8"
        )
    return Encoding("cp1252", "fair")


@contextmanager
def long_fields() -> Iterator[None]:
    """Within it, the csv module reads fields of any length."""
    before = csv.field_size_limit(1 << 30)
    try:
        yield
    finally:
        csv.field_size_limit(before)


@contextmanager
def opened(path: str) -> Iterator[Any]:
    """The bytes of a file, decompressed.

    Raises:
        InputError: It cannot be read.
    """
    try:
        with pa.input_stream(path, compression="detect") as raw:
            yield raw
    except (OSError, pa.ArrowException) as error:
        reason = getattr(error, "strerror", None) or str(error).split(":", maxsplit=1)[0]
        raise InputError(f"{path}: cannot be read as a CSV file: {reason}") from error


def is_utf8(encoding: str) -> bool:
    """Whether Arrow can read the bytes as they are; it skips a byte order mark by itself."""
    return codecs.lookup(encoding).name in ("utf-8", "utf-8-sig", "ascii")


def as_utf8(path: str, encoding: str) -> Any:
    """The text of a file in another encoding, as UTF-8 in memory.

    Arrow could decode while it reads, but by calling Python from its own threads, which aborts the process
    if the interpreter exits at the same time.

    Raises:
        InputError: The text is not in that encoding.
    """
    decoder = codecs.getincrementaldecoder(encoding)()
    sink = pa.BufferOutputStream()
    try:
        with opened(path) as raw:
            while True:
                block = raw.read(_BLOCK)
                sink.write(decoder.decode(block, final=not block).encode())
                if not block:
                    return sink.getvalue()
    except UnicodeError as error:
        raise InputError(f"{path}: the text is not {encoding}; give its --encoding") from error


def refuse_broken_quotes(path: str, encoding: str, delimiter: str, quote: str, escape: str | None) -> None:
    """Refuse a file in which a quoted field does not end where a field ends.

    Such a quote makes a reader take the following rows for one long field.

    Raises:
        InputError: Naming the line.
    """
    if escape is None and delimiter.isascii() and _quotes_match(path, encoding, delimiter, quote):
        return
    # A stray quote inside a field without quotes is harmless; this slower check distinguishes them.
    with long_fields(), opened(path) as raw:
        text = io.TextIOWrapper(raw, encoding=encoding, newline="")
        rows = csv.reader(text, delimiter=delimiter, quotechar=quote, escapechar=escape, strict=True)
        before = 0
        try:
            for _ in rows:
                before = rows.line_num
        except (csv.Error, UnicodeDecodeError):
            raise InputError(
                f"{path}: the row that starts in line {before + 1:,} has a quote ({quote}) that is not "
                "closed, or that closes in the middle of a field"
            ) from None


def _quotes_match(path: str, encoding: str, delimiter: str, quote: str) -> bool:
    """Whether every quote opens or closes a field, or is one of a pair inside a quoted field."""
    wide = encoding.startswith(("utf-16", "utf-32"))
    decoder = codecs.getincrementaldecoder(encoding)() if wide else None
    mark, between = ord(quote), np.zeros(256, dtype=np.bool_)
    between[[ord(delimiter), 10, 13]] = True
    inside, last = False, b"\n"
    carried = b""
    with opened(path) as raw:
        while True:
            block = raw.read(_BLOCK)
            content = decoder.decode(block, final=not block).encode() if decoder else block
            final = not block
            # A quote at the end is judged together with what follows it.
            data = carried + content
            if not final and data:
                data, carried = data[:-1], data[-1:]
            if quote.encode() in data:
                follow = carried if not final else b"\n"
                buffer = np.frombuffer(last + data + follow, np.uint8)
                at = np.flatnonzero(buffer[1 : 1 + len(data)] == mark) + 1
                opening = (np.arange(len(at)) + inside) % 2 == 0
                before, after = buffer[at - 1], buffer[at + 1]
                fine = np.where(opening, between[before] | (before == mark), between[after] | (after == mark))
                if not fine.all():
                    return False
                inside = bool((inside + len(at)) % 2)
            if data:
                last = data[-1:]
            if final:
                return not inside
