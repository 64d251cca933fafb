"""A party in the exchange of an invitation: its card goes to both servers, and it waits for the others."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from typing import TYPE_CHECKING

from fedvalue.deployment.agreeing import Agreeing, remote_lobbies

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fedvalue.agreement.manifest import SignedManifest
    from fedvalue.deployment.agreeing import Lobby
    from fedvalue.deployment.home import Agreement, Home
    from fedvalue.identity.cards import Identity
    from fedvalue.invitation.exchange import Exchange


class NotYetError(Exception):
    """The words are not asked for at `deliver`; nothing is signed there."""


def deliver(
    agreement: Agreement, identity: Identity, seconds: float, report: Callable[[str, str], None]
) -> None:
    """Send our acceptance to both servers, and what else can go without waiting for others.

    `report` is called with (stage, words) while a server does not answer.

    Raises:
        TransportError: E_UNREACHABLE: a server did not answer within `seconds`.
        FedValueError: The exchange failed.
    """

    def not_yet(exchange: Exchange) -> bool:
        raise NotYetError

    with _lobbies(agreement) as lobbies:
        agreeing = Agreeing(
            agreement.exchange(identity), lobbies, fix=agreement.fix, consent=not_yet, report=report
        )
        try:
            agreeing.once(seconds)
        except NotYetError:
            return  # everything but the signature is there


def agree(
    home: Home,
    agreement: Agreement,
    identity: Identity,
    *,
    confirm: Callable[[tuple[str, ...]], bool],
    report: Callable[[str, str], None],
) -> SignedManifest:
    """Wait until everybody has signed, sign ourselves, pin the cards and keep the agreement.

    Args:
        home: Ours.
        agreement: The accepted invitation.
        identity: Ours.
        confirm: Called with the words; returns whether they were compared, False if that is skipped. An
            exception ends the exchange before anything is signed.
        report: Called with (stage, words) while others are awaited.

    Raises:
        FedValueError: The exchange failed. What is stored stays, and the same command continues.
    """

    def consent(exchange: Exchange) -> bool:
        compared = confirm(exchange.words)
        home.pin(exchange.cards)
        return compared

    signed = agreement.signed
    if signed is not None:
        return signed
    with _lobbies(agreement) as lobbies:
        agreeing = Agreeing(
            agreement.exchange(identity), lobbies, fix=agreement.fix, consent=consent, report=report
        )
        signed = agreeing.until_signed()
    assert signed is not None
    agreement.complete(signed)
    return signed


@contextmanager
def _lobbies(agreement: Agreement) -> Iterator[list[Lobby]]:
    lobbies = remote_lobbies(agreement.invitation)
    try:
        yield lobbies
    finally:
        for lobby in lobbies:
            lobby.close()
