"""Every message of the protocols, and the envelope that carries one.

Messages are plain frozen data; those of `gram` are in `gram_messages`, bounds and base classes in
`message_types`.

| phase | message | from | to |
| --- | --- | --- | --- |
| keys | EphemeralKey | party | computation server |
| keys | KeyRoster | computation server | party |
| keys | WrappedKeys, WrappedKey | task party | computation server, then data party |
| alignment | AlignTokens | party | both servers |
| alignment | AlignMask | server | party |
| readiness | Ready, ReadyRoster | party | both servers, then party |
| readiness | Confirm, ConfirmRoster | party | computation server, then party |
| mirror | Declaration, ShareKeys, CodebookChunk, Chunk | party | both servers |
| counts | SealedCodebook | party | computation server, then party |
| paper | QueryKey | task party | validation server |
| paper, single | TokenChunk | party | computation server |
| paper | IntersectionChunk | computation server | validation server |
| paper, single | QueryCount | server | party |
| mirror | ResultCommit, ResultOpening | server | the other server |
| noise | NoiseCommit, NoiseOpening | computation server | validation server |
| noise | NoiseSeed | validation server | computation server |
| gram | GramDeclaration, Chunk, GramReveal | party | its servers |
| gram | GramPledge, GramCoin, GramCheck, GramTest | server | both other servers |
| gram | GramSigns | server | the server before it |
| gram | GramCommitment | server | party |
| results | ResultChunk, ResultSeal | server | party |
| results | Agree, AgreeRoster | party | computation server, then party |
| any | Abort | anyone | anyone |
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from typing import Annotated, ClassVar, TypeAlias

import msgspec
from msgspec import Meta

from fedvalue.protocol.gram_messages import (
    GramCheck,
    GramCoin,
    GramCommitment,
    GramDeclaration,
    GramPledge,
    GramReveal,
    GramSigned,
    GramSigns,
    GramTest,
)
from fedvalue.protocol.message_types import (
    Bulk,
    BulkMessage,
    Coalition,
    Count,
    Digest,
    ErrorCode,
    Index,
    Key16,
    Key32,
    MaskedRows,
    Message,
    Name,
    OrderedParts,
    QueryId,
    Rows,
    SaltedMessage,
    SecretMessage,
    Signature,
    Size,
    Sizes,
    bulk_digest,
    cut,
    n_parts,
)
from fedvalue.protocol.settings import MAX_PARTIES

MAX_REASON = 2000
"""Characters of a reason."""

__all__ = [
    "BulkMessage", "GramCheck", "GramCoin", "GramCommitment", "GramDeclaration", "GramPledge", "GramReveal",
    "GramSigned", "GramSigns", "GramTest", "Message", "OrderedParts", "SaltedMessage", "SecretMessage",
    "bulk_digest", "cut", "n_parts",
]  # fmt: skip


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


class AlignTokens(MaskedRows, frozen=True):
    """Part of a party's encrypted ids for one server: 16-byte tokens in rising order.

    All parties have the key of the tokens, but the salt is the sender's alone: the digests in the servers'
    logs confirm no guess at ids that others do not have.
    """


class AlignMask(BulkMessage, frozen=True):
    """Which of the receiver's tokens all parties have: one bit per token, in rising order."""

    large: ClassVar[tuple[str, ...]] = ("bits",)
    bits: Bulk

    def parts(self) -> tuple[bytes, ...]:
        """The bits."""
        return (self.bits,)


