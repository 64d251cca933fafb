"""Invitations over real connections: restarts, strangers, two acceptances, and servers that try to cheat."""

from __future__ import annotations

import secrets
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from fedvalue.agreement.manifest import Participant, SignedManifest
from fedvalue.agreement.manifest_files import draft
from fedvalue.deployment.agreeing import RemoteLobby
from fedvalue.deployment.home import Agreement, Home
from fedvalue.deployment.network import wire
from fedvalue.deployment.network.rpc_client import ServerClient
from fedvalue.deployment.network.rpc_server import NetworkServer, Peer
from fedvalue.deployment.parties.accepting import agree, deliver
from fedvalue.deployment.run_status import read_status
from fedvalue.deployment.servers.server_process import serve
from fedvalue.deployment.sites import server_config, site_of
from fedvalue.errors import FedValueError
from fedvalue.identity.cards import Identity, create_identity
from fedvalue.identity.identity_files import read_identity
from fedvalue.invitation.invitation import Invitation, make_invitation
from fedvalue.simulation.local_consortium import reserve_port
from tests.support.processes import PATIENCE, until

pytestmark = pytest.mark.network

ROLES = {"bank": "task", "telco": "data", "compute": "compute", "validate": "validate"}


class Guests:
    """An invitation, a home for everybody, and servers in threads."""

    def __init__(self, root: Path) -> None:
        self.root = root
        ports = {role: reserve_port() for role in ("compute", "validate")}
        self._reserved = [socket for _, socket in ports.values()]
        endpoints = {role: f"127.0.0.1:{port}" for role, (port, _) in ports.items()}
        bank = self.home("bank").own_identity("alpha", "task", "bank")
        cards = [bank.card] + [
            create_identity("alpha", role, name).card for name, role in ROLES.items() if name != "bank"
        ]
        proposal = draft(cards, endpoints, days=1, purpose="a test", n_samples=100).manifest
        self.invitation: Invitation = make_invitation(bank, proposal, secrets.token_bytes(32))
        for name in ("bank", "compute", "validate"):
            self.accept(name)

    def home(self, name: str) -> Home:
        return Home(self.root / name)

    def accept(self, name: str, folder: str | None = None) -> tuple[Agreement, Identity]:
        home = self.home(folder or name)
        identity = home.own_identity("alpha", ROLES[name], name)
        return home.accept(self.invitation, name), identity

    @contextmanager
    def serving(self) -> Iterator[None]:
        stop = threading.Event()
        threads = [
            threading.Thread(
                target=serve, args=(server_config(self.root / name),), kwargs={"stop": stop}, daemon=True
            )
            for name in ("compute", "validate")
        ]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            stop.set()
            for thread in threads:
                thread.join(PATIENCE)

    def agree(self, *names: str) -> dict[str, SignedManifest | FedValueError]:
        """Let parties take part in the exchange, each in a thread."""
        ends: dict[str, SignedManifest | FedValueError] = {}
        self.words: dict[str, tuple[str, ...]] = {}

        def take(name: str) -> None:
            def confirm(words: tuple[str, ...]) -> bool:
                self.words[name] = words
                return True

            home = self.home(name)
            try:
                ends[name] = agree(
                    home, home.agreement(), read_identity(home.identity), confirm=confirm,
                    report=lambda stage, words: None,
                )  # fmt: skip
            except FedValueError as error:
                ends[name] = error

        threads = [threading.Thread(target=take, args=(name,), daemon=True) for name in names]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
            assert not thread.is_alive(), ends
        return ends

    def close(self) -> None:
        for socket in self._reserved:
            socket.close()


@pytest.fixture
def guests(tmp_path):
    made = Guests(tmp_path)
    yield made
    made.close()


def code_of(act, *arguments) -> str:
    with pytest.raises(FedValueError) as caught:
        act(*arguments)
    return caught.value.code


def unheard(stage: str, words: str) -> None:
    """A report that nobody reads."""


def test_who_accepts_before_the_servers_run_reads_at_once_for_which_it_waits(guests):
    heard: list[tuple[str, str]] = []
    accepted = guests.accept("telco")
    assert code_of(deliver, *accepted, 0.0, lambda *words: heard.append(words)) == "E_UNREACHABLE"
    assert [stage for stage, _ in heard] == ["waiting", "waiting"]
    for name, (_, words) in zip(("compute", "validate"), heard, strict=True):
        assert words.startswith(f"server '{name}' cannot be reached: nothing listens at ")
        assert "its operator starts it with `fedvalue serve`" in words


def test_an_exchange_survives_a_restart_of_both_servers(guests):
    """The card is in the lobby, both servers stop and start, the rest follows; new cards need no restart."""
    with guests.serving():
        deliver(*guests.accept("telco"), PATIENCE, unheard)
    with guests.serving():
        ends = guests.agree("bank", "telco")
        assert isinstance(ends["bank"], SignedManifest), ends
        assert ends["bank"] == ends["telco"]
        assert guests.words["bank"] == guests.words["telco"]
        # The servers pinned the cards before they signed: the party connects as itself, at once.
        manifest = ends["bank"].manifest
        identity = read_identity(guests.home("telco").identity)
        with closing(ServerClient(identity, manifest.compute, manifest, patience=PATIENCE)) as client:
            assert client.health().name == "compute"
        until(lambda: guests.home("compute").agreement().signed is not None, what="the server's copy")
        assert guests.home("compute").agreement().signed == ends["bank"]
        # Accepting again changes nothing; a second telco finds the seat taken.
        deliver(*guests.accept("telco"), PATIENCE, unheard)
        assert code_of(deliver, *guests.accept("telco", "thief"), PATIENCE, unheard) == "E_CONFLICT"


