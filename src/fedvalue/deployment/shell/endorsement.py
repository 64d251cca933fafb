"""A data party's signed word which column of the servers' results is its own.

The servers know columns, not names; which name belongs to which column follows from the run's key,
which no third person may have. So that a certificate does not rest on the task party's word, each
data party signs its place and the results in which it holds it, before it agrees to their release.
It is sealed for the task party: the computation server, which relays it, must not learn whose a column is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta

from fedvalue.crypto import keys
from fedvalue.deployment.shell.base import Key32, Name, ShellMessage, Signature
from fedvalue.errors import RemoteProtocolError, VerificationError
from fedvalue.identity.cards import Identity, verify
from fedvalue.protocol.mirror.naming import Naming
from fedvalue.protocol.party_roles import DataParty, PartyRole, TaskParty

if TYPE_CHECKING:
    from fedvalue.agreement.manifest import Manifest
    from fedvalue.protocol import messages as m

_PURPOSE = "endorsement"
_SEAL = keys.info("endorsement")


class Endorsement(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """My column is number `place` of the results with these digests.

    The digest is the one that the server signed over its whole result, so that it covers the sealed
    bytes of this column too.
    """

    party: Name
    place: Annotated[int, Meta(ge=0, lt=2**16)]
    digests: Annotated[dict[Name, Key32], Meta(max_length=2)]
    signature: Signature

    def content(self, run_id: bytes) -> bytes:
        """What is signed."""
        return run_id + msgspec.msgpack.encode((self.party, self.place, sorted(self.digests.items())))


class SealedEndorsement(ShellMessage, frozen=True):
    """An endorsement on its way to the task party."""

    party: Name
    sealed: Annotated[bytes, Meta(max_length=1024)]


class _KnowingOrder(PartyRole):
    """A party that remembers the order of the columns, from the moment the run's key is confirmed."""

    order: tuple[str, ...] = ()

    def _take_confirms(self, sender: str, message: m.AnyMessage) -> list[m.Envelope]:
        out = super()._take_confirms(sender, message)
        assert self._ring is not None
        self.order = Naming(self.settings, self._ring).order
        return out

    def _endorsement_key(self, peer: str) -> bytes:
        if self._ring is None:
            raise RemoteProtocolError("an endorsement before or after its time", code="E_STATE")
        return self._ring.endorsement(peer)


class EndorsingParty(_KnowingOrder, DataParty):
    """A data party that can say which column is its own."""

    def sealed(self, endorsement: Endorsement) -> SealedEndorsement:
        """For the task party's eyes only."""
        plain = msgspec.msgpack.encode(endorsement)
        key = self._endorsement_key(self.settings.task)
        return SealedEndorsement(endorsement.party, keys.seal(key, plain, _SEAL))


class EndorsedTask(_KnowingOrder, TaskParty):
    """A task party that can compare what the data parties say."""

    def opened(self, message: SealedEndorsement) -> Endorsement:
        """What a data party has sealed.

        Raises:
            VerificationError: E_SENDER, or E_SEAL: it is not that party's.
            RemoteProtocolError: E_MALFORMED.
        """
        if message.party not in self.settings.parties:
            raise VerificationError(f"{message.party!r} is not a data party", code="E_SENDER")
        plain = keys.unseal(self._endorsement_key(message.party), message.sealed, _SEAL)
        try:
            found = msgspec.msgpack.decode(plain, type=Endorsement)
        except msgspec.MsgspecError:
            raise RemoteProtocolError("an endorsement is malformed", code="E_MALFORMED") from None
        if found.party != message.party:
            raise VerificationError(f"{message.party!r} endorses as another party", code="E_SENDER")
        return found


def needed(manifest: Manifest) -> bool:
    """Whether the columns of this run have secret places: under `mirror` only."""
    return manifest.protocol == "mirror"


def make_endorsement(
    identity: Identity, run_id: bytes, *, place: int, digests: Mapping[str, bytes]
) -> Endorsement:
    """A signed endorsement."""
    draft = Endorsement(identity.card.name, place, dict(sorted(digests.items())), bytes(64))
    return msgspec.structs.replace(draft, signature=identity.sign(_PURPOSE, draft.content(run_id)))


def check_endorsement(manifest: Manifest, endorsement: Endorsement) -> None:
    """Raises VerificationError when a data party of this run did not sign this."""
    pins = {party.name: party.sign_key for party in manifest.data}
    if endorsement.party not in pins:
        raise VerificationError(f"{endorsement.party!r} is not a data party", code="E_SENDER")
    content = endorsement.content(manifest.run_id)
    verify(pins[endorsement.party], _PURPOSE, content, endorsement.signature, who=endorsement.party)


def check_endorsements(
    manifest: Manifest,
    endorsements: Iterable[Endorsement],
    order: tuple[str, ...],
    digests: Mapping[str, bytes],
) -> None:
    """Whether every data party signed that it has the place that `order` gives it, in these results.

    Raises:
        VerificationError: E_CERTIFICATE (or E_SIGNATURE, E_SENDER): one is missing, or says otherwise.
    """
    names = sorted(party.name for party in manifest.data)
    found = {one.party: one for one in endorsements}
    if sorted(order) != names or sorted(found) != names:
        raise VerificationError(
            "not every data party has signed the place of its column", code="E_CERTIFICATE"
        )
    for place, name in enumerate(order):
        one = found[name]
        check_endorsement(manifest, one)
        if one.place != place or dict(one.digests) != dict(digests):
            raise VerificationError(
                f"party {name!r} signed another place or other results", code="E_CERTIFICATE"
            )
