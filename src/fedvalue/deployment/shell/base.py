"""What all shell messages share."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta

Name: TypeAlias = Annotated[str, Meta(min_length=1, max_length=64)]
Size: TypeAlias = Annotated[int, Meta(ge=1, le=2**32)]
Signature: TypeAlias = Annotated[bytes, Meta(min_length=64, max_length=64)]
Key32: TypeAlias = Annotated[bytes, Meta(min_length=32, max_length=32)]


class ShellMessage(msgspec.Struct, frozen=True, tag=True, array_like=True, forbid_unknown_fields=True):
    """Base of all of them."""