def test_a_stranger_does_not_get_into_the_lobby_nor_a_guest_out_of_it(guests, tmp_path):
    other = Guests(tmp_path / "other")
    try:
        with guests.serving():
            seat = guests.invitation.servers[0]
            with closing(RemoteLobby(guests.invitation, seat)) as lobby:
                until(lambda: code_or_none(lobby) is None, what="the lobby")
                assert code_of(lobby.leave, wire.Note("nobody", "acceptance", b"x")) == "E_SENDER"
                assert code_of(lobby.leave, wire.Note("telco", "song", b"x")) == "E_SENDER"
            with closing(RemoteLobby(other.invitation, seat)) as stranger:
                assert code_of(stranger.look, 0) == "E_UNREACHABLE"
            own = guests.invitation.lobby_identity
            target = Participant.from_card(own.card, seat.endpoint)
            with closing(ServerClient(own, target, guests.invitation, patience=0.0)) as guest:
                assert code_of(guest.status, bytes(32)) == "E_RUN"
                assert code_of(guest.look, other.invitation.id, 0) == "E_INVITATION"
    finally:
        other.close()


def code_or_none(lobby: RemoteLobby) -> str | None:
    try:
        lobby.look(0)
    except FedValueError as error:
        return error.code
    return None


def test_a_server_that_swaps_a_card_in_its_lobby_is_found_out(guests):
    """The validation server puts a card of its own in the site of telco's: nobody signs anything."""
    with guests.serving():
        deliver(*guests.accept("telco"), PATIENCE, unheard)
        agreement, identity = guests.accept("telco", "evil")
        fake = agreement.exchange(identity).outgoing()["acceptance"]
        with closing(
            sqlite3.connect(guests.home("validate").state / "server.sqlite", timeout=PATIENCE)
        ) as db:
            db.execute("UPDATE lobby SET body = ? WHERE seat = 'telco' AND kind = 'acceptance'", (fake,))
            db.commit()
        ends = guests.agree("bank")
    assert isinstance(ends["bank"], FedValueError)
    assert ends["bank"].code == "E_EQUIVOCATION"
    assert "show different messages of 'telco'" in str(ends["bank"])
    assert guests.home("bank").agreement().signed is None
    assert not guests.words


def test_whoever_has_the_invitation_and_the_network_can_pose_as_a_lobby(guests):
    """Why words are compared, and why the documents count such a reader like both servers together: the key
    of a lobby follows from the invitation, so a caller does not know which of its readers answers."""
    text = guests.invitation.to_text()

    class Impostor:
        """Knows the text alone, and no key of an operator."""

        def __init__(self) -> None:
            self.notes: list[wire.Note] = []

        def leave(self, peer: Peer, request: wire.Leave) -> wire.Notes:
            self.notes.append(wire.Note(request.seat, request.kind, request.body))
            return wire.Notes(wire.VERSION, ())

        def look(self, peer: Peer, request: wire.Look) -> wire.Notes:
            return wire.Notes(wire.VERSION, tuple(self.notes[request.after :]))

        submit = post = poll = status = health = refused = None

    stolen, nobody = Invitation.from_text(text), create_identity("alpha", "compute", "compute")
    backend: Any = Impostor()
    door = NetworkServer(
        backend, identity=nobody, roots=b"", listen="127.0.0.1:0", lobbies=[stolen.lobby_identity]
    )
    door.start()
    lobby = RemoteLobby(guests.invitation, guests.invitation.servers[0], f"127.0.0.1:{door.port}")
    try:
        agreement, identity = guests.accept("telco")
        acceptance = agreement.exchange(identity).outgoing()["acceptance"]
        lobby.leave(wire.Note("telco", "acceptance", acceptance))
        assert [note.body for note in lobby.look(0)] == [acceptance]
    finally:
        lobby.close()
        door.stop(0.1)


def test_status_during_the_exchange_names_who_is_awaited_and_follows_it(guests):
    """At a party and at a server; the site is read again, so a watch sees the agreement come."""
    site = site_of(None, guests.home("bank").folder)
    server = site_of(None, guests.home("compute").folder)
    with guests.serving():
        until(lambda: all(one.reachable for one in read_status(site).runs[0].servers), what="the lobbies")
        until(lambda: read_status(server).runs[0].awaited == ("telco",), what="the servers' acceptances")
        (run,) = read_status(site).runs
        assert (run.stage, run.awaited) == ("inviting", ("telco",))
        assert run.next == "Wait for telco to accept the invitation, or remind them."
        assert run.deadline == guests.invitation.proposal.expires
        guests.accept("telco")
        guests.agree("bank", "telco")
        assert [one.stage for one in read_status(site, ask=False).runs] == ["open"]
