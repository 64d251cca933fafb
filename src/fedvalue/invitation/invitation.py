"""The invitation: the task party's proposal, and the key to the lobby where the answers are collected.

- It holds the terms of the manifest without the cards that are still missing, a seat per participant, and
  the card of the task party, which signs it.
- Its secret opens the lobby: both servers show the certificate of the lobby, and callers must hold its key.
  All invited participants know the secret, the operators of the servers too; the words detect its abuse
  (`words`).
- It travels as text between two marker lines, in a mail or as a file.
"""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import re
import zlib
from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any

import msgspec
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from msgspec import Meta
from msgspec.structs import replace

from fedvalue import documents
from fedvalue.agreement.manifest import SCHEMA as MANIFEST_SCHEMA
from fedvalue.agreement.manifest import Manifest, Participant
from fedvalue.agreement.manifest_rules import check_form, check_time, check_version
from fedvalue.crypto import keys
from fedvalue.documents import Document
from fedvalue.errors import ConfigError, VerificationError
from fedvalue.identity.cards import Card, Identity, create_identity, verify
from fedvalue.identity.tls_certificates import (
    SERVER_ROLES,
    check_tls_certificate,
    key_digest,
    private_pem,
    self_signed,
    spki_sha256,
)
from fedvalue.protocol.settings import MAX_PARTIES

SCHEMA = "fedvalue.invitation/1"
MAX_TEXT = 1 << 19
"""Largest text. An invitation to the most seats has about 5 kB."""
MAX_BYTES = 1 << 20
_BEGIN, _END = "-----BEGIN FEDVALUE INVITATION-----", "-----END FEDVALUE INVITATION-----"
_SIGN = "invitation"
_OPEN_TERMS = ("participants", "nonce", "run")
"""Parts of a manifest that are known only when everybody has accepted."""


class Seat(Document, frozen=True, kw_only=True):
    """A participant's place: name, role and, for a server, host:port."""

    name: str
    role: str
    endpoint: str = ""


