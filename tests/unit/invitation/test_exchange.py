"""From an invitation to a signed agreement, and everything that may be wrong on the way."""

from __future__ import annotations

import datetime as dt
import re
import time
from types import SimpleNamespace

import pytest

from fedvalue.agreement.explanation import explain
from fedvalue.deployment.agreeing import Agreeing
from fedvalue.deployment.certificate_check import words_stated
from fedvalue.deployment.home import Home
from fedvalue.deployment.network import wire
from fedvalue.deployment.servers.lobbies import Lobbies
from fedvalue.deployment.servers.observability import Log
from fedvalue.deployment.servers.server_store import ServerStore
from fedvalue.deployment.servers.usher import Usher
from fedvalue.errors import ConfigError, FedValueError, RemoteProtocolError, VerificationError
from fedvalue.identity.cards import create_identity
from fedvalue.identity.identity_files import read_card
from fedvalue.invitation.exchange import KINDS, Exchange, Opening, Roster
from tests.unit.invitation.exchanging import (
    ROLES,
    Lobby,
    contribution,
    everybody,
    exchange,
    identity,
    invitation,
    play,
    step,
)


def refused(code: str, act, *arguments) -> FedValueError:
    with pytest.raises(FedValueError) as caught:
        act(*arguments)
    assert caught.value.code == code
    return caught.value


def test_everybody_ends_with_the_same_agreement_signed_by_all():
    views, lobby = everybody(), {}
    play(views, lobby)
    signed = {name: one.signed for name, one in views.items()}
    one = signed["bank"]
    assert all(other == one for other in signed.values())
    manifest = one.verify(now=dt.datetime.now(dt.UTC))
    assert {p.name: p.sign_key for p in manifest.participants} == {
        name: identity(name).card.sign_key for name in ROLES
    }
    assert manifest.purpose == "a test"
    assert len({view.words for view in views.values()}) == 1
    assert {name: said.compared for name, said in one.words.items()} == dict.fromkeys(
        ("bank", "shop", "telco"), True
    )


def test_a_skipped_comparison_is_signed_and_cannot_be_turned_into_a_made_one():
    views, lobby = everybody(), {}
    play({name: one for name, one in views.items() if name != "shop"}, lobby)
    shop = views["shop"]
    while shop.manifest is None:
        for (seat, kind), body in sorted(lobby.items()):
            if kind == "acceptance":
                shop.receive(seat, kind, body)
        for (seat, kind), body in sorted(lobby.items()):
            if kind in ("roster", "opening"):
                shop.receive(seat, kind, body)
        lobby |= {("shop", kind): body for kind, body in shop.outgoing().items()}
        play({name: one for name, one in views.items() if name != "shop"}, lobby)
    shop.consent(compared=False)
    lobby |= {("shop", kind): body for kind, body in shop.outgoing().items()}
    play({name: one for name, one in views.items() if name != "shop"}, lobby)
    signed = views["bank"].signed
    assert not signed.words["shop"].compared
    proved, unproved = words_stated(signed)
    assert proved == ["bank, telco stated that the words of the agreement were compared"]
    assert "shop signed without comparing the words" in unproved[0]
    text = explain(signed)
    assert re.search(r"shop +data +signed, words NOT compared", text)
    assert re.search(r"telco +data +signed, words compared", text)
    lie = {**signed.words, "shop": type(signed.words["shop"])(
        compared=True, signature=signed.words["shop"].signature
    )}  # fmt: skip
    altered = type(signed)(manifest=signed.manifest, signatures=signed.signatures, words=lie)
    refused("E_MANIFEST", lambda: altered.verify(now=dt.datetime.now(dt.UTC)))


def test_the_order_of_arrival_and_restarts_change_nothing():
    """Everybody is rebuilt before every look, as after a crash, from its number and what it had fixed."""
    lobby: Lobby = {}
    fixed: dict[str, bytes | None] = dict.fromkeys(ROLES)
    for _ in range(8):
        for name in reversed(ROLES):
            one = exchange(name, fixed=fixed[name])
            step(one, lobby)
            fixed[name] = one.fixed
    views = everybody()
    play(views, lobby)
    assert exchange("telco", fixed=fixed["telco"]).fixed == views["telco"].fixed
    assert views["telco"].signed is not None


def test_no_contribution_is_shown_before_everything_else_is_fixed():
    """The order that keeps a server from searching for cards with the same words."""
    views, lobby = everybody(), {}
    for name in ("telco", "shop", "compute"):
        step(views[name], lobby)
    step(views["bank"], lobby)
    assert set(lobby) == {(name, "acceptance") for name in ("telco", "shop", "compute")}
    step(views["validate"], lobby)
    step(views["telco"], lobby)
    assert ("telco", "opening") not in lobby  # no roster yet
    step(views["bank"], lobby)
    assert ("bank", "roster") in lobby
    step(views["telco"], lobby)
    assert ("telco", "opening") in lobby
    assert views["telco"].words == ()


