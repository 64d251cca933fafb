"""Messages that processes exchange around a protocol run: who is ready, and why a run ended.

They travel in the same mailboxes as the roles' envelopes and are told apart by their first bytes.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta

from fedvalue.deployment.shell import align_messages as align
from fedvalue.deployment.shell.base import Name, ShellMessage, Signature, Size
from fedvalue.deployment.shell.endorsement import SealedEndorsement
from fedvalue.errors import RemoteProtocolError, VerificationError
from fedvalue.identity.cards import Identity, verify

MAGIC = b"FS\x01"


class Ready(ShellMessage, frozen=True):
    """A party has read its table and is about to begin.

    Args:
        party: Who.
        rows: Its number of samples in the run.
        brought: Its number of samples before the tables were reduced to the common ids.
        sizes: Sizes of its code ranges: (X_t, Y) of the task party, one of a data party.
        commitment: Salted digest of its input: the party can show later that it used this data.
        signature: Over all of this and the run.
    """

    party: Name
    rows: Annotated[int, Meta(ge=1, le=2**40)]
    brought: Annotated[int, Meta(ge=1, le=2**40)]
    sizes: Annotated[tuple[Size, ...], Meta(min_length=1, max_length=2)]
    commitment: Annotated[bytes, Meta(min_length=32, max_length=32)]
    signature: Signature

    def content(self, run_id: bytes) -> bytes:
        """What is signed."""
        return run_id + msgspec.msgpack.encode(
            (self.party, self.rows, self.brought, self.sizes, self.commitment)
        )


class ReadyRoster(ShellMessage, frozen=True):
    """Every party's Ready, as a server relays them. Both servers must relay the same."""

    readies: Annotated[tuple[Ready, ...], Meta(max_length=1024)]


class Notice(ShellMessage, frozen=True):
    """The run is over at this server, and why: a code, words, and the participants that were missing."""

    code: Annotated[str, Meta(min_length=1, max_length=40, pattern=r"^E_[A-Z_]+\Z")]
    reason: Annotated[str, Meta(max_length=2000)]
    kind: Annotated[str, Meta(max_length=40)]
    missing: Annotated[tuple[Name, ...], Meta(max_length=1024)] = ()


AnyShell: TypeAlias = (
    Ready
    | ReadyRoster
    | Notice
    | SealedEndorsement
    | align.AlignKey
    | align.AlignRoster
    | align.AlignSecrets
    | align.AlignSecret
    | align.AlignTokens
    | align.AlignMask
)
FROM_PARTIES = (Ready, SealedEndorsement, align.AlignKey, align.AlignSecrets, align.AlignTokens)
"""What a party may send to a server; the rest is for servers only."""

_decoder: msgspec.msgpack.Decoder[AnyShell] = msgspec.msgpack.Decoder(AnyShell)


def encode(message: ShellMessage) -> bytes:
    """A message as bytes."""
    return MAGIC + msgspec.msgpack.encode(message)


def is_shell(body: bytes | memoryview) -> bool:
    """Whether these bytes are one of ours rather than a role's envelope."""
    return body[: len(MAGIC)] == MAGIC


def decode(body: bytes | memoryview) -> AnyShell:
    """The message in `body`.

    Raises:
        RemoteProtocolError: E_MALFORMED.
    """
    try:
        return _decoder.decode(memoryview(body)[len(MAGIC) :])
    except (msgspec.MsgspecError, ValueError, RecursionError, OverflowError) as error:
        raise RemoteProtocolError(f"malformed message: {type(error).__name__}", code="E_MALFORMED") from None


def make_ready(
    identity: Identity,
    run_id: bytes,
    *,
    rows: int,
    sizes: tuple[int, ...],
    commitment: bytes,
    brought: int | None = None,
) -> Ready:
    """A signed Ready; `brought` is `rows` where nothing was reduced."""
    draft = Ready(
        identity.card.name, rows, rows if brought is None else brought, sizes, commitment, bytes(64)
    )
    signature = identity.sign("ready", draft.content(run_id))
    return msgspec.structs.replace(draft, signature=signature)


def check_ready(ready: Ready, run_id: bytes, *, sign_key: bytes, name: str) -> None:
    """Raises VerificationError E_SIGNATURE when `name` did not sign this."""
    if ready.party != name:
        raise VerificationError(f"a Ready of {ready.party!r} came from {name!r}", code="E_SENDER")
    verify(sign_key, "ready", ready.content(run_id), ready.signature, who=name)