class CodeRanges(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Sizes of the code ranges of a party's columns.

    Args:
        sizes: Sizes of its code ranges: (X_t, Y) of the task party, one of a data party.
        features: With columns `features`, the sizes of the code ranges of its features.
        salt: The party's secret: it keeps the digest from confirming a guess at the sizes.
    """

    sizes: Annotated[tuple[Size, ...], Meta(min_length=1, max_length=2)]
    features: Sizes
    salt: Key16

    @property
    def digest(self) -> bytes:
        """The digest that the party signs."""
        return sha256(b"fedvalue/1/ranges" + msgspec.msgpack.encode(self)).digest()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(sizes={self.sizes}, features={self.features}, ...)"

    def __rich_repr__(self) -> list[tuple[str, object]]:
        return [("sizes", self.sizes), ("features", self.features)]


class Ready(Message, frozen=True):
    """A party has read its table, reduced it to the common ids if that was agreed, and states its sizes.

    Args:
        party: The party.
        rows: Its number of samples in the run.
        brought: Its number of samples before the tables were reduced to the common ids.
        ranges: Its code ranges; under `mirror` sealed for the parties, which open them on receipt.
        ranges_digest: Their digest.
        commitment: Salted digest of its input: the party can show later that it used this data.
        signature: Over the run and all of this; the ranges by their digest.
    """

    party: Name
    rows: Annotated[int, Meta(ge=1, le=2**40)]
    brought: Annotated[int, Meta(ge=1, le=2**40)]
    ranges: CodeRanges | Annotated[bytes, Meta(max_length=2**15)]
    ranges_digest: Digest
    commitment: Digest
    signature: Signature

    def signed(self) -> bytes:
        """The signed content besides the run."""
        return msgspec.msgpack.encode(
            (self.party, self.rows, self.brought, self.ranges_digest, self.commitment)
        )


class ReadyRoster(Message, frozen=True):
    """Every party's Ready, as a server relays them. Both servers must relay the same."""

    readies: Annotated[tuple[Ready, ...], Meta(max_length=MAX_PARTIES + 1)]


class Confirm(Message, frozen=True):
    """A party holds K_run, saw this transcript of keys, and has this population of ids."""

    party: Name
    population: Digest
    mac: Digest


class ConfirmRoster(Message, frozen=True):
    """All confirmations, as relayed."""

    confirms: Annotated[tuple[Confirm, ...], Meta(max_length=MAX_PARTIES + 1)]


class UploadRoot(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A party's signature on both of its uploads, which proves it if a party uploads two different tables.

    Args:
        digests: Digests of its declarations, in the order of the servers.
        signature: Over (run, party, digests).
    """

    digests: Annotated[tuple[Digest, ...], Meta(min_length=2, max_length=2)]
    signature: Signature


class Declaration(SecretMessage, frozen=True):
    """A party's announcement of its upload to this server under `mirror`.

    `digest` is the digest of all chunk digests in order: it fixes the whole upload before the first byte, so
    that a rebuilt upload can never differ under the same masks. `radices` are the sizes of the coordinates in
    the run's secret order; all parties must declare the same. `row_bytes` is the size of a row without the
    tags of the chunks. `features` are the sizes of every coordinate's features, and `books` is the digest of
    all parts of the codebooks, where there are any. `code_keys` are the keys of the code authenticators, 16
    bytes per coordinate under zero-sum masks: only the sum over all parties shows them, but not their owners.
    `root` binds this upload to the one for the other server.
    """

    rows: Count
    row_bytes: Annotated[int, Meta(ge=1, le=4 * (MAX_PARTIES + 2))]
    n_chunks: Index
    digest: Digest
    radices: Annotated[tuple[Size, ...], Meta(max_length=MAX_PARTIES + 2)]
    features: Annotated[tuple[Sizes, ...], Meta(max_length=MAX_PARTIES + 2)]
    books: Digest
    code_keys: Annotated[bytes, Meta(max_length=16 * (MAX_PARTIES + 2))]
    root: UploadRoot

    def declared(self) -> bytes:
        """Digest of everything but the root."""
        return msgspec.structs.replace(self, root=NO_ROOT).fingerprint


NO_ROOT = UploadRoot((bytes(32), bytes(32)), bytes(64))


class ShareKeys(SecretMessage, frozen=True):
    """One key per secret coordinate, and one for the task party.

    The server seals each coordinate's share of the result under its key. It cannot tell which party owns a
    coordinate; a data party can open only its own share.
    """

    task: Key32
    shares: Annotated[tuple[Key32, ...], Meta(max_length=MAX_PARTIES)]


class Chunk(MaskedRows, frozen=True):
    """Part of a masked upload. `mirror`: rows, lane after lane, each little-endian, and 8 bytes of tag."""


class StoredChunk(Chunk, frozen=True):
    """A chunk whose bytes `read` returns; `data` is empty.

    The encoder makes a `Chunk` of it. It has no form on the wire: a function cannot be encoded, and no
    decoder knows this name.
    """

    read: Callable[[], memoryview]

    def whole(self) -> Chunk:
        """The chunk with its bytes."""
        return Chunk(self.index, self.total, self.digest, self.salt, self.read())


class CodebookChunk(MaskedRows, frozen=True):
    """Part of the masked codebooks of all coordinates (`mirror`, see `mirror.codebooks`)."""


class SealedCodebook(BulkMessage, frozen=True):
    """Part of a party's sealed codebook for the parties that hold the counts; relayed unchanged."""

    place: ClassVar[tuple[str, ...]] = ("party", "index")
    party: Name
    data: Bulk

    def parts(self) -> tuple[bytes, ...]:
        """Party and bytes."""
        return (self.party.encode(), self.data)


class QueryKey(SecretMessage, frozen=True):
    """The validation server's keys for one query (outer token key, K_V of H2), and the parties to answer."""

    place: ClassVar[tuple[str, ...]] = ("query",)
    query: QueryId
    coalition: Coalition
    outer: Key16
    authenticator: Key16


class TokenChunk(SaltedMessage, frozen=True):
    """Part of a party's encrypted id set for one query: 16-byte tokens in rising order.

    `authenticators` holds 8 bytes per token under H2 and is empty otherwise. `coalition` names the parties of
    the query, the task party first; all of them must name the same coalition.
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


class ResultCommit(Message, frozen=True):
    """A server's answer, hashed with a salt: from now on it cannot fit its answer to the other server's."""

    commitment: Digest


class ResultOpening(SecretMessage, frozen=True):
    """A server's opened commitment: its answer on the grid, and the roots of the uploads that it counted.

    Args:
        salt: Salt of the commitment.
        roots: Roots of all parties, in their order.
        answer: Encoded numbers (`settlement`).
        signature: The server's, over (run, server, commitment).
    """

    salt: Key16
    roots: Annotated[tuple[UploadRoot, ...], Meta(max_length=MAX_PARTIES + 1)]
    answer: Bulk
    signature: Signature


class NoiseCommit(Message, frozen=True):
    """The computation server's contribution to the noise, hashed: from now on it cannot change."""

    commitment: Digest


class NoiseSeed(SecretMessage, frozen=True):
    """The validation server's contribution to the noise."""

    seed: Key32


class NoiseOpening(SecretMessage, frozen=True):
    """The computation server's contribution, and a digest of the exact tables keyed by it."""

    seed: Key32
    tables: Digest


class ResultChunk(BulkMessage, frozen=True):
    """Part of a server's result bytes (`mirror`)."""

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
    """A party accepted these results: per peer, a digest of what both must have seen.

    Under `mirror` a data party adds its endorsement, sealed for the task party (`endorsement`).
    """

    party: Name
    digests: Annotated[dict[Name, Digest], Meta(max_length=MAX_PARTIES + 1)]
    endorsement: Annotated[bytes, Meta(max_length=128)]
    mac: Digest


class AgreeRoster(Message, frozen=True):
    """All agreements, as relayed. A party releases its result after it has checked them."""

    agrees: Annotated[tuple[Agree, ...], Meta(max_length=MAX_PARTIES + 1)]


class Abort(Message, frozen=True):
    """The sender's run has failed with this code; nothing will be released.

    Args:
        code: Error code.
        missing: Participants whose absence ended the run.
        reason: Explanation, from a server. Parties send none: it might reveal their data.
        kind: Name of the error's class at the sender.
    """

    code: ErrorCode
    missing: Annotated[tuple[Name, ...], Meta(max_length=MAX_PARTIES + 3)] = ()
    reason: Annotated[str, Meta(max_length=MAX_REASON)] = ""
    kind: Annotated[str, Meta(max_length=40)] = ""


AnyMessage: TypeAlias = (
    EphemeralKey | KeyRoster | WrappedKeys | WrappedKey
    | AlignTokens | AlignMask | Ready | ReadyRoster | Confirm | ConfirmRoster
    | Declaration | ShareKeys | CodebookChunk | SealedCodebook | Chunk
    | QueryKey | TokenChunk | IntersectionChunk | QueryCount
    | ResultCommit | ResultOpening | NoiseCommit | NoiseSeed | NoiseOpening
    | GramDeclaration | GramPledge | GramCoin | GramSigns | GramCheck | GramCommitment | GramReveal | GramTest
    | ResultChunk | ResultSeal | Agree | AgreeRoster | Abort
)  # fmt: skip


class Envelope(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A message with its addresses.

    `sender` is the sender's claim. A transport that crosses a network must compare it with the authenticated
    identity of the peer before it hands the envelope to a role.
    """

    run_id: Digest
    sender: Name
    recipient: Name
    message: AnyMessage


@dataclass(frozen=True, slots=True)
class Sender:
    """Addresses the messages of one participant in one run."""

    run_id: bytes
    name: str

    def to(self, recipient: str, message: AnyMessage) -> Envelope:
        """The message in its envelope."""
        return Envelope(self.run_id, self.name, recipient, message)