def test_a_participant_shows_its_number_for_one_set_of_cards_only():
    views, lobby = everybody(), {}
    play(views, lobby)
    fixed = views["telco"].fixed
    other = {("shop", kind): body for kind, body in exchange("shop", 1).outgoing().items()}
    again = {key: body for key, body in lobby.items() if key[1] == "acceptance"} | other
    telco = exchange("telco", fixed=fixed)
    for (seat, kind), body in again.items():
        telco.receive(seat, kind, body)
    bank = exchange("bank")
    for (seat, kind), body in again.items():
        bank.receive(seat, kind, body)
    telco.receive("bank", "roster", bank.outgoing()["roster"])
    refused("E_EQUIVOCATION", telco.outgoing)
    refused("E_EQUIVOCATION", exchange_with(again, "bank", views["bank"].fixed).outgoing)


def exchange_with(lobby: Lobby, name: str, fixed: bytes | None = None) -> Exchange:
    one = exchange(name, fixed=fixed)
    for (seat, kind), body in lobby.items():
        one.receive(seat, kind, body)
    return one


def test_servers_that_swap_a_card_leave_its_owner_without_words():
    """Both servers together play telco towards the bank: the bank gets words, the real telco never does."""
    views, lobby = everybody() | {"telco": exchange("telco", 1)}, {}
    play(views, lobby)
    assert views["bank"].cards["telco"] != identity("telco").card
    assert len(views["bank"].words) == 6
    telco = exchange("telco")
    refused("E_CONFLICT", telco.receive, "telco", "acceptance", lobby["telco", "acceptance"])
    for (seat, kind), body in lobby.items():  # they show it its own card instead
        if kind in ("acceptance", "roster") and seat != "telco":
            telco.receive(seat, kind, body)
    telco.receive("telco", "acceptance", telco.outgoing()["acceptance"])
    refused("E_EQUIVOCATION", telco.outgoing)


def test_servers_that_also_swap_the_invitation_are_found_out_by_the_words():
    """They caught the mail to telco and gave it an invitation of a bank of their own: the words differ."""
    left = everybody() | {"telco": exchange("telco", 1)}
    right = {name: exchange(name, 1, bank=1) for name in ROLES} | {"telco": exchange("telco", bank=1)}
    play(left, {})
    play(right, {})
    assert left["bank"].signed is not None
    assert right["telco"].signed is not None
    assert left["bank"].words != right["telco"].words


def test_a_single_server_that_swaps_a_card_is_found_out_by_the_other_one():
    """The servers' lobbies differ: nothing is signed, whatever people say on the phone."""
    views, honest = everybody(), {}
    play({name: one for name, one in views.items() if name != "bank"}, honest)
    evil = honest | {("telco", kind): body for kind, body in exchange("telco", 1).outgoing().items()}

    class Room:
        def __init__(self, name: str, notes: Lobby) -> None:
            self.name, self.left = name, []
            self._notes = [wire.Note(seat, kind, body) for (seat, kind), body in notes.items()]

        def leave(self, note: wire.Note) -> None:
            self.left.append(note)

        def look(self, after: int) -> list[wire.Note]:
            return self._notes[after:]

        def close(self) -> None:
            pass

    rooms = [Room("compute", honest), Room("validate", evil)]
    agreeing = Agreeing(exchange("bank"), rooms, fix=lambda digest: None, consent=lambda view: True)
    error = refused("E_EQUIVOCATION", agreeing.once, 1.0)
    assert "compute and validate show different messages of 'telco'" in str(error)
    # A reader of the invitation can do that between honest servers, while the answer is on its way to both.
    assert "or someone else who has the invitation has answered in its place" in str(error)
    assert rooms[0].left == rooms[1].left == []


def test_a_server_cannot_search_for_a_second_agreement_with_the_same_words():
    """Whoever swaps telco's card must fix all of telco's view before telco's number is known.

    The number enters the words: with another number of telco, and everything else that the servers choose the
    same, the words are others.
    """
    views, lobby = everybody(), {}
    play(views, lobby)
    other = Exchange(invitation(), identity("telco"), contribution("telco", 7))
    second = everybody() | {"telco": other}
    play(second, {})
    assert second["bank"].cards == views["bank"].cards
    assert second["bank"].words != views["bank"].words


