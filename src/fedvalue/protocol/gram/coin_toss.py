"""What two or three servers have in common: a coin, and a seed for every two of them.

1. Every party has declared: exchange what it signed (`GramPledge`), with commitments to a coin and to a seed
   shared with each other server. Different signatures of one party prove that it lied (E_SPLIT).
2. Open coin and seeds (`GramCoin`). The coin decides how rows are checked; no party knew it when it signed.
   Each server also says what the third one had committed to: all three use one coin (E_EQUIVOCATION).
   The seed that two servers share gives the noise of the component that both hold, and masks.
"""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING

import numpy as np

from fedvalue.crypto import keys
from fedvalue.errors import RemoteProtocolError, VerificationError
from fedvalue.protocol import messages as m
from fedvalue.protocol.gram.components import held_by, seed_digest, written_component
from fedvalue.protocol.gram.gram_layout import N_CHECKS, GramLayout
from fedvalue.protocol.gram.prime_field import Elements, expanded, minus, plus

if TYPE_CHECKING:
    from fedvalue.protocol.keyring import Credentials
    from fedvalue.protocol.settings import Settings


class CoinToss:
    """One server's side of steps 1 and 2.

    Args:
        settings: Of the run.
        server: Name of this server.
        credentials: Its keys.
        own: 32 bytes that this server alone has.
    """

    def __init__(self, settings: Settings, server: str, credentials: Credentials, own: bytes) -> None:
        self._settings = settings
        self._server = server
        self._number = settings.servers.index(server)
        self._to = m.Sender(settings.run_id, server).to
        self._pins = credentials.pins
        self._layout = GramLayout.of(settings)
        self._own = own
        self._pledges: dict[str, m.GramPledge] = {}
        self._coins: dict[str, m.GramCoin] = {}
        self.others = tuple(name for name in settings.servers if name != server)
        self.declared: dict[str, m.GramDeclaration] = {}
        self.coin = b""
        """Empty until it is drawn."""

    @property
    def all_declared(self) -> bool:
        """Whether every party has declared."""
        return len(self.declared) == len(self._settings.everybody)

    def declare(self, party: str, declared: m.GramDeclaration) -> list[m.Envelope]:
        """A party's declaration.

        Raises:
            RemoteProtocolError: It sent another component than it signed (E_DECLARED).
        """
        self._check_signed(party, declared)
        written = written_component(self._layout, party)
        for component, seed in zip(held_by(self._number), declared.seeds, strict=True):
            if component == written:
                fits = not seed and len(declared.rho) == 4 * N_CHECKS * self._layout.width_of(party)
            else:
                fits = hmac.compare_digest(seed_digest(seed), declared.digests[component])
            if not fits:
                raise RemoteProtocolError(
                    f"{party!r} sent another component than it signed", code="E_DECLARED"
                )
        self.declared[party] = declared
        if not self.all_declared:
            return []
        signed = {p: m.GramSigned(one.digests, one.signature) for p, one in self.declared.items()}
        coin = self._hash("coin", self._coin_part())
        pledges = [
            self._to(other, m.GramPledge(signed, coin, self._hash("pair", self._pair_part(other))))
            for other in self.others
        ]
        return pledges + self._open()

    def _check_signed(self, party: str, signed: m.GramDeclaration | m.GramSigned) -> None:
        keys.check_signature(
            self._pins[party], signed.signature, "gram-components", self._settings.run_id, party,
            *signed.digests,
        )  # fmt: skip

    def _coin_part(self) -> bytes:
        return keys.subkey(self._own, self._settings.run_id, "gram-coin")

    def _pair_part(self, other: str) -> bytes:
        return keys.subkey(self._own, self._settings.run_id, "gram-pair", other)

    def _hash(self, what: str, contribution: bytes) -> bytes:
        return keys.digest(b"gram-commit", what.encode(), self._settings.run_id, contribution)

    def pledge(self, server: str, pledge: m.GramPledge) -> list[m.Envelope]:
        """What another server pledged.

        Raises:
            VerificationError: A party signed different components for two servers (E_SPLIT).
        """
        self._pledges[server] = pledge
        return self._open()

    def _open(self) -> list[m.Envelope]:
        """When every party has declared and both other servers have pledged the same."""
        if not self.all_declared or len(self._pledges) < len(self.others):
            return []
        for other, pledge in self._pledges.items():
            self._compare(other, pledge)
        opened = [
            self._to(
                other,
                m.GramCoin(self._coin_part(), self._pair_part(other), self._pledges[self._third(other)].coin),
            )
            for other in self.others
        ]
        self._draw()
        return opened

    def _compare(self, other: str, pledge: m.GramPledge) -> None:
        """Has every party signed the same for us and another server?"""
        for party, own in self.declared.items():
            theirs = pledge.signed.get(party)
            if theirs is None or theirs.digests == own.digests:
                continue
            self._check_signed(party, theirs)
            raise VerificationError(
                f"{party!r} signed different components for {self._server!r} and {other!r}", code="E_SPLIT"
            )
        if set(pledge.signed) != set(self.declared):
            raise RemoteProtocolError(f"{other!r} pledged other parties", code="E_DECLARED")

    def _third(self, other: str) -> str:
        """The server that is neither this one nor `other`."""
        return next(name for name in self.others if name != other)

    def take_coin(self, server: str, coin: m.GramCoin) -> None:
        """Another server's part of the coin, and of our common seed.

        Raises:
            VerificationError: It had committed to others (E_NOISE), or not to the same towards all
                (E_EQUIVOCATION).
        """
        self._coins[server] = coin
        self._draw()

    def _draw(self) -> None:
        """When all contributions are here."""
        ready = len(self._pledges) == len(self._coins) == len(self.others)
        if not ready or not self.all_declared:
            return
        for other, coin in self._coins.items():
            pledge = self._pledges[other]
            if self._hash("coin", coin.coin) != pledge.coin or self._hash("pair", coin.pair) != pledge.pair:
                raise VerificationError(
                    f"{other!r} opened another seed than it had committed to", code="E_NOISE"
                )
            third = self._third(other)
            if coin.third != self._pledges[third].coin:
                raise VerificationError(
                    f"{third!r} committed to different coins towards {self._server!r} and {other!r}, or "
                    f"{other!r} misreports it",
                    code="E_EQUIVOCATION",
                )
        parts = {self._server: self._coin_part(), **{other: coin.coin for other, coin in self._coins.items()}}
        self.coin = keys.digest(b"gram-coin", *(parts[server] for server in self._settings.servers))

    def noise_key(self, component: int) -> bytes:
        """Of the noise of a component that we hold; its other holder has the same."""
        other = next(
            name
            for number, name in enumerate(self._settings.servers)
            if component in held_by(number) and name != self._server
        )
        return keys.subkey(self._pair_seed(other), b"", "noise")

    def mask(self, purpose: str, shape: tuple[int, ...]) -> Elements:
        """Numbers that add up to 0 over the three servers."""
        total = np.zeros(shape, dtype=np.uint64)
        for other in self.others:
            drawn = expanded(keys.subkey(self._pair_seed(other), b"", "mask"), purpose, shape)
            first = self._number < self._settings.servers.index(other)
            total = plus(total, drawn) if first else minus(total, drawn)
        return total

    def _pair_seed(self, other: str) -> bytes:
        """Common to this server and another one."""
        parts = {self._server: self._pair_part(other), other: self._coins[other].pair}
        return keys.digest(b"gram-pair", *(parts[name] for name in self._settings.servers if name in parts))
