"""A data party's signed statement of which column of the servers' results it owns (`mirror`).

The servers know columns, not names; which name belongs to which column follows from the run's key, which no
third party may have. So that a certificate does not rest on the task party's word, each data party, when it
agrees to the release, signs its place together with the digests of the results. The statement is sealed for
the task party: the computation server relays it and must not learn the owner of a column.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from fedvalue.crypto import keys
from fedvalue.errors import RemoteProtocolError, VerificationError
from fedvalue.protocol.keyring import Credentials, Keyring
from fedvalue.protocol.settings import RunTerms

_SEAL = keys.info("endorsement")
_FORM = struct.Struct(">I64s")


class Endorsement(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A statement of `party`: my column has index `place` in the results with these digests.

    Each digest is the one that the server signed over its whole result, so it covers the sealed bytes of this
    column too.
    """

    party: str
    place: int
    digests: dict[str, bytes]
    signature: bytes


def sealed_endorsement(
    terms: RunTerms,
    party: str,
    place: int,
    digests: Mapping[str, bytes],
    credentials: Credentials,
    ring: Keyring,
) -> bytes:
    """A data party's endorsement, for the task party alone; its length does not depend on the place."""
    signature = keys.sign(
        credentials.signing_key, "endorsement", *_signed(terms.run_id, party, place, digests)
    )
    return keys.seal(ring.endorsement(terms.task), _FORM.pack(place, signature), _SEAL)


def open_endorsement(party: str, sealed: bytes, digests: Mapping[str, bytes], ring: Keyring) -> Endorsement:
    """The endorsement that a data party sealed for us, the task party, about results with these digests.

    Raises:
        VerificationError: The party did not seal it (E_SEAL).
        RemoteProtocolError: E_MALFORMED.
    """
    plain = keys.unseal(ring.endorsement(party), sealed, _SEAL, what=f"the endorsement of {party!r}")
    if len(plain) != _FORM.size:
        raise RemoteProtocolError(f"the endorsement of {party!r} is malformed", code="E_MALFORMED")
    place, signature = _FORM.unpack(plain)
    return Endorsement(party, place, dict(sorted(digests.items())), signature)


def check_endorsements(
    terms: RunTerms,
    endorsements: Iterable[Endorsement],
    order: Sequence[str],
    digests: Mapping[str, bytes],
    pins: Mapping[str, bytes],
) -> None:
    """Check that every data party signed its place in `order`, for these results.

    Raises:
        VerificationError: One is missing or differs (E_CERTIFICATE), or is not signed (E_SIGNATURE).
    """
    by_name = {endorsement.party: endorsement for endorsement in endorsements}
    if sorted(order) != sorted(terms.parties) or sorted(by_name) != sorted(terms.parties):
        raise VerificationError("not every data party signed the place of its column", code="E_CERTIFICATE")
    for place, name in enumerate(order):
        endorsement = by_name[name]
        signed = _signed(terms.run_id, name, endorsement.place, endorsement.digests)
        keys.check_signature(pins[name], endorsement.signature, "endorsement", *signed)
        if endorsement.place != place or dict(endorsement.digests) != dict(digests):
            raise VerificationError(
                f"party {name!r} signed a different place or different results", code="E_CERTIFICATE"
            )


def _signed(run_id: bytes, party: str, place: int, digests: Mapping[str, bytes]) -> list[bytes | str]:
    pairs: list[bytes | str] = [part for server in sorted(digests) for part in (server, digests[server])]
    return [run_id, party, place.to_bytes(4, "big"), *pairs]
