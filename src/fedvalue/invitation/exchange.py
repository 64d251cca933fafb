"""The exchange that turns an invitation into a signed agreement, as one participant sees it. No I/O.

Everybody leaves messages in the lobby, in these steps:

1. Acceptance, by everybody except the task party: its card and a commitment to a random contribution.
2. Roster, by the task party when all have accepted: the digest of all acceptances, and its contribution.
3. Opening, by everybody else after this roster: its contribution.
4. Now all know the manifest: the invitation's terms, the cards, and a nonce that hashes all contributions.
   Its id gives the words.
5. Consent, by everybody: the signature, and a party's statement whether the words were compared.

Invariants:

- A contribution is shown only after everything else that enters the id is fixed, and for one roster only. So
  nobody, not even both servers together, can choose cards such that two participants with different cards
  see the same words, other than by luck (decision 0409).
- A message that was received stays: another one in its place is an error, never a replacement.
"""

from __future__ import annotations

import hmac
from typing import Any, Literal, TypeVar

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESSIV

from fedvalue import documents
from fedvalue.agreement.manifest import Comparison, Manifest, SignedManifest
from fedvalue.crypto import keys
from fedvalue.documents import Document
from fedvalue.errors import ConfigError, FedValueError, RemoteProtocolError, VerificationError
from fedvalue.identity.cards import Card, Identity, verify
from fedvalue.identity.tls_certificates import SERVER_ROLES, check_tls_certificate
from fedvalue.invitation.invitation import Invitation
from fedvalue.invitation.words import words_of

KINDS = ("acceptance", "roster", "opening", "consent")
_SIGN = "answer to an invitation"

D = TypeVar("D", bound=Document)


class Acceptance(Document, frozen=True, kw_only=True):
    """Step 1. `commitment` hashes card and contribution."""

    card: Card
    commitment: bytes


class Roster(Document, frozen=True, kw_only=True):
    """Step 2. `acceptances` is the digest of all of them, in the order of the seats."""

    acceptances: bytes
    contribution: bytes


class Opening(Document, frozen=True, kw_only=True):
    """Step 3. `acceptances` is the roster's, which the sender agrees with."""

    acceptances: bytes
    contribution: bytes


class Consent(Document, frozen=True, kw_only=True):
    """Step 5. `words` is None for a server: its operator's answer was the acceptance."""

    agreement: bytes
    signature: bytes
    words: Comparison | None = None


