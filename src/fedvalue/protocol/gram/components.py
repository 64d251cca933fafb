"""A party's columns as three components that add up to them modulo the prime, any two of them random.

A party's matrix has its one-hot columns Z and two check columns U = Z rho. rho is random and known to
the party alone until all servers have committed to their sums. Two components are expanded from seeds of 32
bytes; the third is what is missing, in chunks. Which one is the third goes around by party, so that servers
share the work. rho is cut in the same way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fedvalue.crypto import keys
from fedvalue.protocol.gram.gram_layout import N_CHECKS, GramLayout
from fedvalue.protocol.gram.prime_field import expanded, expanded_words, minus

if TYPE_CHECKING:
    from fedvalue.protocol.gram.prime_field import Elements, Words

N_COMPONENTS = 3


def written_component(layout: GramLayout, party: str) -> int:
    """The component of a party that travels in chunks."""
    return layout.everybody.index(party) % N_COMPONENTS


def held_by(server: int) -> tuple[int, int]:
    """The components that a server holds."""
    return server, (server + 1) % N_COMPONENTS


def seed_rows(layout: GramLayout, party: str, seed: bytes, chunk: int) -> Words:
    """Rows of a component that a seed gives."""
    shape = (layout.rows(chunk), layout.width_of(party) + N_CHECKS)
    return expanded_words(seed, "gram-rows", shape, chunk.to_bytes(4, "big"))


def seed_rho(layout: GramLayout, party: str, seed: bytes) -> Elements:
    """A component of rho that a seed gives."""
    return expanded(seed, "gram-rho", (N_CHECKS, layout.width_of(party)))


def seed_digest(seed: bytes) -> bytes:
    """What a party signs about a component that is a seed."""
    return keys.digest(b"gram-seed", seed)


def written_digest(salt: bytes, rho: bytes, chunks: Sequence[bytes]) -> bytes:
    """What a party signs about the component in chunks; the salt keeps guesses from being confirmed."""
    return keys.digest(b"gram-written", salt, rho, *chunks)


@dataclass(frozen=True, slots=True)
class PartySecrets:
    """What a party draws for a run.

    Args:
        seeds: By component; empty for the one in chunks.
        rho: Weights of its columns in the check columns, shape (N_CHECKS, width).
        salt: Of the digest of the component in chunks.
    """

    seeds: tuple[bytes, ...] = field(repr=False)
    rho: Elements = field(repr=False)
    salt: bytes = field(repr=False)

    @classmethod
    def derived(cls, layout: GramLayout, party: str, own: bytes) -> PartySecrets:
        """From 32 bytes that the party alone has."""
        written = written_component(layout, party)
        seeds = tuple(
            b"" if c == written else keys.subkey(own, b"", "gram-seed", bytes([c]))
            for c in range(N_COMPONENTS)
        )
        rho = expanded(keys.subkey(own, b"", "gram-check"), "rho", (N_CHECKS, layout.width_of(party)))
        return cls(seeds, rho, keys.subkey(own, b"", "gram-salt", length=16))

    def rest(self, layout: GramLayout, party: str, rows: Words, chunk: int) -> Words:
        """Rows of the component in chunks: what the seeds leave of the party's rows."""
        for seed in self.seeds:
            if seed:
                rows = minus(rows, seed_rows(layout, party, seed, chunk))
        return rows

    def rest_of_rho(self, layout: GramLayout, party: str) -> Elements:
        """The same for rho."""
        rho = self.rho
        for seed in self.seeds:
            if seed:
                rho = minus(rho, seed_rho(layout, party, seed))
        return rho