def test_two_acceptances_of_one_seat_are_refused():
    views, lobby = everybody(), {}
    play(views, lobby)
    thief = exchange("telco", 1).outgoing()["acceptance"]
    refused("E_CONFLICT", views["bank"].receive, "telco", "acceptance", thief)
    error = refused("E_CONFLICT", exchange("telco").receive, "telco", "acceptance", thief)
    assert "someone else has accepted as 'telco'" in str(error)


def test_nobody_is_asked_for_the_words_twice():
    """A party signed with the comparison skipped, was interrupted, and starts again."""
    views, lobby = everybody(), {}
    play(views, lobby)
    telco = exchange_in_order(lobby, "telco", views["telco"].fixed)
    assert telco.consented
    assert "consent" not in telco.outgoing()
    assert telco.signed == views["bank"].signed


def exchange_in_order(lobby: Lobby, name: str, fixed: bytes | None) -> Exchange:
    steps = sorted(lobby.items(), key=lambda item: KINDS.index(item[0][1]))
    return exchange_with(dict(steps), name, fixed)


def test_messages_of_strangers_are_refused():
    body = exchange("telco").outgoing()["acceptance"]
    bank = exchange("bank")
    refused("E_SEAL", bank.receive, "shop", "acceptance", body)
    refused("E_SEAL", bank.receive, "telco", "acceptance", body[:-1] + bytes([body[-1] ^ 1]))
    refused("E_SEAL", bank.receive, "telco", "acceptance", b"")
    refused("E_SENDER", bank.receive, "telco", "roster", body)
    refused("E_SENDER", bank.receive, "bank", "acceptance", body)
    refused("E_SENDER", bank.receive, "telco", "song", body)
    refused("E_INVITATION", bank.receive, "nobody", "acceptance", body)
    refused("E_ORDER", bank.receive, "telco", "opening", sealed_as("telco", "opening"))


def sealed_as(seat: str, kind: str) -> bytes:
    """Something that was made with this invitation and says nothing."""
    one = exchange(seat)
    return one._sealed(kind, one._acceptance())


def test_a_message_that_is_none_is_malformed():
    bank = exchange("bank")
    bank.receive("telco", "acceptance", exchange("telco").outgoing()["acceptance"])
    refused("E_MALFORMED", bank.receive, "telco", "opening", sealed_as("telco", "opening"))


def test_an_opening_must_fit_its_commitment():
    views, lobby = everybody(), {}
    play(views, lobby)
    liar = Exchange(invitation(), identity("telco"), contribution("telco", 9), views["telco"].fixed)
    bank = exchange_with({key: body for key, body in lobby.items() if key[1] == "acceptance"}, "bank")
    with pytest.raises(VerificationError) as caught:
        bank.receive("telco", "opening", liar.outgoing()["opening"])
    assert caught.value.code == "E_EQUIVOCATION"


def test_an_identity_of_another_group_or_role_does_not_fit_the_seat():
    for foreign in (create_identity("beta", "data", "telco"), create_identity("alpha", "compute", "telco")):
        with pytest.raises(ConfigError) as caught:
            Exchange(invitation(), foreign, bytes(32))
        assert caught.value.code == "E_INVITATION"


def test_a_party_that_accepts_and_never_comes_is_named():
    views, lobby = everybody(), {}
    step(views["telco"], lobby)
    play({name: one for name, one in views.items() if name != "telco"}, lobby)
    assert views["bank"].awaited() == ("join", ("telco",))
    assert views["bank"].signed is None
    assert exchange("bank").awaited() == ("accept", ("shop", "telco", "compute", "validate"))


def test_a_lobby_that_shows_a_message_twice_is_an_error():
    views, lobby = everybody(), {}
    play(views, lobby)
    with pytest.raises(RemoteProtocolError):
        views["bank"].receive("shop", "acceptance", exchange("shop", 1).outgoing()["acceptance"])


def test_a_reader_of_the_invitation_cannot_answer_for_a_seat_that_is_taken(tmp_path):
    """A garbled message in the place of a true one would end the exchange for everybody."""
    store = ServerStore(tmp_path)
    lobbies, paper = Lobbies(store, time.time), invitation()
    lobbies.put(paper, wire.Note("telco", "acceptance", exchange("telco").outgoing()["acceptance"]))
    stranger, bank = exchange("telco", 1), exchange("bank", 1)
    opening = stranger._sealed("opening", Opening(acceptances=bytes(32), contribution=bytes(32)))
    roster = bank._sealed("roster", Roster(acceptances=bytes(32), contribution=bytes(32)))
    shop = exchange("shop")._sealed("opening", Opening(acceptances=bytes(32), contribution=bytes(32)))
    for seat, kind, body, code in (
        ("telco", "opening", opening, "E_SIGNATURE"),
        ("telco", "consent", b"", "E_SEAL"),
        ("bank", "roster", roster, "E_SIGNATURE"),
        ("shop", "opening", shop, "E_ORDER"),
        ("shop", "acceptance", opening, "E_SEAL"),
        ("bank", "acceptance", opening, "E_SENDER"),
    ):
        refused(code, lobbies.put, paper, wire.Note(seat, kind, body))
    assert [(note.seat, note.kind) for note in lobbies.notes(paper, 0)] == [("telco", "acceptance")]
    # The true ones find their places free.
    lobby: Lobby = {}
    play(everybody(), lobby)
    for (seat, kind), body in lobby.items():
        lobbies.put(paper, wire.Note(seat, kind, body))
    assert len(lobbies.notes(paper, 0)) == len(lobby)
    store.close()