class Exchange:
    """One participant's view of the exchange.

    Args:
        invitation: Checked by the caller.
        identity: This participant's; its name is its seat.
        contribution: 32 random bytes, the same at every start.
        fixed: Digest of the acceptances for which the contribution was shown at an earlier start.

    Raises:
        ConfigError: E_INVITATION: the identity does not fit its seat.
    """

    def __init__(
        self, invitation: Invitation, identity: Identity, contribution: bytes, fixed: bytes | None = None
    ) -> None:
        card, seat = identity.card, invitation.seat(identity.card.name)
        if (card.consortium, card.role) != (invitation.consortium, seat.role):
            raise ConfigError(
                f"this identity is {card.uri}, the seat is for role {seat.role!r} of consortium "
                f"{invitation.consortium!r}",
                code="E_INVITATION",
            )
        self.invitation = invitation
        self._identity = identity
        self._contribution = contribution
        self._fixed = fixed
        self.name = card.name
        self._received: dict[tuple[str, str], bytes] = {}
        self._acceptances: dict[str, Acceptance] = {}
        self._roster: Roster | None = None
        self._openings: dict[str, Opening] = {}
        self._consents: dict[str, Consent] = {}
        self._manifest: Manifest | None = None
        self._consent: Consent | None = None

    # Incoming messages.

    def receive(self, seat: str, kind: str, body: bytes) -> None:
        """Take a message from the lobby. Repeating it has no effect.

        Raises:
            RemoteProtocolError: E_CONFLICT: another message in the place of a known one; E_MALFORMED.
            VerificationError: It is not its sender's, or contradicts an earlier message.
        """
        known = self._received.get((seat, kind))
        if known is not None:
            if known != body:
                raise RemoteProtocolError(
                    f"the lobby holds a second, different {kind} of {seat!r}", code="E_CONFLICT"
                )
            return
        content, signature = _unsealed(self.invitation, seat, kind, body)
        getattr(self, f"_take_{kind}")(seat, content, signature)
        self._received[seat, kind] = body

    def _take_acceptance(self, seat: str, content: bytes, signature: bytes) -> None:
        acceptance = _acceptance_of(self.invitation, seat, content, signature)
        if seat == self.name and acceptance != self._acceptance():
            raise VerificationError(
                f"someone else has accepted as {seat!r}; ask {self.invitation.card.name!r} for a new "
                "invitation, sent only to those who are invited",
                code="E_CONFLICT",
            )
        self._acceptances[seat] = acceptance

    def _take_roster(self, seat: str, content: bytes, signature: bytes) -> None:
        _check_signed(self.invitation, self.invitation.card, seat, "roster", content, signature)
        self._roster = _read(Roster, content, seat)

    def _take_opening(self, seat: str, content: bytes, signature: bytes) -> None:
        _check_signed(self.invitation, self._card(seat), seat, "opening", content, signature)
        opening = _read(Opening, content, seat)
        commitment = _commitment(self.invitation, self._card(seat), opening.contribution)
        if not hmac.compare_digest(commitment, self._acceptances[seat].commitment):
            raise VerificationError(
                f"{seat!r} revealed a different number than it committed to", code="E_EQUIVOCATION"
            )
        self._openings[seat] = opening

    def _take_consent(self, seat: str, content: bytes, signature: bytes) -> None:
        _check_signed(self.invitation, self._card(seat), seat, "consent", content, signature)
        self._consents[seat] = _read(Consent, content, seat)

    # Outgoing messages.

    def outgoing(self) -> dict[str, bytes]:
        """All messages of ours that may leave now, by kind. Equal at every start.

        The caller stores `fixed` before a roster or an opening leaves.

        Raises:
            VerificationError: E_EQUIVOCATION: the task party or the lobby shows another set of participants
                than everybody else saw, or than at an earlier start.
        """
        messages: dict[str, Document] = {}
        if self.name == self.invitation.card.name:
            if self.fixed is not None:
                messages["roster"] = Roster(acceptances=self.fixed, contribution=self._contribution)
        else:
            messages["acceptance"] = self._acceptance()
            if self.fixed is not None:
                messages["opening"] = Opening(acceptances=self.fixed, contribution=self._contribution)
        if self._consent is not None:
            messages["consent"] = self._consent
        return {kind: self._sealed(kind, message) for kind, message in messages.items()}

    @property
    def fixed(self) -> bytes | None:
        """Digest of the acceptances for which our contribution may be shown; None until then."""
        task = self.invitation.card.name
        if not self._complete(self._acceptances) or (self._roster is None and self.name != task):
            return self._fixed
        digest = self._acceptances_digest()
        seen = {digest, *([self._roster.acceptances] if self._roster else ()), self._fixed or digest}
        if seen != {digest}:
            raise VerificationError(
                f"{task!r} and this participant were shown different cards, or this participant was shown "
                "two sets of them: someone may be altering messages; talk to the operators and start again "
                "with a new invitation",
                code="E_EQUIVOCATION",
            )
        self._fixed = digest
        return digest

    def consent(self, *, compared: bool | None) -> None:
        """Sign the agreement.

        Args:
            compared: The words were compared; None at a server.
        """
        assert self.manifest is not None
        signed = SignedManifest(self.manifest).signed_by(self._identity)
        if compared is not None:
            signed = signed.compared_by(self._identity, compared=compared)
        self._consent = Consent(
            agreement=self.manifest.agreement_id,
            signature=signed.signatures[self.name],
            words=signed.words.get(self.name),
        )

    @property
    def consented(self) -> bool:
        """We have signed, now or at an earlier start; the user is not asked again."""
        return self._consent is not None or self.name in self._consents

    # The agreement so far.

    @property
    def manifest(self) -> Manifest | None:
        """The agreement, once all contributions are known.

        Raises:
            VerificationError: E_EQUIVOCATION: a participant agreed with other cards.
        """
        if self._manifest is None and self._roster is not None and self._complete(self._openings):
            assert self.fixed is not None
            for seat, opening in self._openings.items():
                if opening.acceptances != self.fixed:
                    raise VerificationError(f"{seat!r} was shown different cards", code="E_EQUIVOCATION")
            parts = [self._openings[seat.name].contribution for seat in self.invitation.guests]
            nonce = keys.digest(b"nonce", self.invitation.id, self.fixed, self._roster.contribution, *parts)
            self._manifest = self.invitation.manifest(self.cards, nonce[:16])
        return self._manifest

    @property
    def cards(self) -> dict[str, Card]:
        """The cards known so far, by name."""
        task = self.invitation.card
        return {task.name: task} | {name: taken.card for name, taken in self._acceptances.items()}

    @property
    def words(self) -> tuple[str, ...]:
        """The words of the agreement; empty until it is known."""
        return () if self.manifest is None else words_of(self.manifest.agreement_id)

    @property
    def signed(self) -> SignedManifest | None:
        """The agreement with everybody's signature, once all are here.

        Raises:
            VerificationError: E_MANIFEST: a signature is not valid.
        """
        if self.manifest is None or len(self._consents) < len(self.invitation.seats):
            return None
        signatures, words = {}, {}
        for name, consent in sorted(self._consents.items()):
            if consent.agreement != self.manifest.agreement_id:
                raise VerificationError(f"{name!r} signed a different agreement", code="E_EQUIVOCATION")
            if (self.invitation.seat(name).role in SERVER_ROLES) != (consent.words is None):
                raise VerificationError(
                    f"{name!r} does not say whether it compared the words", code="E_MANIFEST"
                )
            signatures[name] = consent.signature
            if consent.words is not None:
                words[name] = consent.words
        return SignedManifest(manifest=self.manifest, signatures=signatures, words=words)

    def awaited(self) -> tuple[Literal["accept", "join", "sign", ""], tuple[str, ...]]:
        """The missing step (accept, join or sign; empty if none) and the participants it waits for."""
        guests = [seat.name for seat in self.invitation.guests]
        if missing := tuple(name for name in guests if name not in self._acceptances):
            return "accept", missing
        if self._roster is None and self.name != self.invitation.card.name:
            return "join", (self.invitation.card.name,)
        if missing := tuple(name for name in guests if name not in self._openings):
            return "join", missing
        everybody = [seat.name for seat in self.invitation.seats]
        if missing := tuple(name for name in everybody if name not in self._consents):
            return "sign", missing
        return "", ()

    # Details.

    def _acceptance(self) -> Acceptance:
        card = self._identity.card
        return Acceptance(card=card, commitment=_commitment(self.invitation, card, self._contribution))

    def _acceptances_digest(self) -> bytes:
        parts = [documents.canonical(self._acceptances[seat.name]) for seat in self.invitation.guests]
        return keys.digest(b"acceptances", self.invitation.id, *parts)

    def _complete(self, messages: dict[str, Any]) -> bool:
        return len(messages) == len(self.invitation.guests)

    def _card(self, seat: str) -> Card:
        card = self.cards.get(seat)
        if card is None:
            raise RemoteProtocolError(f"a message of {seat!r} before its acceptance", code="E_ORDER")
        return card

    def _sealed(self, kind: str, message: Document) -> bytes:
        context, content = _context(self.invitation, self.name, kind), documents.canonical(message)
        signature = self._identity.sign(_SIGN, context + content)
        return AESSIV(self.invitation.sealing_key).encrypt(signature + content, [context])


