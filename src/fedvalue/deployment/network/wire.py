"""The frames inside gRPC calls, and errors that keep their class and code.

Every frame starts with the version of this wire format. Lengths are bounded in the types, so a decoder
refuses before it allocates anything large.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias, TypeVar

import msgspec
from msgspec import Meta

from fedvalue import errors
from fedvalue.errors import FedValueError, RemoteProtocolError
from fedvalue.protocol.codec import header, without_tail
from fedvalue.untrusted_text import printable

VERSION = 1
SERVICE = "fedvalue.v1.Relay"
MAX_CALL_BYTES = 8 << 20
"""Largest message on the wire; gRPC refuses a larger one while reading."""
MAX_BODY_BYTES = MAX_CALL_BYTES - 4096
MAX_WAIT_MS = 20_000
"""Longest long poll: shorter than the idle time-outs of usual firewalls."""
MAIL_BYTES = 4 << 20
"""A reply holds about this much; the rest comes with the next poll."""
MAX_MAIL = 64
"""Messages in one reply."""
MAX_NOTE = 1 << 16
"""Largest message in a lobby."""
_SMALL_ARRAY, _SMALL_INTEGER = 0x90, 0x7F
"""msgpack: first byte of an array of up to 15 items, and the largest integer in one byte."""

RunIdBytes: TypeAlias = Annotated[bytes, Meta(min_length=32, max_length=32)]
Body: TypeAlias = Annotated[bytes, Meta(max_length=MAX_BODY_BYTES)]
View: TypeAlias = Annotated[memoryview, Meta(max_length=MAX_BODY_BYTES)]
"""A body that is not copied: uploads are large, and a server gets those of all parties."""
Index: TypeAlias = Annotated[int, Meta(ge=0, lt=2**32)]
Moment: TypeAlias = Annotated[float, Meta(ge=0, le=2.0**35)]
"""Seconds since 1970, as far as a calendar goes: a peer could send infinity, or what is no number."""
Short: TypeAlias = Annotated[str, Meta(max_length=4000)]


class Frame(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Base of all requests and replies."""

    version: int


class Submit(Frame, frozen=True):
    """A signed manifest that authorises a run, and the caller's clock; repeating it has no effect."""

    manifest: Annotated[bytes, Meta(max_length=1 << 20)]
    time: Moment = 0.0


class Post(Frame, frozen=True):
    """Message number `index` from the caller to this server in a run."""

    run_id: RunIdBytes
    index: Index
    body: View


class Poll(Frame, frozen=True):
    """Ask for mail from number `after` on, and wait for it if there is none.

    Args:
        run_id: The run.
        after: Number of messages that the caller has.
        wait_ms: How long the server may wait for mail.
        patience: Until when, in seconds since 1970, the caller agrees to wait for participants that have not
            come; 0: no longer than the manifest's deadline.
    """

    run_id: RunIdBytes
    after: Index
    wait_ms: Annotated[int, Meta(ge=0, le=MAX_WAIT_MS)]
    patience: Moment = 0.0


class Status(Frame, frozen=True):
    """Ask where a run stands."""

    run_id: RunIdBytes


class Health(Frame, frozen=True):
    """Liveness check."""


class Leave(Frame, frozen=True):
    """Leave a sealed message in the lobby of an invitation; repeating it has no effect.

    Args:
        run_id: Id of the invitation. Named like a run's, so that calls are counted in the same way.
        seat: The participant who answers.
        kind: Which of its answers.
        body: Sealed.
    """

    run_id: RunIdBytes
    seat: Short
    kind: Short
    body: Annotated[bytes, Meta(max_length=MAX_NOTE)]


class Look(Frame, frozen=True):
    """Ask for the messages in the lobby of an invitation, from number `after` on."""

    run_id: RunIdBytes
    after: Index


class SignedHead(msgspec.Struct, frozen=True, array_like=True):
    """The signed head of the server's audit log of this run; the caller keeps it as a receipt."""

    actor: Short
    seq: Index
    head: Annotated[bytes, Meta(max_length=32)]
    signature: Annotated[bytes, Meta(max_length=64)]


