"""Every message of the three protocols, and the envelope that carries one.

Messages are plain frozen data. A message has a `slot`: within one run a sender may fill each slot
once. The same message again is harmless (a resend); another content in the same slot ends the run
with E_CONFLICT, because two different uploads under one mask would show label differences.

Lengths are bounded here, in the types, so that a decoder refuses before anything is allocated.

| phase | message | from | to |
| --- | --- | --- | --- |
| keys | EphemeralKey | party | computation server |
| keys | KeyRoster | computation server | party |
| keys | WrappedKeys, WrappedKey | task party | computation server, then data party |
| keys | Confirm, ConfirmRoster | party | computation server, then party |
| mirror | Declaration, ShareKeys, Chunk | party | both servers |
| paper | QueryKey | task party | validation server |
| paper, single | TokenChunk | party | computation server |
| paper | IntersectionChunk | computation server | validation server |
| paper, single | QueryCount | server | party |
| noise | NoiseCommit, NoiseOpening | computation server | validation server |
| noise | NoiseSeed | validation server | computation server |
| results | ResultChunk, ResultSeal | server | party |
| results | Agree, AgreeRoster | party | computation server, then party |
| any | Abort | anyone | anyone |
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from hashlib import sha256
from typing import Annotated, Any, ClassVar, TypeAlias

import msgspec
from msgspec import Meta

from fedvalue.protocol.settings import CHUNK_BYTES, MAX_NAME, MAX_PARTIES

Name: TypeAlias = Annotated[str, Meta(min_length=1, max_length=MAX_NAME)]
Digest: TypeAlias = Annotated[bytes, Meta(min_length=32, max_length=32)]
Key32: TypeAlias = Annotated[bytes, Meta(min_length=32, max_length=32)]
Key16: TypeAlias = Annotated[bytes, Meta(min_length=16, max_length=16)]
QueryId: TypeAlias = Annotated[bytes, Meta(min_length=16, max_length=16)]
Signature: TypeAlias = Annotated[bytes, Meta(min_length=64, max_length=64)]
Bulk: TypeAlias = Annotated[bytes, Meta(max_length=CHUNK_BYTES)]
Rows: TypeAlias = Annotated[memoryview, Meta(max_length=CHUNK_BYTES)]
"""Not copied out of the message that brought them: they are most of what a server ever gets."""
Coalition: TypeAlias = Annotated[tuple[Name, ...], Meta(min_length=2, max_length=MAX_PARTIES + 1)]
Index: TypeAlias = Annotated[int, Meta(ge=0, lt=2**32)]
Count: TypeAlias = Annotated[int, Meta(ge=0, le=2**48)]
Point: TypeAlias = Annotated[int, Meta(ge=-(2**48), le=2**48)]


class Message(msgspec.Struct, frozen=True, tag=True, array_like=True, forbid_unknown_fields=True):
    """Base of all messages."""

    place: ClassVar[tuple[str, ...]] = ()
    """The fields that tell one slot of this kind from another."""

    @property
    def slot(self) -> tuple[object, ...]:
        """What of a run this message fills; a sender fills each slot once."""
        return (type(self).__name__, *(getattr(self, field) for field in self.place))

    @property
    def fingerprint(self) -> bytes:
        """Digest of the content: the same for a resend, another for a changed message."""
        return sha256(msgspec.msgpack.encode(self)).digest()


class SecretMessage(Message, frozen=True):
    """A message that carries keys: it never prints them."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(...)"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return []


class BulkMessage(Message, frozen=True):
    """Part `index` of `total` of something large, under a digest of its own."""

    large: ClassVar[tuple[str, ...]] = ()
    """The last fields, bytes that are not copied when the message is encoded."""
    index: Index
    total: Index
    digest: Digest

    @property
    def fingerprint(self) -> bytes:
        """The digest: it covers all fields."""
        return self.digest

    def parts(self) -> tuple[bytes | memoryview, ...]:
        """Everything that the digest covers besides `index` and `total`."""
        raise NotImplementedError

    @property
    def intact(self) -> bool:
        """Whether the content fits the digest."""
        return self.digest == bulk_digest(self.index, self.total, *self.parts())


def bulk_digest(index: int, total: int, *parts: bytes | memoryview) -> bytes:
    """SHA-256 over a chunk's place and its parts, each with its length in front."""
    state = sha256(struct.pack("<II", index, total))
    for part in parts:
        state.update(struct.pack("<Q", len(part)))
        state.update(part)
    return state.digest()