def check_note(invitation: Invitation, seat: str, kind: str, body: bytes, acceptance: bytes | None) -> None:
    """Check that a message is its sender's, as far as a lobby can: sealed, and signed with the seat's card.

    So a reader of the invitation can take a free seat, but not answer for a taken one. `acceptance` is the
    message by which the seat was taken, None if it is free.

    Raises:
        RemoteProtocolError: E_SENDER: no such message is expected; E_ORDER: the seat is free; E_MALFORMED.
        VerificationError: E_SEAL, E_SIGNATURE or E_IDENTITY: it is somebody else's.
    """
    content, signature = _unsealed(invitation, seat, kind, body)
    card = invitation.card
    if kind == "acceptance":
        _acceptance_of(invitation, seat, content, signature)
        return
    if seat != card.name:
        if acceptance is None:
            raise RemoteProtocolError(f"a message of {seat!r} before its acceptance", code="E_ORDER")
        taken = _unsealed(invitation, seat, "acceptance", acceptance)
        card = _acceptance_of(invitation, seat, *taken).card
    _check_signed(invitation, card, seat, kind, content, signature)


def _unsealed(invitation: Invitation, seat: str, kind: str, body: bytes) -> tuple[bytes, bytes]:
    """Content and signature of a message that this seat may send."""
    if kind not in KINDS or (kind == "roster") != (seat == invitation.card.name and kind != "consent"):
        raise RemoteProtocolError(f"{seat!r} may not send {kind!r}", code="E_SENDER")
    invitation.seat(seat)
    try:
        plain = AESSIV(invitation.sealing_key).decrypt(body, [_context(invitation, seat, kind)])
    except (InvalidTag, ValueError):
        raise VerificationError(
            f"the {kind} of {seat!r} was not made with this invitation", code="E_SEAL"
        ) from None
    return plain[64:], plain[:64]


def _acceptance_of(invitation: Invitation, seat: str, content: bytes, signature: bytes) -> Acceptance:
    """An acceptance with a card for this seat, signed with it."""
    acceptance = _read(Acceptance, content, seat)
    card, place = acceptance.card, invitation.seat(seat)
    if (card.consortium, card.role, card.name) != (invitation.consortium, place.role, seat):
        raise VerificationError(f"{seat!r} accepted with a card of {card.uri}", code="E_IDENTITY")
    check_tls_certificate(card.certificate, card.consortium, card.role, card.name)
    _check_signed(invitation, card, seat, "acceptance", content, signature)
    return acceptance


def _check_signed(
    invitation: Invitation, card: Card, seat: str, kind: str, content: bytes, signature: bytes
) -> None:
    verify(card.sign_key, _SIGN, _context(invitation, seat, kind) + content, signature, who=seat)


def _context(invitation: Invitation, seat: str, kind: str) -> bytes:
    return keys.info("invitation", invitation.id, seat, kind)


def _commitment(invitation: Invitation, card: Card, contribution: bytes) -> bytes:
    return keys.digest(b"commitment", invitation.id, documents.canonical(card), contribution)


def _read(kind: type[D], content: bytes, seat: str) -> D:
    try:
        return documents.convert(kind, documents.parse(content, error=ConfigError), error=ConfigError)
    except (FedValueError, msgspec.MsgspecError):
        raise RemoteProtocolError(f"{seat!r} sent a malformed {kind.__name__}", code="E_MALFORMED") from None
