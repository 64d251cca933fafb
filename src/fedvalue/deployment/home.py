"""The folder in which an invited participant keeps everything. Nobody edits its files by hand.

home/
    identity/               keys and card; one identity per home
    peers/                  cards of the others, pinned by the agreements
    state/                  the journal of runs, or a server's database
    accept.toml             optional: the weakest terms that the participant accepts
    agreements/ID/          one folder per invitation
        invitation.txt      as received, 0600: it holds a secret
        progress.json       our seat and our part of the exchange, 0600
        manifest.json       the agreement, once everybody has signed
"""

from __future__ import annotations

import datetime as dt
import secrets
import tomllib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from msgspec.structs import replace

from fedvalue import documents
from fedvalue.agreement.manifest import SignedManifest
from fedvalue.agreement.manifest_files import read_manifest, write_manifest
from fedvalue.agreement.manifest_rules import Terms
from fedvalue.documents import Document
from fedvalue.errors import ConfigError, VerificationError
from fedvalue.identity.cards import Card, Identity, create_identity
from fedvalue.identity.identity_files import read_card, read_identity, save_identity, write_card
from fedvalue.identity.tls_certificates import validity
from fedvalue.invitation.exchange import Exchange
from fedvalue.invitation.invitation import MAX_TEXT, Invitation
from fedvalue.storage.durable_files import write_durably

_PROGRESS = "fedvalue.progress/1"


class Progress(Document, frozen=True, kw_only=True, tag_field="schema", tag=_PROGRESS):
    """Our part of an exchange, which must be the same at every start.

    Args:
        seat: Our name.
        accepted: Time of the acceptance.
        contribution: Our random contribution, secret until it is shown.
        fixed: Digest of the acceptances for which it was shown.
    """

    seat: str
    accepted: dt.datetime
    contribution: bytes
    fixed: bytes | None = None

    def __repr__(self) -> str:
        return f"Progress(seat={self.seat!r})"


@dataclass(frozen=True)
class Agreement:
    """One accepted invitation and its agreement."""

    folder: Path

    @cached_property
    def invitation(self) -> Invitation:
        """The invitation.

        Raises:
            ConfigError: E_INVITATION.
        """
        return read_invitation(self.folder / "invitation.txt")

    @property
    def progress(self) -> Progress:
        """Our stored part of the exchange."""
        return documents.read(Progress, self.folder / "progress.json", schema=_PROGRESS, error=ConfigError)

    @property
    def id(self) -> str:
        """The first digits of the invitation's id."""
        return self.folder.name

    def keep(self, progress: Progress) -> None:
        """Store the progress before it is shown to anybody."""
        write_durably(self.folder / "progress.json", documents.encode(progress))

    def exchange(self, identity: Identity) -> Exchange:
        """Our view of the exchange, from the stored progress."""
        progress = self.progress
        return Exchange(self.invitation, identity, progress.contribution, progress.fixed)

    def fix(self, digest: bytes) -> None:
        """Store the digest of the acceptances before our contribution to them leaves."""
        if self.progress.fixed != digest:
            self.keep(replace(self.progress, fixed=digest))

    @property
    def manifest(self) -> Path:
        """Where the signed agreement is kept."""
        return self.folder / "manifest.json"

    @property
    def signed(self) -> SignedManifest | None:
        """The agreement; None while signatures are missing."""
        return read_manifest(self.manifest) if self.manifest.exists() else None

    def complete(self, signed: SignedManifest) -> None:
        """Store the agreement that everybody has signed."""
        write_manifest(self.manifest, signed)