class SaltedMessage(BulkMessage, frozen=True):
    """Bulk data that goes to a server.

    Digests of such messages stand in the servers' audit logs, whose signed heads every party gets, and
    parties know the keys of ids and tokens and most masks. The salt is its sender's secret: with it a
    digest tells nobody whether a guess at the rows is right.
    """

    salt: Key16

    def __repr__(self) -> str:
        return f"{type(self).__name__}(index={self.index}, total={self.total}, ...)"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("index", self.index), ("total", self.total)]


class EphemeralKey(Message, frozen=True):
    """A party's X25519 key of this run, signed with its long-term Ed25519 key over (run, party)."""

    party: Name
    public_key: Key32
    signature: Signature


class KeyRoster(Message, frozen=True):
    """All ephemeral keys, as the computation server relays them. The signatures are the parties'."""

    keys: Annotated[tuple[EphemeralKey, ...], Meta(max_length=MAX_PARTIES + 1)]


class WrappedKeys(SecretMessage, frozen=True):
    """K_run for every data party, each sealed under the pairwise key with the task party."""

    wrapped: Annotated[dict[Name, Annotated[bytes, Meta(max_length=256)]], Meta(max_length=MAX_PARTIES)]


class WrappedKey(SecretMessage, frozen=True):
    """K_run for one data party, as relayed."""

    wrapped: Annotated[bytes, Meta(max_length=256)]


class Confirm(Message, frozen=True):
    """A party holds K_run, saw this transcript of keys, and has this population of ids."""

    party: Name
    population: Digest
    mac: Digest


class ConfirmRoster(Message, frozen=True):
    """All confirmations, as relayed."""

    confirms: Annotated[tuple[Confirm, ...], Meta(max_length=MAX_PARTIES + 1)]


class Declaration(SecretMessage, frozen=True):
    """What a party is about to upload to this server under `mirror`.

    `digest` is the digest of all chunk digests in order: it fixes the whole upload before the first
    byte, so that a rebuilt upload can never differ under the same masks. `radices` are the sizes of
    the coordinates in the run's secret order; all parties must declare the same. `lanes` counts the words
    of a row, its authenticator among them. `code_keys` are the keys of the code authenticators, 16 bytes
    per coordinate under zero-sum masks: only the sum over all parties shows them, and not whose they are.
    """

    rows: Count
    lanes: Annotated[int, Meta(ge=1, le=MAX_PARTIES + 3)]
    n_chunks: Index
    digest: Digest
    radices: Annotated[tuple[Annotated[int, Meta(ge=1, le=2**32)], ...], Meta(max_length=MAX_PARTIES + 2)]
    code_keys: Annotated[bytes, Meta(max_length=16 * (MAX_PARTIES + 2))]


class ShareKeys(SecretMessage, frozen=True):
    """One key per secret coordinate, and one for the task party.

    The server seals each coordinate's share of the result under its key. It cannot tell which party
    a coordinate belongs to; a data party can open its own share only.
    """

    task: Key32
    shares: Annotated[tuple[Key32, ...], Meta(max_length=MAX_PARTIES)]


class Chunk(SaltedMessage, frozen=True):
    """Rows of a masked upload: little-endian uint64, lane after lane per row."""

    place: ClassVar[tuple[str, ...]] = ("index",)
    large: ClassVar[tuple[str, ...]] = ("data",)
    data: Rows

    def parts(self) -> tuple[bytes | memoryview, ...]:
        """Salt and rows."""
        return (self.salt, self.data)


class StoredChunk(Chunk, frozen=True):
    """Index, total, digest and salt of a chunk, and how to get its bytes; `data` is empty.

    The encoder makes a `Chunk` of it. It has no form of its own on the wire: a function cannot be
    encoded, and no decoder knows its name.
    """

    read: Callable[[], memoryview]

    def whole(self) -> Chunk:
        """The chunk with its bytes."""
        return Chunk(self.index, self.total, self.digest, self.salt, self.read())


class QueryKey(SecretMessage, frozen=True):
    """What the validation server needs for one query: the outer token key, K_V of H2, whom to answer."""

    place: ClassVar[tuple[str, ...]] = ("query",)
    query: QueryId
    coalition: Coalition
    outer: Key16
    authenticator: Key16