class Invitation(Document, frozen=True, kw_only=True, dict=True, tag_field="schema", tag=SCHEMA):
    """The task party's message to all participants, the input of `accept`. Secret, like a key.

    Args:
        terms: The manifest without participants and nonce.
        seats: All participants, the task party among them.
        card: The task party's.
        lobby: TLS certificate of the lobby, DER.
        secret: 32 random bytes that only invited participants may know.
        signature: The task party's signature over all other fields.
    """

    terms: dict[str, Any]
    seats: Annotated[tuple[Seat, ...], Meta(max_length=MAX_PARTIES + 1 + len(SERVER_ROLES))]
    card: Card
    lobby: bytes
    secret: bytes
    signature: bytes = b""

    def __repr__(self) -> str:
        return f"Invitation(id={self.id.hex()[:12]!r})"

    @cached_property
    def id(self) -> bytes:
        """SHA-256 of everything but the signature."""
        return hashlib.sha256(self._content()).digest()

    @property
    def consortium(self) -> str:
        """The group that the terms name."""
        return self.card.consortium

    @cached_property
    def proposal(self) -> Manifest:
        """The manifest as far as it is known: stand-ins take the seats of everybody but the task party.

        For reading the terms, never for signing: it has other keys and another nonce than the agreement.

        Raises:
            ConfigError: E_MANIFEST: a term makes no sense.
        """
        cards = {
            seat.name: create_identity(self.consortium, seat.role, seat.name).card for seat in self.seats
        }
        return self.manifest(cards | {self.card.name: self.card}, bytes(16))

    def manifest(self, cards: Mapping[str, Card], nonce: bytes) -> Manifest:
        """The agreement of these participants.

        Raises:
            ConfigError: E_MANIFEST: the terms make no sense.
        """
        participants = tuple(Participant.from_card(cards[seat.name], seat.endpoint) for seat in self.seats)
        data = {**self.terms, **msgspec.to_builtins({"participants": participants, "nonce": nonce, "run": 1})}
        try:
            return documents.convert(Manifest, data, error=ConfigError)
        except ConfigError as error:
            raise ConfigError(f"the terms of the invitation: {error}", code="E_MANIFEST") from None

    def seat(self, name: str) -> Seat:
        """The seat of that name.

        Raises:
            ConfigError: E_INVITATION: nobody of that name is invited.
        """
        for seat in self.seats:
            if seat.name == name:
                return seat
        raise ConfigError(
            f"the invitation has no seat {name!r}; its seats are "
            f"{', '.join(seat.name for seat in self.seats)}",
            code="E_INVITATION",
        )

    @property
    def servers(self) -> tuple[Seat, ...]:
        """The servers, in whose lobbies the answers are collected."""
        return tuple(seat for seat in self.seats if seat.role in SERVER_ROLES)

    @property
    def guests(self) -> tuple[Seat, ...]:
        """The participants that have to accept: all except the task party."""
        return tuple(seat for seat in self.seats if seat.role != "task")

    @cached_property
    def lobby_identity(self) -> Identity:
        """Key and certificate of the lobby. Both ends of a connection to it use them."""
        signing = _derive(self.secret, "lobby sign", 32)  # an identity has one; nothing is signed with it
        return Identity(
            card=Card(
                consortium=self.consortium,
                role="compute",
                name=lobby_name(self.secret),
                sign_key=keys.signing_public(signing),
                certificate=self.lobby,
            ),
            signing=Ed25519PrivateKey.from_private_bytes(signing),
            tls_key=private_pem(_lobby_key(self.secret)),
        )

    @property
    def sealing_key(self) -> bytes:
        """64 bytes for AES-SIV."""
        return _derive(self.secret, "seal", 64)

    def check_now(self, now: dt.datetime) -> None:
        """Check that this software can accept the invitation now.

        Raises:
            VerificationError: E_INVITATION: it has expired.
            ConfigError: E_VERSION.
        """
        try:
            check_time(self.proposal, now)
        except VerificationError as error:
            raise VerificationError(
                f"the invitation has {error}; ask {self.card.name!r} for a new one", code="E_INVITATION"
            ) from None
        check_version(self.proposal)

    def to_text(self) -> str:
        """The text that travels."""
        packed = base64.b64encode(zlib.compress(documents.canonical(self), 9)).decode()
        lines = [packed[k : k + 76] for k in range(0, len(packed), 76)]
        return "\n".join([_BEGIN, *lines, _END, ""])

    @classmethod
    def from_text(cls, text: str) -> Invitation:
        """Read an invitation and check that it is whole and the task party's.

        Raises:
            ConfigError: E_INVITATION: not an invitation, or terms that make no sense.
                E_VERSION: another release wrote it in another form.
            VerificationError: E_INVITATION: it was altered.
        """
        body = re.search(f"{_BEGIN}(.*?){_END}", text[:MAX_TEXT], re.DOTALL)
        if body is None:
            raise _bad(f"no line {_BEGIN!r} with its end was found; copy the whole text")
        try:
            packed = base64.b64decode("".join(body[1].split()), validate=True)
            inflate = zlib.decompressobj()
            content = inflate.decompress(packed, MAX_BYTES)
        except (ValueError, zlib.error):  # ValueError: binascii's error, or letters that are not ASCII
            raise _bad("the text is damaged; copy it again, whole") from None
        if not inflate.eof:
            raise _bad("the text is too long or cut off")
        try:
            data = documents.parse(content, error=ConfigError)
            if isinstance(data, dict):
                check_form(data.get("schema"), SCHEMA)
            invitation = documents.convert(cls, data, schema=SCHEMA, error=ConfigError)
            check_form(invitation.terms.get("schema"), MANIFEST_SCHEMA)
            invitation._check()
        except ConfigError as error:
            raise error if error.code == "E_VERSION" else _bad(str(error)) from None
        return invitation

    def _check(self) -> None:
        """The signature, the lobby's certificate and key, and terms that make sense."""
        task = [seat for seat in self.seats if seat.role == "task"]
        if [seat.name for seat in task] != [self.card.name] or self.card.role != "task":
            raise _bad("the card in it is not the task party's")
        check_tls_certificate(self.card.certificate, self.consortium, "task", self.card.name)
        try:
            verify(self.card.sign_key, _SIGN, self._content(), self.signature, who=self.card.name)
        except VerificationError:
            raise VerificationError(
                f"the invitation was altered: the signature of {self.card.name!r} is not valid; ask for it "
                "again",
                code="E_INVITATION",
            ) from None
        key = _lobby_key(self.secret).public_key()
        if len(self.secret) != 32 or spki_sha256(self.lobby) != key_digest(key):
            raise _bad("its key does not match its lobby")
        check_tls_certificate(self.lobby, self.consortium, "compute", lobby_name(self.secret))
        if self.terms.keys() & set(_OPEN_TERMS) or self.proposal.consortium != self.consortium:
            raise _bad("its terms are not those of one consortium")

    def _content(self) -> bytes:
        return documents.canonical(replace(self, signature=b""))


def make_invitation(identity: Identity, proposal: Manifest, secret: bytes) -> Invitation:
    """The task party's invitation to the participants of a proposal, whose other keys are ignored.

    `secret` is 32 random bytes.
    """
    moment = proposal.created
    certificate = self_signed(
        _lobby_key(secret),
        proposal.consortium,
        "compute",
        lobby_name(secret),
        moment,
        proposal.expires - moment,
    )
    terms = msgspec.to_builtins(proposal)
    invitation = Invitation(
        terms={key: value for key, value in terms.items() if key not in _OPEN_TERMS},
        seats=tuple(Seat(name=p.name, role=p.role, endpoint=p.endpoint) for p in proposal.participants),
        card=identity.card,
        lobby=certificate.public_bytes(serialization.Encoding.DER),
        secret=secret,
    )
    return replace(invitation, signature=identity.sign(_SIGN, invitation._content()))


def lobby_name(secret: bytes) -> str:
    """The name in the certificate of a lobby."""
    return f"lobby--{hashlib.sha256(b'fedvalue/1/lobby' + secret).hexdigest()[:16]}"


def _lobby_key(secret: bytes) -> ec.EllipticCurvePrivateKey:
    # 48 bytes modulo the order of the curve: the bias is below 2^-128.
    order = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
    number = int.from_bytes(_derive(secret, "lobby tls", 48), "big") % (order - 1) + 1
    return ec.derive_private_key(number, ec.SECP256R1())


def _derive(secret: bytes, purpose: str, length: int) -> bytes:
    return keys.hkdf(secret, salt=b"", info=keys.info(f"invitation/{purpose}"), length=length)


def _bad(problem: str) -> ConfigError:
    return ConfigError(f"not an invitation that can be used: {problem}", code="E_INVITATION")