@dataclass(frozen=True, slots=True)
class Home:
    """A participant's folder."""

    folder: Path

    @property
    def identity(self) -> Path:
        """Folder of the identity."""
        return self.folder / "identity"

    @property
    def peers(self) -> Path:
        """Folder of the pinned cards."""
        return self.folder / "peers"

    @property
    def state(self) -> Path:
        """Folder of the runs."""
        return self.folder / "state"

    @property
    def consortium(self) -> str | None:
        """The group of the identity; None if there is no identity yet."""
        path = self.identity / "card.json"
        return read_card(path).consortium if path.exists() else None

    def own_identity(self, consortium: str, role: str, name: str) -> Identity:
        """The identity of this home, created if there is none.

        Raises:
            ConfigError: E_IDENTITY: the home belongs to somebody else, or the certificate has expired.
        """
        if not (self.identity / "card.json").exists():
            save_identity(create_identity(consortium, role, name), self.identity)
        identity = read_identity(self.identity)
        card = identity.card
        if (card.consortium, card.role, card.name) != (consortium, role, name):
            raise ConfigError(
                f"{self.identity} is the identity of {card.name!r} ({card.role}) in consortium "
                f"{card.consortium!r}, not of {name!r} ({role}) in {consortium!r}; choose another folder "
                "with --home",
                code="E_IDENTITY",
            )
        _, end = validity(card.certificate)
        if end <= dt.datetime.now(dt.UTC):
            raise ConfigError(
                f"the certificate in {self.identity} expired at {end:%Y-%m-%d %H:%M} UTC; make a new "
                "identity (rename the folder, then run the command again)",
                code="E_IDENTITY",
            )
        return identity

    def policy(self) -> Terms:
        """The weakest terms that the participant accepts: `accept.toml`, or the default.

        Raises:
            ConfigError: The file is malformed.
        """
        path = self.folder / "accept.toml"
        if not path.exists():
            return Terms()
        try:
            return documents.convert(Terms, tomllib.loads(path.read_text("utf-8")), error=ConfigError)
        except (ConfigError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ConfigError(f"{path}: {error}") from None

    def agreements(self) -> list[Agreement]:
        """All accepted invitations, the newest first."""
        paths = self.folder.glob("agreements/*/progress.json")
        accepted = [Agreement(path.parent) for path in paths]
        return sorted(accepted, key=lambda each: (each.progress.accepted, each.id), reverse=True)

    def agreement(self, start: str | None = None) -> Agreement:
        """The newest accepted invitation, of those whose id begins with `start`.

        Raises:
            ConfigError: E_INVITATION: there is none.
        """
        for agreement in self.agreements():
            if agreement.id.startswith((start or "").lower()):
                return agreement
        which = "no invitation" if start is None else f"no invitation {start!r}"
        raise ConfigError(
            f"{which} was accepted in {self.folder}: run `fedvalue accept INVITATION` first, or name another "
            "folder with --home or a configuration file with --config",
            code="E_INVITATION",
        )

    def seat_in(self, invitation: Invitation) -> str | None:
        """The name under which an invitation was accepted here; None if it was not."""
        agreement = self._agreement(invitation)
        return agreement.progress.seat if (agreement.folder / "progress.json").exists() else None

    def _agreement(self, invitation: Invitation) -> Agreement:
        return Agreement(self.folder / "agreements" / invitation.id.hex()[:12])

    def accept(self, invitation: Invitation, seat: str) -> Agreement:
        """Keep an accepted invitation; keeping it again has no effect.

        Raises:
            VerificationError: E_INVITATION: it was accepted here under another name.
        """
        agreement, before = self._agreement(invitation), self.seat_in(invitation)
        if before is not None:
            if before != seat:
                raise VerificationError(
                    f"this invitation was accepted here as {before!r}", code="E_INVITATION"
                )
            return agreement
        write_durably(agreement.folder / "invitation.txt", invitation.to_text().encode())
        now = dt.datetime.now(dt.UTC).replace(microsecond=0)
        agreement.keep(Progress(seat=seat, accepted=now, contribution=secrets.token_bytes(32)))
        return agreement

    def pin(self, cards: dict[str, Card]) -> None:
        """Pin the cards of an agreement, our own included: certificates are checked with this folder.

        Raises:
            VerificationError: E_IDENTITY: a different card of that name is pinned.
        """
        for name, card in cards.items():
            path = self.peers / f"{name}.json"
            if not path.exists():
                write_card(card, path)
            elif read_card(path) != card:
                raise VerificationError(
                    f"{path} is another card of {name!r} than the one in this agreement; if {name!r} has new "
                    "keys and confirms it by phone, delete the file and run the command again",
                    code="E_IDENTITY",
                )


def read_invitation(path: Path) -> Invitation:
    """Read an invitation.

    Raises:
        ConfigError: E_INVITATION.
        VerificationError: E_INVITATION: it was altered.
    """
    try:
        with path.open("rb") as file:
            text = file.read(MAX_TEXT).decode("utf-8", "replace")
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}", code="E_INVITATION") from None
    return Invitation.from_text(text)
