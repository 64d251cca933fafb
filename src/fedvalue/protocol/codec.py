"""Envelopes to bytes and back. The only decoder of bytes from outside.

Layout: the three bytes `FV` and version, then MessagePack. Sizes are checked before decoding and in
the types, nesting is bounded by the types: whatever the bytes are, the outcome is an Envelope or a
RemoteProtocolError, and memory stays within a small multiple of the input.
"""

from __future__ import annotations

import struct
from typing import TypeVar

import msgspec

from fedvalue._version import PROTOCOL_VERSION as VERSION
from fedvalue.errors import LocalProtocolError, RemoteProtocolError
from fedvalue.protocol.messages import BulkMessage, Envelope, StoredChunk

MAGIC = b"FV"
MAX_MESSAGE_BYTES = 9 * 1024 * 1024
"""Two 4 MiB payloads (tokens and authenticators) and their frame."""

_HEAD = MAGIC + bytes([VERSION])
_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Envelope)

T = TypeVar("T")


def encode(envelope: Envelope) -> bytes:
    """Encode an envelope; a stored chunk is read now.

    Raises:
        LocalProtocolError: It is larger than any receiver accepts.
    """
    return b"".join(encode_parts(envelope))


def encode_parts(envelope: Envelope) -> tuple[bytes | memoryview, ...]:
    """The encoded envelope as consecutive parts; large fields are parts of their own and not copied."""
    message = envelope.message
    if isinstance(message, StoredChunk):
        message = message.whole()
    parts: list[bytes | memoryview] = [_HEAD]
    if isinstance(message, BulkMessage):
        bare = msgspec.structs.replace(message, **dict.fromkeys(message.large, b""))
        encoded = _encoder.encode(msgspec.structs.replace(envelope, message=bare))
        parts.append(without_tail(encoded, len(message.large)))
        for field in message.large:
            data = memoryview(getattr(message, field))
            parts += [header(len(data)), data]
    else:
        parts.append(_encoder.encode(envelope))
    size = sum(map(len, parts))
    if size > MAX_MESSAGE_BYTES:
        raise LocalProtocolError(
            f"message of {size} bytes exceeds the limit of {MAX_MESSAGE_BYTES}", code="E_SIZE"
        )
    return tuple(parts)


def decode(data: bytes | bytearray | memoryview) -> Envelope:
    """Decode an envelope.

    Raises:
        RemoteProtocolError: Too long (E_SIZE), another version (E_VERSION), or not an envelope
            (E_MALFORMED).
    """
    if len(data) > MAX_MESSAGE_BYTES:
        raise RemoteProtocolError(
            f"message of {len(data)} bytes exceeds the limit of {MAX_MESSAGE_BYTES}", code="E_SIZE"
        )
    view = memoryview(data)
    if len(view) < len(_HEAD) or view[:2] != MAGIC:
        raise RemoteProtocolError("not a FedValue message", code="E_MALFORMED")
    if view[2] != VERSION:
        raise RemoteProtocolError(
            f"message of version {view[2]}, this side speaks {VERSION}", code="E_VERSION"
        )
    return decode_as(_decoder, view[len(_HEAD) :], what="a message")


def decode_as(decoder: msgspec.msgpack.Decoder[T], data: bytes | memoryview, *, what: str) -> T:
    """MessagePack from outside, such as the content of a message.

    Raises:
        RemoteProtocolError: Not what the decoder expects (E_MALFORMED).
    """
    try:
        return decoder.decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError, OverflowError) as error:
        # The decoder's text names a field and a type, never the content.
        raise RemoteProtocolError(
            f"{what} is malformed: {type(error).__name__}", code="E_MALFORMED"
        ) from error


_EMPTY = b"\xc4\x00"
"""MessagePack's bin 8 of length 0."""


def without_tail(encoded: bytes, n_fields: int) -> bytes:
    """A message without its last `n_fields` fields, which are empty bytes."""
    tail = n_fields * _EMPTY
    assert encoded.endswith(tail)
    return encoded[: len(encoded) - len(tail)]


def header(size: int) -> bytes:
    """MessagePack's header of `size` bytes."""
    if size < 1 << 8:
        return struct.pack(">BB", 0xC4, size)
    if size < 1 << 16:
        return struct.pack(">BH", 0xC5, size)
    return struct.pack(">BI", 0xC6, size)
