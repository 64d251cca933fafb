"""Identities and cards on disk. Private files must be readable by their owner only.

identity/
    card.json    public: give it to the other participants
    sign.key     Ed25519, 0600
    tls.key      ECDSA P-256, 0600
peers/
    NAME.json    cards of the others, pinned after comparing fingerprints; during a rotation the new card lies
                 beside the old one, under any name
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from fedvalue.errors import ConfigError
from fedvalue.identity.cards import Card, Identity, load_identity
from fedvalue.identity.tls_certificates import validity
from fedvalue.storage.durable_files import PUBLIC, write_durably

CARD, SIGN, TLS = "card.json", "sign.key", "tls.key"


def save_identity(identity: Identity, folder: Path) -> None:
    """Write a new identity, whole or not at all. An existing one is never overwritten.

    Raises:
        ConfigError: There is one already.
        EngineError: E_STORAGE.
    """
    there = [name for name in (CARD, SIGN, TLS) if (folder / name).exists()]
    if there and CARD not in there:
        raise ConfigError(
            f"{folder} holds private keys without {CARD}: put it back, or rename the folder and run the "
            "command again",
            code="E_IDENTITY",
        )
    if there:
        raise ConfigError(f"{folder} already holds an identity; it is never overwritten", code="E_IDENTITY")
    try:
        write_durably(folder / SIGN, identity.signing_pem())
        write_durably(folder / TLS, identity.tls_key)
        write_card(identity.card, folder / CARD)
    except BaseException:
        for name in (SIGN, TLS, CARD):  # a full disk: the same command must succeed later
            (folder / name).unlink(missing_ok=True)
        raise


def read_identity(folder: Path) -> Identity:
    """The identity in a folder.

    Raises:
        ConfigError: E_IDENTITY: a file is missing, readable by others, or not this identity's.
    """
    return load_identity(read_card(folder / CARD), read_private(folder / SIGN), read_private(folder / TLS))


def write_card(card: Card, path: Path) -> None:
    """Write a card; it is public."""
    write_durably(path, card.to_json(), mode=PUBLIC)


def read_card(path: Path) -> Card:
    """One card.

    Raises:
        ConfigError: E_IDENTITY.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}", code="E_IDENTITY") from None
    try:
        return Card.from_json(content)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}", code="E_IDENTITY") from None


def read_cards(folder: Path) -> dict[str, Card]:
    """All pinned cards: the newest of each participant by its name, an older one by name and key.

    Old and new keys of a participant count side by side until the operator removes the old file.

    Raises:
        ConfigError: No such folder, an unreadable card, or two files with one card.
    """
    if not folder.is_dir():
        raise ConfigError(f"no folder of identity cards at {folder}", code="E_IDENTITY")
    cards: list[Card] = []
    for path in sorted(folder.glob("*.json")):
        card = read_card(path)
        if card in cards:
            raise ConfigError(f"{path}: this card of {card.name!r} is pinned twice", code="E_IDENTITY")
        cards.append(card)
    by_name: dict[str, Card] = {}
    for card in sorted(cards, key=lambda card: validity(card.certificate), reverse=True):
        by_name[f"{card.name}@{card.spki.hex()[:8]}" if card.name in by_name else card.name] = card
    return by_name


def read_pinned(folder: Path, own: Card) -> dict[str, Card]:
    """All pinned cards as in `read_cards`, and our own."""
    return read_cards(folder) | {own.name: own}


def read_private(path: Path) -> bytes:
    """A secret file. One that others may read is refused, as ssh does.

    Raises:
        ConfigError: E_IDENTITY: missing, another user's, or its permissions are too wide.
    """
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            if status.st_uid != os.geteuid():
                raise ConfigError(
                    f"{path} belongs to user {status.st_uid}; a private key must belong to the user who runs "
                    "this command",
                    code="E_IDENTITY",
                )
            mode = stat.S_IMODE(status.st_mode)
            if mode & 0o077:
                raise ConfigError(
                    f"{path} has permissions {mode:04o}; a private key must be readable by its owner only "
                    f"(chmod 600 {path})",
                    code="E_IDENTITY",
                )
            return file.read()
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}", code="E_IDENTITY") from None
