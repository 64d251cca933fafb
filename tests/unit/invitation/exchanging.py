"""An exchange in memory: a lobby as a dictionary, everybody's view, and rounds until nothing changes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cache

from fedvalue.agreement.manifest_files import draft
from fedvalue.identity.cards import Identity, create_identity
from fedvalue.invitation.exchange import KINDS, Exchange
from fedvalue.invitation.invitation import Invitation, make_invitation

ROLES = {"bank": "task", "telco": "data", "shop": "data", "compute": "compute", "validate": "validate"}
ENDPOINTS = {"compute": "h:1", "validate": "h:2"}

Lobby = dict[tuple[str, str], bytes]


def identity(name: str, number: int = 0) -> Identity:
    """An identity of a name; each number has other keys."""
    return _identity(name, number)


@cache
def _identity(name: str, number: int) -> Identity:
    return create_identity("alpha", ROLES[name], name)


def invitation(bank: int = 0) -> Invitation:
    """The invitation of a bank; each number has other keys."""
    return _invitation(bank)


@cache
def _invitation(bank: int) -> Invitation:
    cards = [identity(name, bank).card for name in ROLES]
    proposal = draft(cards, ENDPOINTS, days=7, purpose="a test", n_samples=500).manifest
    return make_invitation(identity("bank", bank), proposal, hashlib.sha256(b"%d" % bank).digest())


def contribution(name: str, number: int = 0) -> bytes:
    return hashlib.sha256(f"{name} {number}".encode()).digest()


def exchange(name: str, number: int = 0, fixed: bytes | None = None, bank: int = 0) -> Exchange:
    return Exchange(invitation(bank), identity(name, number), contribution(name, number), fixed)


def everybody() -> dict[str, Exchange]:
    return {name: exchange(name) for name in ROLES}


def step(one: Exchange, lobby: Lobby) -> bool:
    """One look of one participant; whether it left anything new."""
    for (seat, kind), body in sorted(lobby.items(), key=lambda item: KINDS.index(item[0][1])):
        one.receive(seat, kind, body)
    if one.manifest is not None:
        server = ROLES[one.name] in ENDPOINTS
        one.consent(compared=None if server else True)
    before = len(lobby)
    for kind, body in one.outgoing().items():
        assert lobby.setdefault((one.name, kind), body) == body, "a message changed between two looks"
    return len(lobby) > before


def play(views: Mapping[str, Exchange], lobby: Lobby) -> None:
    """Rounds until nobody has anything new to say."""
    while sum(step(one, lobby) for one in views.values()):
        pass
