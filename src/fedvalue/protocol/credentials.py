"""What a role knows about itself and its peers before the run: keys, and nothing about the data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fedvalue.errors import InputError


@dataclass(frozen=True, slots=True)
class Credentials:
    """Keys of one participant for one run.

    Args:
        seed: 32 secret bytes, fresh for every run. All secret randomness of the role is derived
            from it, so that a role rebuilt from a journal is the same role.
        signing_key: Ed25519 private key, 32 raw bytes, long-term.
        pins: Ed25519 public key, 32 raw bytes, of every participant by name; exchanged out of band.
        psk: 32 bytes shared by all parties, instead of the key agreement. For tests and air-gapped
            use: no forward secrecy.
    """

    seed: bytes = field(repr=False)
    signing_key: bytes = field(repr=False)
    pins: Mapping[str, bytes]
    psk: bytes | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        for what, key in (("seed", self.seed), ("signing_key", self.signing_key), ("psk", self.psk)):
            if key is not None and len(key) != 32:
                raise InputError(f"{what} must have 32 bytes, got {len(key)}")
