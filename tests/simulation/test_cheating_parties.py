"""Data parties that cheat: what they upload is not what their own column says."""

from __future__ import annotations

import numpy as np
import pytest

from fedvalue.crypto.permute import row_order
from fedvalue.protocol.authenticators import CodeCheck, codewords
from fedvalue.protocol.mirror_party import MirrorWork
from fedvalue.protocol.naming import label_name
from fedvalue.protocol.transitions import State
from tests.simulation.world import Codes, World, run

EVIL = "p1"
N = 24


def world() -> World:
    """A binary label, an honest party with two codes, and a party without any data of its own."""
    base = World.drawn(3, n=N, sizes=(2, 2), n_task=3)
    return World(
        base.label, base.task, (base.parties[0], Codes(EVIL, np.zeros(N, dtype=np.int64), 2)), base.ids
    )


honest = MirrorWork._masked


def rows_of(work: MirrorWork, server: str, person: int) -> int:
    order, _ = row_order(work._ring.row_order(server), work._hashes)
    return int(np.flatnonzero(order == person)[0])


def copy_label(work: MirrorWork, server: str) -> np.ndarray:
    """Own digit 0 and label digit + 1 in every row: the carry writes the label into the own digit."""
    words = honest(work, server)
    if work._name == EVIL:
        strides, own = work._naming.layout.stride, work._naming.renamed(server, EVIL)
        place = work._naming.place(EVIL)
        words[:, 0] += np.uint64((strides[1] - int(own[0]) * strides[place]) % 2**64)
    return words


def secrets_with_neighbours(n: int) -> list[bytes]:
    """Secrets under which the cheat's coordinate stands right after the label's."""
    found = []
    for k in range(256):
        cast = world().cast(secret=bytes([k]) * 32)
        run(cast)
        if cast.task.outcome is not None and cast.task.outcome.order[0] == EVIL:
            found.append(bytes([k]) * 32)
            if len(found) == n:
                break
    return found


def test_a_data_party_cannot_copy_the_label_by_a_carry(monkeypatch: pytest.MonkeyPatch) -> None:
    """E_AUTH in every trial. Without the authenticators it would own the whole value of the label."""
    trials = secrets_with_neighbours(4)
    monkeypatch.setattr(MirrorWork, "_masked", copy_label)
    for secret in trials:
        cast = world().cast(secret=secret)
        postman = run(cast)
        assert postman.codes() == {"E_AUTH"}
        assert all(party.outcome is None for party in (cast.task, *cast.parties))
    monkeypatch.setattr(CodeCheck, "check", lambda self, sums: None)
    cast = world().cast(secret=trials[0])
    run(cast)
    shares = cast.task.outcome.shares
    assert shares[EVIL]["value"] > 0.3 > shares["p0"]["value"]


@pytest.mark.parametrize("column", ["label", "p0"])
@pytest.mark.parametrize("servers", [("compute",), ("compute", "validate")])
def test_an_abort_says_nothing_about_the_person_attacked(
    column: str, servers: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One person's digit shifted: every role fails with the same code and text, whatever the value was."""
    seen = set()
    values = set()
    for person in range(8):

        def shift(work: MirrorWork, server: str, person: int = person) -> np.ndarray:
            words = honest(work, server)
            if work._name == EVIL and server in servers:
                name = label_name(work._settings) if column == "label" else column
                stride = work._naming.layout.stride[work._naming.place(name)]
                words[rows_of(work, server, person), 0] += np.uint64(stride)
            return words

        monkeypatch.setattr(MirrorWork, "_masked", shift)
        here = world()
        values.add(int((here.label if column == "label" else here.parties[0]).codes[person]))
        cast = here.cast()
        postman = run(cast)
        assert {role.state for role in cast.everyone()} <= {State.FAILED, State.DONE}
        assert all(party.outcome is None for party in (cast.task, *cast.parties))
        seen.add(tuple(sorted((name, error.code, str(error)) for name, error in postman.errors.items())))
    assert values == {0, 1}
    assert len(seen) == 1
    assert {code for failures in seen for _, code, _ in failures} == {"E_AUTH"}


def test_a_shift_with_a_guessed_authenticator_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Adding its own codewords' difference does not help: the label's are under another key."""

    def guess(work: MirrorWork, server: str) -> np.ndarray:
        words = honest(work, server)
        if work._name == EVIL:
            own = codewords(work._ring.code_key(server, EVIL), 2)
            words[:, 0] += np.uint64(work._naming.layout.stride[1])
            words[:, -1] += own[1]
            words[:, -1] -= own[0]
        return words

    monkeypatch.setattr(MirrorWork, "_masked", guess)
    assert run(world().cast()).codes() == {"E_AUTH"}
