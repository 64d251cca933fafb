"""What a server cannot do to a party: break it, fill it, make it keep secrets, or show two histories."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fedvalue.agreement.run_settings import credentials_of
from fedvalue.deployment.network import wire
from fedvalue.deployment.parties.party_journal import PartyJournal, PartyResult
from fedvalue.deployment.parties.party_run import PartyRun, party_role
from fedvalue.deployment.parties.party_store import PartyStore
from fedvalue.deployment.parties.server_heads import ServerHeads
from fedvalue.deployment.parties.server_links import Outgoing
from fedvalue.errors import ConfigError, FedValueError, RemoteProtocolError, VerificationError
from fedvalue.identity.audit_log import ChainWriter, Receipt, read_log
from fedvalue.protocol import codec
from fedvalue.protocol import messages as m
from fedvalue.protocol.key_agreement import KeyAgreement
from fedvalue.protocol.transitions import State
from tests.support.consortium import identity, manifest, signed
from tests.support.roles import party_input

GIVEN = party_input(np.arange(1000) % 4)


def standing(writer: ChainWriter | None, accepted: int = 1) -> wire.Standing:
    head = None
    if writer is not None and writer.receipt is not None:
        one = writer.receipt
        head = wire.SignedHead(one.actor, one.seq, bytes.fromhex(one.head), one.signature)
    return wire.Standing(wire.VERSION, "running", accepted, 0, head=head)


def history(*events: str) -> ChainWriter:
    writer = ChainWriter(identity("compute"), manifest().run_id.hex())
    for event in events:
        writer.append(event, "", "2030-01-01T00:00:00Z")
    return writer


def test_heads_that_grow_are_kept_once():
    heads = ServerHeads(manifest())
    heads.take("compute", standing(None, accepted=0))
    for events in (("a",), ("a", "b"), ("a", "b"), ("a", "b", "c")):
        heads.take("compute", standing(history(*events)))
    for _ in range(100):  # it waits
        heads.take("compute", standing(history("a", "b", "c")))
    assert len(heads._fresh) == 3
    assert [receipt.seq for receipt in heads.fresh()] == [0, 1, 2]
    heads.take("compute", standing(history("a", "b", "c")))
    assert heads.fresh() == []


@pytest.mark.parametrize(
    ("shown", "word"),
    [
        (standing(None), "no head"),
        (standing(history("a", "b", "other")), "two different entries"),
        (standing(history("a", "b")), "gone back"),
    ],
    ids=["none", "forked", "older"],
)
@pytest.mark.parametrize("restarted", [False, True])
def test_a_server_that_hides_forks_or_takes_back_its_log_is_found_out(shown, word, restarted):
    heads = ServerHeads(manifest())
    heads.take("compute", standing(history("a", "b", "c")))
    if restarted:
        heads = ServerHeads(manifest(), heads.fresh())
    with pytest.raises(VerificationError, match=word) as caught:
        heads.take("compute", shown)
    assert caught.value.code == "E_AUDIT"


def test_a_head_that_the_server_did_not_sign_is_refused():
    forged = ChainWriter(identity("validate"), manifest().run_id.hex())
    forged.append("a", "", "2030-01-01T00:00:00Z")
    with pytest.raises(VerificationError) as caught:
        ServerHeads(manifest()).take("compute", standing(forged))
    assert caught.value.code == "E_SIGNATURE"


def test_replies_of_two_threads_may_pass_each_other():
    heads = ServerHeads(manifest())
    heads.take("compute", standing(history("a", "b")))
    other = threading.Thread(target=heads.take, args=("compute", standing(history("a"))))
    other.start()
    other.join()
    heads.take("compute", standing(history("a", "b", "c")))
    assert {receipt.seq for receipt in heads.fresh()} == {0, 1, 2}


def test_both_heads_of_a_contradiction_are_kept_as_evidence(tmp_path):
    store = PartyStore(tmp_path)
    try:
        receipts = [history("a").receipt, history("b").receipt]
        store.add(manifest().run_id, receipts=[*receipts, receipts[0]])
        assert [Receipt.from_line(line) for line in store.receipts(manifest().run_id)] == sorted(
            receipts, key=Receipt.to_line
        )
    finally:
        store.close()


def test_what_was_received_is_stored_before_the_next_message_leaves(tmp_path):
    """A message after which nothing was sent is not written on its own: its server sends it again."""
    run_id, store = manifest().run_id, PartyStore(tmp_path)
    try:
        journal, outgoing = PartyJournal(store, identity("telco"), manifest()), {"compute": Outgoing()}
        journal.receive("compute", 0, b"first")
        journal.keep_receipts([history("a").receipt])
        journal.send([], outgoing)
        assert (store.inbox(run_id), store.receipts(run_id), store.audit(run_id)) == ([], [], [])
        journal.receive("compute", 1, b"second")
        journal.send([m.Envelope(run_id, "telco", "compute", m.Abort("E_STATE"))], outgoing)
        assert store.inbox(run_id) == [("compute", 0, b"first"), ("compute", 1, b"second")]
        assert len(store.sent(run_id, "compute")) == len(store.receipts(run_id)) == 1
        journal.receive("compute", 2, b"third")
        journal.flush()
        assert [body for _, _, body in store.inbox(run_id)] == [b"first", b"second", b"third"]
        entries = read_log(store.audit(run_id), identity("telco").card.sign_key)
        assert [one.event for one in entries] == [*["received compute"] * 2, "sending", "received compute"]
    finally:
        store.close()


def test_a_party_that_would_send_other_bytes_after_a_restart_sends_nothing(tmp_path):
    """Two messages under the same masks would show their difference."""
    run_id, store = manifest().run_id, PartyStore(tmp_path)

    def start(outgoing: Outgoing, *codes: str) -> None:
        envelopes = [m.Envelope(run_id, "telco", "compute", m.Abort(code)) for code in codes]
        PartyJournal(store, identity("telco"), manifest()).send(envelopes, {"compute": outgoing})

    try:
        first, same, other = Outgoing(), Outgoing(), Outgoing()
        start(first, "E_STATE", "E_SEAL")
        start(same, "E_STATE", "E_SEAL", "E_RUN")
        assert same.get(2, 0.0) is not None
        with pytest.raises(ConfigError, match="message 1 to 'compute' differs") as caught:
            start(other, "E_STATE", "E_CONFIRM")
        assert caught.value.code == "E_CONFLICT"
        assert other.get(0, 0.0) is None
        assert len(store.sent(run_id, "compute")) == 3
        assert len(read_log(store.audit(run_id), identity("telco").card.sign_key)) == 2
    finally:
        store.close()


def test_a_run_never_continues_with_another_table(tmp_path):
    store = PartyStore(tmp_path)
    try:
        journal = PartyJournal(store, identity("telco"), manifest())
        seed = journal.begin(bytes(32)).seed
        assert len(seed) == 32
        assert journal.begin(bytes(32)).seed == seed
        with pytest.raises(ConfigError, match="the table has changed") as caught:
            journal.begin(b"x" * 32)
        assert caught.value.code == "E_CONFLICT"
    finally:
        store.close()


def test_a_server_cannot_claim_more_messages_than_have_left():
    outgoing = Outgoing()
    outgoing.append(m.Envelope(bytes(32), "telco", "compute", m.Abort("E_STATE")))
    outgoing.release()
    with pytest.raises(RemoteProtocolError) as caught:
        outgoing.delivered(5)
    assert caught.value.code == "E_STATE"
    outgoing.delivered(1)


class _Silent:
    """A server that accepts everything, and has one message for us or none."""

    def __init__(self, name: str, *mail: bytes) -> None:
        self.name, self._mail = name, mail

    def submit(self, text: bytes) -> wire.Standing:
        return standing(None, accepted=0)

    def post(self, run_id: bytes, number: int, *body: bytes) -> wire.Standing:
        return standing(None, accepted=0)

    def poll(self, run_id: bytes, number: int, wait: float, patience: float) -> wire.Mail:
        return wire.Mail(wire.VERSION, self._mail[number:], standing(None, accepted=0))

    def close(self) -> None:
        pass


def told(tmp_path, monkeypatch, envelope: m.Envelope) -> tuple[FedValueError, tuple[str, bytes]]:
    """How a party ends that gets this message from the computation server; state and seed of its run."""
    agreed, store = signed(), PartyStore(tmp_path)
    party = PartyRun(
        identity("telco"), agreed, GIVEN, store, finish=lambda outcome: PartyResult(valuation=None)
    )
    mail = {"compute": (codec.encode(envelope),), "validate": ()}
    monkeypatch.setattr(party, "_client", lambda server: _Silent(server, *mail[server]))
    monkeypatch.setattr("fedvalue.deployment.parties.party_run._NOTICE_SECONDS", 0.0)
    try:
        with pytest.raises(FedValueError) as caught:
            party.run()
        return caught.value, store._db.one("SELECT state, seed FROM runs")
    finally:
        store.close()


def test_a_server_cannot_speak_for_the_other_one(tmp_path, monkeypatch):
    """The message is well-formed and one that the validation server may send."""
    envelope = m.Envelope(signed().run_id, "validate", "telco", m.Abort("E_DEADLINE"))
    error, _ = told(tmp_path, monkeypatch, envelope)
    assert error.code == "E_SENDER"
    assert "'compute' sent a message as 'validate'" in str(error)


@pytest.mark.parametrize("code", ["E_STORAGE", "E_UNREACHABLE", "E_IDENTITY"])
def test_a_notice_ends_the_run_whatever_its_code_and_the_seed_is_erased(tmp_path, monkeypatch, code):
    abort = m.Abort(code, (), "\x1b[2Jall is well", "EngineError")
    error, row = told(tmp_path, monkeypatch, m.Envelope(signed().run_id, "compute", "telco", abort))
    assert error.code == code
    assert "\x1b" not in str(error)
    assert row == ("failed", b"")


class _Endless(_Silent):
    """A server with as much mail as anybody takes, which `message` makes by its number."""

    def __init__(self, name: str, message: Callable[[int], m.AnyMessage | None]) -> None:
        super().__init__(name)
        self._message, self.n_sent = message, 0

    def poll(self, run_id: bytes, number: int, wait: float, patience: float) -> wire.Mail:
        mail = []
        for k in range(number, number + wire.MAX_MAIL):
            message = self._message(k)
            if message is not None:
                mail.append(codec.encode(m.Envelope(run_id, self.name, "telco", message)))
        self.n_sent += len(mail)
        return wire.Mail(wire.VERSION, tuple(mail), standing(None, accepted=0))


def ended(tmp_path, monkeypatch, server: _Endless, **options: Any) -> tuple[FedValueError, PartyRun]:
    """How a party ends that gets mail from this computation server."""
    store = PartyStore(tmp_path)
    party = PartyRun(
        identity("telco"), signed(), GIVEN, store,
        finish=lambda outcome: PartyResult(valuation=None), **options,
    )  # fmt: skip
    monkeypatch.setattr(party, "_client", lambda name: server if name == server.name else _Silent(name))
    monkeypatch.setattr("fedvalue.deployment.parties.party_run._NOTICE_SECONDS", 0.0)
    caught: list[FedValueError] = []

    def run() -> None:
        try:
            party.run()
        except FedValueError as error:
            caught.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        thread.join(20.0)
        assert caught, f"still taking mail after {server.n_sent} messages"
        return caught[0], party
    finally:
        server._message = lambda k: None
        store.close()


def test_a_server_that_sends_the_same_message_for_ever_ends_the_run(tmp_path, monkeypatch):
    """A role ignores a resend, and a party keeps what it receives until something leaves."""
    role = party_role(identity("telco"), manifest(), GIVEN.samples, b"s" * 32)
    (hello,) = role.start()
    bank, shop = (
        KeyAgreement(role.terms, name, credentials_of(manifest(), identity(name), b"t" * 32), b"").hello()
        for name in ("bank", "shop")
    )
    roster = m.KeyRoster((bank, hello.message, shop))
    role.receive(m.Envelope(signed().run_id, "compute", "telco", roster))  # legal, and ignored when repeated
    assert role.receive(m.Envelope(signed().run_id, "compute", "telco", roster)) == []
    monkeypatch.setattr("secrets.token_bytes", lambda n: b"s" * n)
    error, party = ended(tmp_path, monkeypatch, _Endless("compute", lambda k: roster))
    assert (error.code, len(party._slots)) == ("E_CONFLICT", 1)
    assert "sent a second KeyRoster" in str(error)


def test_a_server_that_always_has_another_message_does_not_keep_a_party_beyond_its_deadline(
    tmp_path, monkeypatch
):
    class Patient:
        """Takes every message, and is never done."""

        state = State.UPLOADING
        terms = party_role(identity("telco"), manifest(), GIVEN.samples, b"s" * 32).terms
        taken = 0

        def start(self) -> list[m.Envelope]:
            return []

        def receive(self, envelope: m.Envelope) -> list[m.Envelope]:
            self.taken += 1
            return []

        def fail(self, error: FedValueError) -> list[m.Envelope]:
            return []

    role = Patient()
    monkeypatch.setattr("fedvalue.deployment.parties.party_run.party_role", lambda *_: role)
    server = _Endless("compute", lambda k: m.ResultChunk(k, 2**31, b"", b"x").with_digest())
    error, _ = ended(tmp_path, monkeypatch, server, clock=lambda: 1e9 * (role.taken > 100))
    assert error.code == "E_DEADLINE"


def test_seeds_of_expired_runs_are_erased(tmp_path):
    store = PartyStore(tmp_path)
    try:
        for k, expires in enumerate((100.0, 300.0)):
            store.begin(bytes([k]) * 32, seed=b"s" * 32, digest=bytes(32), expires=expires)
        assert store.erase_expired(200.0) == 1
        rows = store._db.rows("SELECT state, code, seed FROM runs ORDER BY run_id")
        assert rows == [("failed", "E_DEADLINE", b""), ("running", "", b"s" * 32)]
        assert store.erase_expired(200.0) == 0
    finally:
        store.close()