class Standing(Frame, frozen=True):
    """Where a run stands, for this caller.

    Args:
        state: open, running, done, failed.
        next: Number of the caller's messages that are stored here.
        mail: Number of messages for the caller.
        code: Why the run failed.
        reason: The same in words; before it has ended, whom it waits for.
        head: Receipt.
        stage: open, keying, uploading, agreeing, done or failed.
        deadline: When the stage ends at the latest, in seconds since 1970; 0 when the run is over.
        awaited: Participants whose messages the server waits for; `Status` and a poll without mail fill
            it in.
        n_bytes: Size of the caller's messages that are stored here.
        time: The server's clock, in seconds since 1970.
    """

    state: Short
    next: Index
    mail: Index
    code: Short = ""
    reason: Short = ""
    head: SignedHead | None = None
    stage: Short = ""
    deadline: Moment = 0.0
    awaited: Annotated[tuple[Short, ...], Meta(max_length=2000)] = ()
    n_bytes: Annotated[int, Meta(ge=0)] = 0
    time: Moment = 0.0


class Mail(Frame, frozen=True):
    """Messages for the caller, numbered from `after` of the request on."""

    bodies: Annotated[tuple[Body, ...], Meta(max_length=MAX_MAIL)]
    standing: Standing

    def __repr__(self) -> str:
        return f"Mail({len(self.bodies)} messages, {sum(map(len, self.bodies)):,} bytes)"


class Note(msgspec.Struct, frozen=True, array_like=True):
    """A sealed message in a lobby."""

    seat: Short
    kind: Short
    body: Annotated[bytes, Meta(max_length=MAX_NOTE)]


class Notes(Frame, frozen=True):
    """Messages in a lobby, numbered from `after` of the request on; at most `MAX_MAIL` at once."""

    notes: Annotated[tuple[Note, ...], Meta(max_length=MAX_MAIL)]


class Alive(Frame, frozen=True):
    """The server is alive.

    Args:
        name: Its name.
        software: Its release.
        protocol: Version of its protocol.
        values: Version of its values.
        time: Its clock, in seconds since 1970.
        trouble: What keeps it from working: its disk, its clock, its certificate. No paths.
    """

    name: Short
    software: Short
    protocol: int
    values: int
    time: Moment = 0.0
    trouble: Annotated[tuple[Short, ...], Meta(max_length=20)] = ()


F = TypeVar("F", bound=Frame)
_encoder = msgspec.msgpack.Encoder()
# Created at import, by one thread: msgspec looks up a type's fields on first use, and crashes if a second
# thread meets the type meanwhile.
_decoders: dict[type[Frame], msgspec.msgpack.Decoder[Any]] = {
    kind: msgspec.msgpack.Decoder(kind)
    for kind in (Submit, Post, Poll, Status, Health, Leave, Look, Standing, Mail, Notes, Alive)
}


def encode(frame: Frame) -> bytes:
    """A frame as bytes."""
    return _encoder.encode(frame)


def encode_post(run_id: bytes, index: int, *body: bytes | memoryview) -> bytes:
    """A `Post` as bytes, with its body in parts: large data is copied once, here."""
    frame = _encoder.encode(Post(VERSION, run_id, index, memoryview(b"")))
    return b"".join([without_tail(frame, 1), header(sum(map(len, body))), *body])


def decode(data: bytes, kind: type[F]) -> F:
    """The frame in `data`.

    Raises:
        RemoteProtocolError: E_VERSION or E_MALFORMED.
    """
    # A frame is a msgpack array of at most 15 items, and every version has the version, below 128, first.
    # Both are single bytes: nothing else is decoded or allocated.
    if len(data) < 2 or data[0] & 0xF0 != _SMALL_ARRAY or data[1] > _SMALL_INTEGER:
        raise RemoteProtocolError("malformed frame: no version", code="E_MALFORMED")
    if data[1] != VERSION:
        raise RemoteProtocolError(
            f"the peer speaks wire version {data[1]}, this side {VERSION}", code="E_VERSION"
        )
    try:
        frame: F = _decoders[kind].decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError, OverflowError) as error:
        raise RemoteProtocolError(f"malformed frame: {type(error).__name__}", code="E_MALFORMED") from None
    return frame


_KINDS = {
    kind.__name__: kind
    for kind in (
        errors.InputError, errors.ConfigError, errors.EngineError, errors.TransportError,
        errors.VerificationError, errors.LocalProtocolError, errors.RemoteProtocolError,
    )
}  # fmt: skip


def error_text(error: FedValueError) -> str:
    """An error as the details of a gRPC status: class, code, message."""
    return f"{type(error).__name__}|{error.code}|{error}"[:4000]


def error_from(text: str) -> FedValueError | None:
    """The error that `error_text` wrote, or None when the text is gRPC's own."""
    kind, _, rest = text.partition("|")
    code, found, message = rest.partition("|")
    if kind not in _KINDS or not found or not code.startswith("E_"):
        return None
    return _KINDS[kind](printable(message), code=printable(code))
