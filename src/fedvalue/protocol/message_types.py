"""The building blocks of all messages: bounded field types, and the base classes.

Lengths are bounded here, in the types, so that a decoder refuses before anything is allocated.
A message has a `slot`: within one run a sender may fill each slot once. The same message again is harmless (a
resend); different content in the same slot ends the run with E_CONFLICT, because two different uploads under
one mask would show label differences.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from hashlib import sha256
from typing import Annotated, Any, ClassVar, Generic, Self, TypeAlias, TypeVar

import msgspec
from msgspec import Meta

from fedvalue.errors import RemoteProtocolError
from fedvalue.protocol.settings import CHUNK_BYTES, MAX_FEATURES, MAX_NAME, MAX_PARTIES

Name: TypeAlias = Annotated[str, Meta(min_length=1, max_length=MAX_NAME)]
Digest: TypeAlias = Annotated[bytes, Meta(min_length=32, max_length=32)]
Key32: TypeAlias = Annotated[bytes, Meta(min_length=32, max_length=32)]
Key16: TypeAlias = Annotated[bytes, Meta(min_length=16, max_length=16)]
QueryId: TypeAlias = Annotated[bytes, Meta(min_length=16, max_length=16)]
Signature: TypeAlias = Annotated[bytes, Meta(min_length=64, max_length=64)]
Bulk: TypeAlias = Annotated[bytes, Meta(max_length=CHUNK_BYTES)]
Rows: TypeAlias = Annotated[memoryview, Meta(max_length=CHUNK_BYTES)]
"""A view of the received message, not a copy: rows are most of what a server receives."""
Coalition: TypeAlias = Annotated[tuple[Name, ...], Meta(min_length=2, max_length=MAX_PARTIES + 1)]
Index: TypeAlias = Annotated[int, Meta(ge=0, lt=2**32)]
Count: TypeAlias = Annotated[int, Meta(ge=0, le=2**48)]
Size: TypeAlias = Annotated[int, Meta(ge=1, le=2**32)]
Sizes: TypeAlias = Annotated[tuple[Size, ...], Meta(max_length=MAX_FEATURES)]
"""Sizes of the code ranges of some features."""
ErrorCode: TypeAlias = Annotated[str, Meta(min_length=1, max_length=40, pattern=r"^E_[A-Z_]+\Z")]


class Message(msgspec.Struct, frozen=True, tag=True, array_like=True, forbid_unknown_fields=True):
    """Base of all messages."""

    place: ClassVar[tuple[str, ...]] = ()
    """The fields that distinguish the slots of this kind."""

    @property
    def slot(self) -> tuple[object, ...]:
        """The place in a run that this message fills; a sender fills each slot once."""
        return (type(self).__name__, *(getattr(self, field) for field in self.place))

    @property
    def fingerprint(self) -> bytes:
        """Digest of the content; tells a resend from a changed message."""
        return sha256(msgspec.msgpack.encode(self)).digest()


class SecretMessage(Message, frozen=True):
    """A message that carries keys: it never prints them."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(...)"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return []


class BulkMessage(Message, frozen=True):
    """Part `index` of `total` of something large, under a digest of its own. Its content is never printed."""

    place: ClassVar[tuple[str, ...]] = ("index",)
    large: ClassVar[tuple[str, ...]] = ("data",)
    """The last fields: bytes that are not copied when the message is encoded."""
    index: Index
    total: Index
    digest: Digest

    def __repr__(self) -> str:
        return f"{type(self).__name__}(index={self.index}, total={self.total}, ...)"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("index", self.index), ("total", self.total)]

    @property
    def fingerprint(self) -> bytes:
        """The digest: it covers all fields."""
        return self.digest

    def parts(self) -> tuple[bytes | memoryview, ...]:
        """Everything that the digest covers besides `index` and `total`."""
        raise NotImplementedError

    def with_digest(self) -> Self:
        """The same message under the digest of its content."""
        digest = bulk_digest(self.index, self.total, *self.parts())
        return msgspec.structs.replace(self, digest=digest)

    @property
    def intact(self) -> bool:
        """Whether the content matches the digest."""
        return self.digest == bulk_digest(self.index, self.total, *self.parts())


def bulk_digest(index: int, total: int, *parts: bytes | memoryview) -> bytes:
    """SHA-256 over a chunk's place and its parts, each with its length in front."""
    state = sha256(struct.pack("<II", index, total))
    for part in parts:
        state.update(struct.pack("<Q", len(part)))
        state.update(part)
    return state.digest()


def n_parts(n_bytes: int, size: int) -> int:
    """Number of parts of at most `size` bytes."""
    return -(-n_bytes // size)


Data = TypeVar("Data", bytes, memoryview)


def cut(data: Data, size: int) -> Iterator[tuple[int, int, Data]]:
    """(index, total, bytes) of consecutive parts of at most `size` bytes; nothing where there are no data."""
    total = n_parts(len(data), size)
    for index in range(total):
        yield index, total, data[index * size : (index + 1) * size]


Part = TypeVar("Part", bound=BulkMessage)


class OrderedParts(Generic[Part]):
    """Consecutive bulk messages of one sender.

    Args:
        name: What they carry, for errors.
        most: Parts that they can have. Receivers look at all parts with each new one, so their number is not
            the sender's choice.
    """

    def __init__(self, name: str, most: int) -> None:
        self._name = name
        self._most = most
        self._total: int | None = None
        self._n_added = 0
        self.messages: list[Part] = []
        """The parts so far. The owner may clear them to free memory."""

    def add(self, part: Part) -> None:
        """Keep the next part.

        Raises:
            RemoteProtocolError: Out of order, one too many, or cut into too many (E_DECLARED).
        """
        if part.total > self._most:
            raise RemoteProtocolError(
                f"{self._name}: {part.total} parts, expected at most {self._most}", code="E_DECLARED"
            )
        total = part.total if self._total is None else self._total
        if part.total != total or part.index != self._n_added or part.index >= total:
            raise RemoteProtocolError(f"{self._name}: a part is out of order", code="E_DECLARED")
        self._total = total
        self._n_added += 1
        self.messages.append(part)

    @property
    def complete(self) -> bool:
        """Whether the last part is here."""
        return self._n_added == self._total


class SaltedMessage(BulkMessage, frozen=True):
    """Bulk data for a server.

    Digests of such messages are in the servers' audit logs, whose signed heads every party gets, and parties
    know the keys of ids and tokens and most masks. The salt is the sender's secret: it keeps a digest from
    confirming a guess at the rows.
    """

    salt: Key16


class MaskedRows(SaltedMessage, frozen=True):
    """Rows that a receiver cannot read on its own, in one field."""

    data: Rows

    def parts(self) -> tuple[bytes | memoryview, ...]:
        """Salt and rows."""
        return (self.salt, self.data)
