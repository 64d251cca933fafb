"""Strict JSON documents: results, manifests, configurations and certificates share this codec.

A document is a frozen msgspec Struct whose fields are the JSON keys.

- Lists and objects are nested at most `MAX_DEPTH` deep: what reads one can go through it by recursion.
- Duplicate keys, unknown fields and unknown schemas are refused; msgspec alone would keep the last duplicate.
- Errors are of the caller's kind and name the place in the document ("at `$.parties[0].value`").
- `canonical` is the one spelling of a document, for hashes and signatures (RFC 8785 without fractions).
"""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from fedvalue.errors import ConfigError, FedValueError, InputError


class Document(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of everything that is stored or exchanged as JSON.

    What is signed spells out every field: `omit_defaults` compares by identity, so two equal objects may be
    spelled differently with it.
    """


D = TypeVar("D")

MAX_DEPTH = 100
"""Ours have at most about ten levels."""

_prepared: set[type] = set()
_preparing = threading.Lock()


def encode(document: msgspec.Struct) -> bytes:
    """The document as indented JSON with a final newline."""
    return msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"


def decode(kind: type[D], content: bytes | str, *, schema: str, error: type[FedValueError] = InputError) -> D:
    """Read a document of one kind and schema.

    Args:
        kind: The Struct to build.
        content: JSON text.
        schema: The only accepted value of the key `schema`.
        error: Raised for everything that is not such a document.
    """
    return convert(kind, parse(content, error=error), schema=schema, error=error)


def parse(content: bytes | str, *, error: type[FedValueError] = InputError) -> Any:
    """JSON data in which no key occurs twice, every number is finite, and nothing is nested too deeply."""
    try:
        # Strictly UTF-8: json would guess the encoding, and let half characters through.
        text = content if isinstance(content, str) else content.decode("utf-8-sig")
        data = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
        _refuse_depth(text, data)
        _refuse_half_characters(text, data)
    except _DuplicateKeyError as problem:
        raise error(str(problem)) from None
    except (ValueError, RecursionError) as problem:
        raise error(f"not valid JSON: {problem}") from None
    return data


def convert(
    kind: type[D], data: Any, *, schema: str | None = None, error: type[FedValueError] = InputError
) -> D:
    """A document from JSON-like data, for example from a TOML file."""
    if schema is not None:
        actual = data.get("schema") if isinstance(data, dict) else None
        if actual != schema:
            raise error(f"expected a document of schema {schema!r}, got {actual!r}")
    prepare(kind)
    try:
        return msgspec.convert(data, kind, dec_hook=_from_text)
    except msgspec.ValidationError as problem:
        raise error(str(problem)) from None


def prepare(kind: type) -> None:
    """Let one thread look up a type's fields.

    msgspec does so on first use, and crashes the process if a second thread meets the type meanwhile.
    """
    if kind not in _prepared:
        with _preparing:
            msgspec.json.Decoder(kind)
            _prepared.add(kind)


def read(kind: type[D], path: str | Path, *, schema: str, error: type[FedValueError] = InputError) -> D:
    """Read a document from a file.

    Raises:
        FedValueError: Of the kind `error`, naming the file.
    """
    try:
        content = Path(path).read_bytes()
    except OSError as problem:
        raise error(f"cannot read {path}: {problem.strerror}") from problem
    try:
        return decode(kind, content, schema=schema, error=error)
    except FedValueError as problem:
        raise error(f"{path}: {problem}", code=problem.code) from None


def canonical(data: Any) -> bytes:
    """RFC 8785 of data without fractions.

    Raises:
        ConfigError: A number with a fraction, a large integer, or a key that is not ASCII.
    """
    plain = msgspec.to_builtins(data)
    _only_plain(plain)
    return json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def _from_text(kind: type, value: Any) -> Any:
    """Types that msgspec does not know."""
    if kind is Path and isinstance(value, str) and value:
        return Path(value)
    raise ValueError(f"expected text for a {kind.__name__}, got {value!r}")


class _DuplicateKeyError(Exception):
    pass


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data = dict(pairs)
    if len(data) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = sorted({key for key in keys if keys.count(key) > 1})
        raise _DuplicateKeyError(f"the key {twice[0]!r} occurs twice")
    return data


def _refuse_depth(text: str, data: Any) -> None:
    """How deep Python can go depends on its version, and on who called whom."""
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return
    level = [item for item in (data,) if isinstance(item, dict | list)]
    for _ in range(MAX_DEPTH):
        items = (item for one in level for item in (one.values() if isinstance(one, dict) else one))
        level = [item for item in items if isinstance(item, dict | list)]
        if not level:
            return
    raise ValueError(f"lists and objects are nested more than {MAX_DEPTH} deep")


def _refuse_half_characters(text: str, data: Any) -> None:
    """Half of a surrogate pair, as an escape, is text that nobody can write down again."""
    if "\\ud" in text.lower():
        json.dumps(data, ensure_ascii=False).encode()  # UnicodeEncodeError is a ValueError


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


def _only_plain(data: Any) -> None:
    if isinstance(data, dict):
        for key, item in data.items():
            if not isinstance(key, str) or not key.isascii():
                raise ConfigError(f"keys must be ASCII text, got {key!r}", code="E_FORMAT")
            _only_plain(item)
    elif isinstance(data, list | tuple):
        for item in data:
            _only_plain(item)
    elif isinstance(data, int) and not isinstance(data, bool):
        if abs(data) >= 2**53:  # beyond this, readers of JSON disagree on the value
            raise ConfigError(f"integers must be below 2^53, got {data}", code="E_FORMAT")
    elif not isinstance(data, str | bool | None):
        raise ConfigError(f"a {type(data).__name__} cannot stand in canonical JSON", code="E_FORMAT")
