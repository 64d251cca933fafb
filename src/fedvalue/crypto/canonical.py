"""One spelling of JSON data, so that a hash or a signature of it means the same everywhere."""

from __future__ import annotations

import json
from typing import Any

from fedvalue.errors import ConfigError


def canonical_json(data: Any) -> bytes:
    """RFC 8785 of data without fractions.

    Raises:
        ConfigError: A number with a fraction, or a key that is not ASCII.
    """
    _only_plain(data)
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def _only_plain(data: Any) -> None:
    if isinstance(data, dict):
        for key, item in data.items():
            if not isinstance(key, str) or not key.isascii():
                raise ConfigError(f"keys must be ASCII text, got {key!r}", code="E_FORMAT")
            _only_plain(item)
    elif isinstance(data, list):
        for item in data:
            _only_plain(item)
    elif isinstance(data, int) and not isinstance(data, bool):
        if abs(data) >= 2**53:  # beyond this, readers of JSON disagree on the value
            raise ConfigError(f"integers must be below 2^53, got {data}", code="E_FORMAT")
    elif not isinstance(data, str | bool | None):
        raise ConfigError(f"a {type(data).__name__} cannot stand in canonical JSON", code="E_FORMAT")


def no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Hook of json.loads: a key that occurs twice is refused, as RFC 8785 asks."""
    data = dict(pairs)
    if len(data) != len(pairs):
        raise ConfigError("a key occurs twice", code="E_FORMAT")
    return data
