"""Keys between the parties, through a server that may not learn or change them.

1. Every party signs a fresh X25519 key with its long-term Ed25519 key, over (run, party, key). The key
   comes from the party's seed and from its data: a party that is rebuilt from changed data has
   another key, hence other masks, and never masks two tables in the same way.
2. The computation server relays all of them; each party checks every signature against its pins.
   A key that was swapped on the way ends the run here, before any upload (E_SIGNATURE).
3. Two parties' common key: HKDF of their X25519 secret, bound to run, both names and the transcript
   (the hash of the settings and all signed keys).
4. The task party derives K_run from its seed and the transcript and sends it to each data party, sealed.
5. Every party proves by a MAC under K_run that it has the key, the same transcript and the same
   population of sample ids; all must match before anything is uploaded (E_CONFIRM, E_POPULATION).

With a pre-shared key, step 3 uses it instead of the X25519 secret. Everything else stays.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import TypeVar

from fedvalue.crypto import keys
from fedvalue.errors import RemoteProtocolError, VerificationError
from fedvalue.protocol import messages as m
from fedvalue.protocol.keyring import Credentials, Keyring
from fedvalue.protocol.settings import Settings

T = TypeVar("T")


class KeyAgreement:
    """One party's side of the key agreement.

    Args:
        settings: What was agreed; bound into the transcript.
        name: The party.
        credentials: Its keys.
        data: Digest of its ids and codes.
    """

    def __init__(self, settings: Settings, name: str, credentials: Credentials, data: bytes) -> None:
        self._settings = settings
        self._name = name
        self._credentials = credentials
        self._private = keys.subkey(credentials.seed, settings.run_id, "ephemeral", name, data)
        self._pairs: dict[str, bytes] = {}
        self._transcript = b""

    def hello(self) -> m.EphemeralKey:
        """Step 1."""
        public = keys.agreement_public(self._private)
        run_id = self._settings.run_id
        signature = keys.sign(self._credentials.signing_key, "ephemeral", run_id, self._name, public)
        return m.EphemeralKey(self._name, public, signature)

    def take_roster(self, roster: m.KeyRoster) -> None:
        """Steps 2 and 3.

        Raises:
            RemoteProtocolError: Not exactly one key per party (E_DECLARED).
            VerificationError: A signature does not fit, or our own key came back changed (E_SIGNATURE).
        """
        settings, own = self._settings, self.hello()
        by_name = one_per_party(settings, {key.party: key for key in roster.keys}, len(roster.keys))
        if by_name[self._name] != own:
            raise VerificationError("our own key came back changed", code="E_SIGNATURE")
        for name, key in by_name.items():
            pin = self._credentials.pins.get(name)
            if pin is None:
                raise VerificationError(f"no pinned key for party {name!r}", code="E_SIGNATURE")
            keys.check_signature(pin, key.signature, "ephemeral", settings.run_id, name, key.public_key)
        self._transcript = keys.digest(
            settings.digest(),
            *(part for name in settings.everybody for part in (name.encode(), by_name[name].public_key)),
        )
        for name, key in by_name.items():
            if name != self._name:
                self._pairs[name] = self._pair_key(name, key.public_key)

    def _pair_key(self, peer: str, public: bytes) -> bytes:
        psk = self._credentials.psk
        secret = keys.agreement_secret(self._private, public) if psk is None else psk
        names = sorted((self._name, peer))
        return keys.subkey(secret, self._settings.run_id, "pair", *names, self._transcript)

    def draw_run_key(self) -> tuple[bytes, m.WrappedKeys]:
        """Step 4, the task party's side: K_run, and K_run sealed for everybody else."""
        run_key = self._from_seed("run-key")
        wrapped = {
            peer: keys.seal(self._wrapping_key(peer), run_key, self._context(peer))
            for peer in self._settings.parties
        }
        return run_key, m.WrappedKeys(wrapped)

    def _from_seed(self, purpose: str) -> bytes:
        """A secret of our own in this run, with these keys of everybody: hence with this data."""
        return keys.subkey(self._credentials.seed, self._settings.run_id, purpose, self._transcript)

    def open_run_key(self, wrapped: bytes) -> bytes:
        """Step 4, a data party's side.

        Raises:
            VerificationError: It does not open, or is not a key (E_SEAL).
        """
        run_key = keys.unseal(self._wrapping_key(self._settings.task), wrapped, self._context(self._name))
        if len(run_key) != 32:
            raise VerificationError("the run's key has a wrong length", code="E_SEAL")
        return run_key

    def _wrapping_key(self, peer: str) -> bytes:
        return keys.subkey(self._pairs[peer], self._settings.run_id, "wrap")

    def _context(self, data_party: str) -> bytes:
        return keys.info("wrap", self._settings.run_id, self._settings.task, data_party)

    def forget(self) -> None:
        """Drop all keys; the run is over."""
        self._private = b""
        self._pairs = {}

    def keyring(self, run_key: bytes) -> Keyring:
        """All keys of the run."""
        order = {name: place for place, name in enumerate(self._settings.everybody)}
        signs = {peer: 1 if order[peer] > order[self._name] else -1 for peer in self._pairs}
        return Keyring(self._settings.run_id, run_key, self._from_seed("own"), dict(self._pairs), signs)

    def confirm(self, ring: Keyring, population: bytes) -> m.Confirm:
        """Step 5, our own confirmation."""
        return m.Confirm(self._name, population, self._confirm_mac(ring, self._name, population))

    def _confirm_mac(self, ring: Keyring, party: str, population: bytes) -> bytes:
        return keys.mac(ring.confirm(), "confirm", party, self._transcript, population)

    def check_confirms(self, ring: Keyring, population: bytes, roster: m.ConfirmRoster) -> None:
        """Step 5, everybody's confirmations.

        Raises:
            RemoteProtocolError: Not exactly one per party (E_DECLARED).
            VerificationError: A MAC is wrong (E_CONFIRM), or a party holds other ids (E_POPULATION).
        """
        by_name = one_per_party(self._settings, {c.party: c for c in roster.confirms}, len(roster.confirms))
        for name, confirm in by_name.items():
            keys.check_mac(self._confirm_mac(ring, name, confirm.population), confirm.mac, who=name)
        for name, confirm in by_name.items():
            if not hmac.compare_digest(confirm.population, population):
                raise VerificationError(
                    f"party {name!r} does not hold the same sample ids as {self._name!r}", code="E_POPULATION"
                )


def one_per_party(settings: Settings, found: Mapping[str, T], n: int) -> Mapping[str, T]:
    """Check that a relayed list has one entry of every party."""
    if n != len(found) or set(found) != set(settings.everybody):
        raise RemoteProtocolError("the list does not hold one entry per party", code="E_DECLARED")
    return found
