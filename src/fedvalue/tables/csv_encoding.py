"""The encoding of a CSV file, and checks of its bytes and quotes.

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
from itertools import chain
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
        InputError: It contains bytes that no common text encoding uses.
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
    if _decodes(path, "utf-8"):
        return Encoding("utf-8", "high")
    if _decodes(path, "cp1252"):
        return Encoding("cp1252", "fair")
    raise InputError(
        f"{path}: the text is neither UTF-8 nor cp1252; give its --encoding, or save it as UTF-8"
    )


def _decodes(path: str, encoding: str) -> bool:
    decoder = codecs.getincrementaldecoder(encoding)()
    try:
        for block in _blocks(path):
            if b"\0" in block:
                raise InputError(f"{path}: contains zero bytes: not a CSV file, or name its --encoding")
            decoder.decode(block)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


def _blocks(path: str) -> Iterator[bytes]:
    with opened(path) as raw:
        while block := raw.read(_BLOCK):
            yield block


def _utf8_blocks(path: str, encoding: str) -> Iterator[bytes]:
    """The text of a file in another encoding, as UTF-8.

    Raises:
        InputError: The text is not in that encoding.
    """
    decoder = codecs.getincrementaldecoder(encoding)()
    try:
        for block in _blocks(path):
            yield decoder.decode(block).encode()
        yield decoder.decode(b"", final=True).encode()
    except UnicodeError as error:
        raise InputError(f"{path}: the text is not {encoding}; give its --encoding") from error


@contextmanager
def long_fields() -> Iterator[None]:
    """Let the csv module read fields of any length."""
    before = csv.field_size_limit(1 << 30)
    try:
        yield
    finally:
        csv.field_size_limit(before)


@contextmanager
def opened(path: str) -> Iterator[Any]:
    """The decompressed bytes of a file; a failure to read them is an InputError."""
    try:
        with pa.input_stream(path, compression="detect") as raw:
            yield raw
    except (OSError, pa.ArrowException) as error:
        reason = getattr(error, "strerror", None) or str(error).split(":", maxsplit=1)[0]
        raise InputError(f"{path}: cannot be read as a CSV file: {reason}") from error


def is_utf8(encoding: str) -> bool:
    """Arrow can read the bytes as they are; it skips a byte order mark itself."""
    return codecs.lookup(encoding).name in ("utf-8", "utf-8-sig", "ascii")


def as_utf8(path: str, encoding: str) -> Any:
    """The text of a file in another encoding, as UTF-8 in memory.

    Arrow could decode while it reads, but by calling Python from its own threads, which aborts the process
    if the interpreter exits at the same time.
    """
    sink = pa.BufferOutputStream()
    for block in _utf8_blocks(path, encoding):
        sink.write(block)
    return sink.getvalue()


def refuse_broken_quotes(path: str, encoding: str, delimiter: str, quote: str, escape: str | None) -> None:
    """Refuse a file in which a quoted field does not end where a field ends.

    Such a quote makes a reader take the following rows for one long field. The error names the line.
    """
    if escape is None and delimiter.isascii() and _quotes_match(path, encoding, delimiter, quote):
        return
    # A stray quote inside an unquoted field is harmless; this slower check tells them apart.
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
    """Every quote opens or closes a field, or is one of a pair inside a quoted field."""
    wide = encoding.startswith(("utf-16", "utf-32"))
    mark, separates = ord(quote), np.zeros(256, dtype=np.bool_)
    separates[[ord(delimiter), 10, 13]] = True
    inside, tail = False, b"\n"
    for block in chain(_utf8_blocks(path, encoding) if wide else _blocks(path), [b"\n"]):
        text = tail + block
        tail = text[-2:]  # the last byte is judged together with the one that follows it
        if text.find(mark, 1, len(text) - 1) < 0:
            continue
        buffer = np.frombuffer(text, np.uint8)
        at = np.flatnonzero(buffer[1:-1] == mark) + 1
        opening = (np.arange(len(at)) + inside) % 2 == 0
        neighbour = np.where(opening, buffer[at - 1], buffer[at + 1])
        if not (separates[neighbour] | (neighbour == mark)).all():
            return False
        inside = bool((inside + len(at)) % 2)
    return not inside
