"""What a party reports while it waits, and the advice after a failed run."""

from __future__ import annotations

import numpy as np
import pytest

from fedvalue.deployment.network import wire
from fedvalue.deployment.parties.party_journal import PartyResult
from fedvalue.deployment.parties.party_run import PartyRun
from fedvalue.deployment.parties.party_store import PartyStore
from fedvalue.errors import FedValueError
from fedvalue.protocol import codec
from fedvalue.protocol import messages as m
from tests.support.consortium import identity, signed
from tests.support.roles import party_input

GIVEN = party_input(np.arange(1000) % 4)


class _Server:
    """A server that accepts everything, and has one message for us or none."""

    def __init__(self, name: str, *mail: bytes) -> None:
        self.name, self._mail = name, mail

    def submit(self, text: bytes) -> wire.Standing:
        return wire.Standing(wire.VERSION, "running", 0, 0)

    def post(self, run_id: bytes, number: int, *body: bytes) -> wire.Standing:
        return wire.Standing(wire.VERSION, "running", 0, 0)

    def poll(self, run_id: bytes, number: int, wait: float, patience: float) -> wire.Mail:
        return wire.Mail(wire.VERSION, self._mail[number:], wire.Standing(wire.VERSION, "running", 0, 0))

    def close(self) -> None:
        pass


@pytest.mark.parametrize(
    ("code", "suspicious"),
    [
        ("E_MIRROR", True),
        ("E_EQUIVOCATION", True),
        ("E_SPLIT", True),
        ("E_DEADLINE", False),
        ("E_GATE", False),
    ],
)
def test_nobody_is_told_to_repeat_a_run_with_a_cheater(tmp_path, monkeypatch, code, suspicious):
    """Neither when the run fails nor when the same command is given again."""
    agreed, store, reported = signed(), PartyStore(tmp_path), []
    notice = m.Envelope(
        agreed.run_id, "compute", "telco", m.Abort(code, (), "it failed", "VerificationError")
    )
    mail = {"compute": (codec.encode(notice),), "validate": ()}
    monkeypatch.setattr("fedvalue.deployment.parties.party_run._NOTICE_SECONDS", 0.0)
    monkeypatch.setattr(PartyRun, "_client", lambda self, server: _Server(server, *mail[server]))
    said = []
    try:
        for _ in range(2):
            party = PartyRun(
                identity("telco"), agreed, GIVEN, store,
                finish=lambda outcome: PartyResult(valuation=None),
                report=lambda stage, words: reported.append((stage, words)),
            )  # fmt: skip
            with pytest.raises(FedValueError) as caught:
                party.run()
            assert caught.value.code == code
            said.append(str(caught.value))
    finally:
        store.close()
    (advice,) = (words for stage, words in reported if stage == "next")
    for words in (advice, said[1]):
        assert ("--again" in words) is not suspicious
        assert ("keep the audit log and the receipts" in words) is suspicious


class _Waiting(_Server):
    """A computation server that waits for shop at two stages, and then ends the run."""

    def __init__(self, name: str, *mail: bytes) -> None:
        super().__init__(name, *mail)
        self._polls = 0

    def submit(self, text: bytes) -> wire.Standing:
        return wire.Standing(wire.VERSION, "open", 0, 0, reason="for shop", deadline=3600.0)

    def poll(self, run_id: bytes, number: int, wait: float, patience: float) -> wire.Mail:
        self._polls += 1
        if self._polls > 4:
            return super().poll(run_id, number, wait, patience)
        state, deadline = ("open", 86400.0) if self._polls <= 2 else ("running", 90000.0)
        standing = wire.Standing(wire.VERSION, state, 0, 0, reason="for shop", deadline=deadline)
        return wire.Mail(wire.VERSION, (), standing)


def test_a_party_is_told_at_every_stage_who_is_missing_and_until_when(tmp_path, monkeypatch):
    """The deadline is that of a poll: before it, the server does not know how long this party waits."""
    agreed, store, reported = signed(), PartyStore(tmp_path), []
    notice = codec.encode(m.Envelope(agreed.run_id, "compute", "telco", m.Abort("E_ABORTED")))
    servers = {"compute": _Waiting("compute", notice), "validate": _Server("validate")}
    monkeypatch.setattr("fedvalue.deployment.parties.party_run._NOTICE_SECONDS", 0.0)
    monkeypatch.setattr(PartyRun, "_client", lambda self, server: servers[server])
    party = PartyRun(
        identity("telco"), agreed, GIVEN, store,
        finish=lambda outcome: PartyResult(valuation=None),
        report=lambda stage, words: reported.append((stage, words)),
    )  # fmt: skip
    try:
        with pytest.raises(FedValueError):
            party.run()
    finally:
        store.close()
    assert [words for stage, words in reported if stage == "waiting" and words.startswith("for")] == [
        "for shop to start fedvalue join or run, until 1970-01-02 00:00 UTC",
        "for shop, until 1970-01-02 01:00 UTC",
    ]
