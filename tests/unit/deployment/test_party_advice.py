"""What a party is told while it waits, and when a run has failed."""

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
