"""Text written by others, made safe for terminals, logs and spreadsheets."""

from __future__ import annotations


def printable(text: str) -> str:
    """Replace every character that is not printable with its escape sequence.

    That covers C0 and C1 control characters, line and paragraph separators (U+2028, U+2029), and
    bidirectional overrides: otherwise a peer could forge lines of ours or send commands to the terminal.
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


_FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""What a formula begins with; the full-width letters count in East Asian settings."""


def without_formula(text: str) -> str:
    """Put a quote before text that a spreadsheet program would run as a formula, also after blanks."""
    blank = text.startswith(("\t", "\r", "\n"))
    return f"'{text}" if blank or text.lstrip().startswith(_FORMULA) else text