class TokenChunk(SaltedMessage, frozen=True):
    """Part of a party's encrypted id set for one query: 16-byte tokens in rising order.

    `authenticators` holds 8 bytes per token under H2 and is empty otherwise. `coalition` names the
    parties of the query, the task party first; all of them must name the same.
    """

    place: ClassVar[tuple[str, ...]] = ("query", "index")
    large: ClassVar[tuple[str, ...]] = ("tokens", "authenticators")
    query: QueryId
    coalition: Coalition
    tokens: Rows
    authenticators: Rows

    def parts(self) -> tuple[bytes | memoryview, ...]:
        """Salt, query, tokens, authenticators and coalition."""
        names = (name.encode() for name in self.coalition)
        return (self.salt, self.query, self.tokens, self.authenticators, *names)


class IntersectionChunk(SaltedMessage, frozen=True):
    """Step 2.1: part of the intersection of one query, with the sums of the authenticators."""

    place: ClassVar[tuple[str, ...]] = ("query", "index")
    large: ClassVar[tuple[str, ...]] = ("tokens", "authenticators")
    query: QueryId
    tokens: Rows
    authenticators: Rows

    def parts(self) -> tuple[bytes | memoryview, ...]:
        """Salt, query, tokens and authenticators."""
        return (self.salt, self.query, self.tokens, self.authenticators)


class QueryCount(Message, frozen=True):
    """Steps 2.2 and 3: n_c from the computation server, n_v from the validation server.

    The validation server answers -1 when the tokens do not form complete groups, and -2 when an
    authenticator is wrong. `sizes` are the numbers of tokens in the members' sets, in the order of the
    coalition: from the computation server under H3, empty otherwise.
    """

    place: ClassVar[tuple[str, ...]] = ("query",)
    query: QueryId
    count: Annotated[int, Meta(ge=-2, le=2**48)]
    sizes: Annotated[tuple[Count, ...], Meta(max_length=MAX_PARTIES + 1)] = ()


class NoiseCommit(Message, frozen=True):
    """The computation server's contribution to the noise, hashed: from here on it cannot change."""

    commitment: Digest


class NoiseSeed(SecretMessage, frozen=True):
    """The validation server's contribution to the noise."""

    seed: Key32


class NoiseOpening(SecretMessage, frozen=True):
    """The computation server's contribution, and its exact values rounded to the grid, by column."""

    seed: Key32
    points: Annotated[tuple[Point, ...], Meta(max_length=MAX_PARTIES)]


class ResultChunk(BulkMessage, frozen=True):
    """Part of a server's result bytes (`mirror`)."""

    place: ClassVar[tuple[str, ...]] = ("index",)
    large: ClassVar[tuple[str, ...]] = ("data",)
    data: Bulk

    def parts(self) -> tuple[bytes, ...]:
        """The bytes."""
        return (self.data,)


class ResultSeal(Message, frozen=True):
    """A server's signature on its whole result: over (run, server, digest). Nothing counts without it."""

    run_id: Digest
    digest: Digest
    signature: Signature


class Agree(Message, frozen=True):
    """A party saw and accepted these results: per peer, a digest of what both must have seen."""

    party: Name
    digests: Annotated[dict[Name, Digest], Meta(max_length=MAX_PARTIES + 1)]
    mac: Digest


class AgreeRoster(Message, frozen=True):
    """All agreements, as relayed. A party releases its result after it has checked them."""

    agrees: Annotated[tuple[Agree, ...], Meta(max_length=MAX_PARTIES + 1)]


class Abort(Message, frozen=True):
    """The sender's run has failed with this code, for want of who is missing; nothing will be released."""

    code: Annotated[str, Meta(min_length=1, max_length=40, pattern=r"^E_[A-Z_]+\Z")]
    missing: Annotated[tuple[Name, ...], Meta(max_length=MAX_PARTIES + 3)] = ()


AnyMessage: TypeAlias = (
    EphemeralKey
    | KeyRoster
    | WrappedKeys
    | WrappedKey
    | Confirm
    | ConfirmRoster
    | Declaration
    | ShareKeys
    | Chunk
    | QueryKey
    | TokenChunk
    | IntersectionChunk
    | QueryCount
    | NoiseCommit
    | NoiseSeed
    | NoiseOpening
    | ResultChunk
    | ResultSeal
    | Agree
    | AgreeRoster
    | Abort
)


class Envelope(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A message on its way.

    `sender` is what the sender says. A transport that crosses a network must compare it with the
    authenticated identity of the peer before it hands the envelope to a role.
    """

    run_id: Digest
    sender: Name
    recipient: Name
    message: AnyMessage