def test_a_lobby_answers_only_callers_who_hold_its_invitation(tmp_path):
    store, paper, other = ServerStore(tmp_path), invitation(), invitation(1)
    now = [time.time()]
    lobbies = Lobbies(store, lambda: now[0])
    lobbies.open(paper)
    lobbies.open(other)
    spki = paper.lobby_identity.card.spki
    body = exchange("telco").outgoing()["acceptance"]
    leave = wire.Leave(wire.VERSION, paper.id, "telco", "acceptance", body)
    look = wire.Look(wire.VERSION, paper.id, 0)
    lobbies.leave(spki, leave)
    assert len(lobbies.look(spki, look)) == 1
    thief = other.lobby_identity.card.spki
    for refuse, request in ((lobbies.leave, leave), (lobbies.look, look)):
        assert "no such invitation" in str(refused("E_INVITATION", refuse, thief, request))
    unknown = wire.Look(wire.VERSION, bytes(32), 0)
    assert "no such invitation" in str(refused("E_INVITATION", lobbies.look, spki, unknown))
    now[0] = paper.proposal.expires.timestamp() - 1
    assert len(lobbies.look(spki, look)) == 1
    now[0] += 1
    for refuse, request in ((lobbies.leave, leave), (lobbies.look, look)):
        assert "expired" in str(refused("E_INVITATION", refuse, spki, request))
    store.close()


def test_an_agreement_does_not_replace_a_card_that_is_pinned(tmp_path):
    """Whoever sends new keys under a known name must be asked by phone first."""
    home, cards = Home(tmp_path), {name: identity(name).card for name in ("bank", "telco")}
    home.pin(cards)
    home.pin(cards)
    stranger = {"telco": identity("telco").card, "bank": identity("bank", 1).card}
    assert "another card of 'bank'" in str(refused("E_IDENTITY", home.pin, stranger))
    assert read_card(home.peers / "bank.json") == cards["bank"]


def test_an_invitation_is_accepted_under_one_name(tmp_path):
    home = Home(tmp_path)
    kept = home.accept(invitation(), "telco").progress.contribution
    assert len(kept) == 32
    assert home.accept(invitation(), "telco").progress.contribution == kept
    assert "accepted here as 'telco'" in str(refused("E_INVITATION", home.accept, invitation(), "shop"))


@pytest.mark.parametrize("days", [1, 8])
def test_a_lobby_that_expired_while_its_server_was_down_leaves_nothing(days, tmp_path):
    """Opened again after `days` of seven. By the old rule its messages stayed in the database for ever."""
    store, paper = ServerStore(tmp_path), invitation()
    before = Lobbies(store, time.time)
    before.put(paper, wire.Note("telco", "acceptance", exchange("telco").outgoing()["acceptance"]))
    after = Lobbies(store, lambda: time.time() + 86400 * days)
    accepted = SimpleNamespace(id="ab", invitation=paper, signed=object())
    home = SimpleNamespace(agreements=lambda: [accepted])
    usher = Usher(home, identity("compute"), after, Log("compute"), lambda: None)
    assert usher.open_accepted() is (days < 7)
    assert len(store.lobby(paper.id, 0)) == (days < 7)
    store.close()


@pytest.mark.parametrize("endless", [("telco", "opening"), None])
def test_a_server_cannot_keep_a_participant_looking_for_ever(endless):
    """It shows the same empty message, or messages of new names, again and again."""

    class Endless:
        name = "compute"

        def leave(self, note: wire.Note) -> None:
            pass

        def look(self, after: int) -> list[wire.Note]:
            self.looks = getattr(self, "looks", 0) + 1
            assert self.looks < 100, "it looks for ever"
            return [wire.Note(*(endless or (f"n{self.looks}", "opening")), b"")]

        def close(self) -> None:
            pass

    agreeing = Agreeing(exchange("bank"), [Endless()], fix=lambda digest: None, consent=lambda view: True)
    refused("E_CONFLICT" if endless else "E_SENDER", agreeing.once, 1.0)
