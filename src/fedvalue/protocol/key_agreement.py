"""Keys between the parties, through a server that may not learn or change them.

1. Every party signs a fresh X25519 key with its long-term Ed25519 key, over (run, party, key). The key
   derives from the party's seed and its data: a party rebuilt from changed data has a different key, hence
   different masks, and never masks two tables in the same way.
2. The computation server relays all keys; each party checks every signature against its pins. A key that
   was swapped on the way ends the run here, before any upload (E_SIGNATURE).
3. Two parties' common key: HKDF of their X25519 secret (and the pre-shared key, if there is one), bound
   to run, both names and the transcript, which is the hash of the terms and all signed keys.
4. The task party derives K_run from its seed and the transcript and sends it to each data party, sealed.
   If the parties agreed to reduce their tables, ids are aligned under keys from K_run.
5. When every party has stated its sizes (`readiness`), the transcript also covers the settings and all
   signed Readies, with their commitments to the remaining rows, and every further key is bound to it.
6. Every party proves by a MAC under K_run that it has the key, the same transcript and the same
   population of sample ids; all must match before anything is uploaded (E_CONFIRM, E_POPULATION).
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping, Sequence
from typing import TypeVar

from fedvalue.crypto import keys
from fedvalue.errors import RemoteProtocolError, VerificationError
from fedvalue.protocol import messages as m
from fedvalue.protocol.keyring import AlignmentKeys, Credentials, Keyring
from fedvalue.protocol.readiness import INTERSECT
from fedvalue.protocol.settings import RunTerms, Settings

E = TypeVar("E", m.EphemeralKey, m.Ready, m.Confirm, m.Agree)


class KeyAgreement:
    """One party's side of the key agreement; `data` is the digest of its ids and codes."""

    def __init__(self, terms: RunTerms, name: str, credentials: Credentials, data: bytes) -> None:
        self._terms = terms
        self._name = name
        self._credentials = credentials
        self._private = keys.subkey(credentials.seed, terms.run_id, "ephemeral", name, data)
        self._pairs: dict[str, bytes] = {}
        self._transcript = b""
        self._run_key = b""

    def hello(self) -> m.EphemeralKey:
        """Step 1."""
        public = keys.agreement_public(self._private)
        run_id = self._terms.run_id
        signature = keys.sign(self._credentials.signing_key, "ephemeral", run_id, self._name, public)
        return m.EphemeralKey(self._name, public, signature)

    def take_roster(self, roster: m.KeyRoster) -> None:
        """Steps 2 and 3.

        Raises:
            RemoteProtocolError: Not exactly one key per party (E_DECLARED).
            VerificationError: A wrong signature, or our own key came back changed (E_SIGNATURE).
        """
        terms = self._terms
        by_name = one_per_party(terms, roster.keys)
        if by_name[self._name] != self.hello():
            raise VerificationError("our own key came back changed", code="E_SIGNATURE")
        for name, key in by_name.items():
            pin = self._credentials.pins.get(name)
            if pin is None:
                raise VerificationError(f"no pinned key for party {name!r}", code="E_SIGNATURE")
            keys.check_signature(pin, key.signature, "ephemeral", terms.run_id, name, key.public_key)
        self._transcript = keys.digest(
            terms.digest(),
            *(part for name in terms.everybody for part in (name.encode(), by_name[name].public_key)),
        )
        for name, key in by_name.items():
            if name != self._name:
                self._pairs[name] = self._pair_key(name, key.public_key)

    def _pair_key(self, peer: str, public: bytes) -> bytes:
        # A pre-shared key alone would let every party open what any two others seal for each other.
        secret = keys.agreement_secret(self._private, public) + (self._credentials.psk or b"")
        names = sorted((self._name, peer))
        return keys.subkey(secret, self._terms.run_id, "pair", *names, self._transcript)

    def draw_run_key(self) -> m.WrappedKeys:
        """Step 4, the task party's side: K_run, sealed for everybody else."""
        self._run_key = self._from_seed("run-key")
        wrapped = {
            peer: keys.seal(self._wrapping_key(peer), self._run_key, self._context(peer))
            for peer in self._terms.parties
        }
        return m.WrappedKeys(wrapped)

    def open_run_key(self, wrapped: bytes) -> None:
        """Step 4, a data party's side.

        Raises:
            VerificationError: It does not open, or is not a key (E_SEAL).
        """
        run_key = keys.unseal(self._wrapping_key(self._terms.task), wrapped, self._context(self._name))
        if len(run_key) != 32:
            raise VerificationError("the run's key has a wrong length", code="E_SEAL")
        self._run_key = run_key

    def _from_seed(self, purpose: str) -> bytes:
        """A secret of this party, bound to the run and everybody's keys, hence to this data."""
        return keys.subkey(self._credentials.seed, self._terms.run_id, purpose, self._transcript)

    def _wrapping_key(self, peer: str) -> bytes:
        return keys.subkey(self._pairs[peer], self._terms.run_id, "wrap")

    def _context(self, data_party: str) -> bytes:
        return keys.info("wrap", self._terms.run_id, self._terms.task, data_party)

    @property
    def run_key(self) -> bytes:
        """K_run, not yet bound to the parties' tables."""
        return self._run_key

    def alignment(self) -> AlignmentKeys:
        """The keys under which ids are aligned, before the sizes are known."""
        return AlignmentKeys(self._terms.run_id, self._run_key, self._from_seed("own"))

    def keyring(self, settings: Settings, readies: Mapping[str, m.Ready]) -> Keyring:
        """Step 5: all keys of the run, bound to every party's table."""
        signed = (readies[name].fingerprint for name in settings.everybody)
        self._transcript = keys.digest(self._transcript, settings.digest(), *signed)
        run_id, bound = settings.run_id, self._transcript
        order = {name: place for place, name in enumerate(settings.everybody)}
        return Keyring(
            run_id=run_id,
            run_key=keys.subkey(self._run_key, run_id, "bound", bound),
            own=self._from_seed("own"),
            pairs={peer: keys.subkey(pair, run_id, "bound", bound) for peer, pair in self._pairs.items()},
            signs={peer: 1 if order[peer] > order[self._name] else -1 for peer in self._pairs},
        )

    def forget(self) -> None:
        """Drop all keys; the run is over."""
        self._private = self._run_key = b""
        self._pairs = {}

    def confirm(self, ring: Keyring, population: bytes) -> m.Confirm:
        """Step 6, our own confirmation."""
        return m.Confirm(self._name, population, self._confirm_mac(ring, self._name, population))

    def _confirm_mac(self, ring: Keyring, party: str, population: bytes) -> bytes:
        return keys.mac(ring.confirm(), "confirm", party, self._transcript, population)

    def check_confirms(self, ring: Keyring, population: bytes, roster: m.ConfirmRoster) -> None:
        """Step 6, everybody's confirmations.

        Raises:
            RemoteProtocolError: Not exactly one per party (E_DECLARED).
            VerificationError: A wrong MAC (E_CONFIRM), or a party holds different ids (E_POPULATION).
        """
        by_name = one_per_party(self._terms, roster.confirms)
        for name, confirm in by_name.items():
            keys.check_mac(self._confirm_mac(ring, name, confirm.population), confirm.mac, who=name)
        for name, confirm in by_name.items():
            if not hmac.compare_digest(confirm.population, population):
                raise VerificationError(
                    f"party {name!r} does not hold the same sample ids as {self._name!r}; compare the "
                    f"extracts, or {INTERSECT}",
                    code="E_POPULATION",
                )


def one_per_party(terms: RunTerms, entries: Sequence[E]) -> dict[str, E]:
    """A relayed list by party.

    Raises:
        RemoteProtocolError: Not exactly one entry per party (E_DECLARED).
    """
    by_name = {entry.party: entry for entry in entries}
    if len(by_name) != len(entries) or set(by_name) != set(terms.everybody):
        raise RemoteProtocolError("the list does not hold one entry per party", code="E_DECLARED")
    return by_name
