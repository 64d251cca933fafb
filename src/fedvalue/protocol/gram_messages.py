"""The messages of `gram` only; `messages` lists their senders and receivers.

A party sends shares of its columns. Servers send each other nothing about rows but checks that add up to 0.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from fedvalue.protocol.message_types import (
    Bulk,
    Digest,
    Key32,
    MaskedRows,
    Message,
    Name,
    SecretMessage,
    Signature,
)
from fedvalue.protocol.settings import MAX_PARTIES


class GramDeclaration(SecretMessage, frozen=True):
    """A party's three components under `gram`: the signed digests of all, and those that this server holds.

    Args:
        digests: Digests of the three components, the same for every server.
        signature: Over run, party and digests.
        seeds: Seeds of the two components that this server holds; empty for the one in chunks.
        salt: Salt of the digest of the component in chunks, where this server holds it.
        rho: That component's part of the weights of the check columns.
    """

    digests: Annotated[tuple[Digest, ...], Meta(min_length=3, max_length=3)]
    signature: Signature
    seeds: Annotated[tuple[Annotated[bytes, Meta(max_length=32)], ...], Meta(min_length=2, max_length=2)]
    salt: Annotated[bytes, Meta(max_length=16)]
    rho: Bulk


class GramSigned(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """One party's signature on its components."""

    digests: Annotated[tuple[Digest, ...], Meta(min_length=3, max_length=3)]
    signature: Signature


class GramPledge(Message, frozen=True):
    """All parties' signatures, and commitments to a server's part of the coin and of a common seed."""

    signed: Annotated[dict[Name, GramSigned], Meta(max_length=MAX_PARTIES + 1)]
    coin: Digest
    pair: Digest


class GramCoin(SecretMessage, frozen=True):
    """A server's part of the coin, and of the seed that it shares with the receiver.

    Args:
        coin: The sender's part of the coin.
        pair: Its part of the seed.
        third: The commitment to the coin that the sender received from the third server. The receiver must
            have the same one: a server that shows the two others different coins makes them check rows with
            different weights, and reads codes from the difference.
    """

    coin: Key32
    pair: Key32
    third: Digest


class GramSigns(MaskedRows, frozen=True):
    """Part of the masked products of signs and check weights, for the noise of the sender's successor."""


class GramCheck(SecretMessage, frozen=True):
    """Whether every row has one code per feature: sums of what both components hold, a share of entries.

    Args:
        sums: Sums over the rows of each held component.
        entries: Masked share of the check of entries.
        coefficients: Seed by which the sender checks the `GramSigns` that it has received.
    """

    sums: Bulk
    entries: Bulk
    coefficients: Key32


class GramCommitment(Message, frozen=True):
    """A server's sums, hashed: from here on it cannot change them."""

    commitment: Digest


class GramReveal(Message, frozen=True):
    """The weights of a party's check columns, once all servers have committed to their sums."""

    rho: Bulk


class GramTest(SecretMessage, frozen=True):
    """Whether check columns are what their weights say.

    Args:
        values: Weighted sums of both held components.
        weights: Digest of the weights' components.
        signs: What the `GramSigns` about the sender's noise must combine to, empty without noise.
    """

    values: Bulk
    weights: Digest
    signs: Bulk
