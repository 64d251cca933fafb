"""Messages of the alignment that comes before a run with `align = "intersect"`."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from fedvalue.deployment.shell.base import Key32, Name, ShellMessage, Signature
from fedvalue.protocol.messages import bulk_digest

TOKEN_BYTES = 16
CHUNK_BYTES = 4 << 20


class AlignKey(ShellMessage, frozen=True):
    """A party's X25519 key for the alignment, signed with its long-term key."""

    party: Name
    public_key: Key32
    signature: Signature


class AlignRoster(ShellMessage, frozen=True):
    """All alignment keys, as the computation server relays them."""

    keys: Annotated[tuple[AlignKey, ...], Meta(max_length=1024)]


class AlignSecrets(ShellMessage, frozen=True):
    """The common secret for every data party, sealed by the task party."""

    wrapped: Annotated[dict[Name, Annotated[bytes, Meta(max_length=256)]], Meta(max_length=1024)]


class AlignSecret(ShellMessage, frozen=True):
    """The common secret for one data party, as relayed."""

    wrapped: Annotated[bytes, Meta(max_length=256)]


class AlignTokens(ShellMessage, frozen=True):
    """Part of a party's encrypted ids for one server: 16-byte tokens in rising order.

    All parties have the key of the tokens. The salt is the sender's secret, as in the protocol's
    `SaltedMessage`: what servers log of this message confirms no guess at ids that others do not have.
    """

    index: Annotated[int, Meta(ge=0, lt=2**20)]
    total: Annotated[int, Meta(ge=1, le=2**20)]
    digest: Annotated[bytes, Meta(min_length=32, max_length=32)]
    salt: Annotated[bytes, Meta(min_length=16, max_length=16)]
    data: Annotated[bytes, Meta(max_length=CHUNK_BYTES)]

    @property
    def intact(self) -> bool:
        """Whether the content fits the digest."""
        return self.digest == bulk_digest(self.index, self.total, self.salt, self.data)


class AlignMask(ShellMessage, frozen=True):
    """Which of the receiver's tokens all parties have: one bit per token, in rising order."""

    index: Annotated[int, Meta(ge=0, lt=2**20)]
    total: Annotated[int, Meta(ge=1, le=2**20)]
    bits: Annotated[bytes, Meta(max_length=CHUNK_BYTES)]
