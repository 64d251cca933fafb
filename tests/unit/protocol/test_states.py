"""Every role in every state with every message: handled as the table says, or refused for good."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from fedvalue.errors import FedValueError, LocalProtocolError, RemoteProtocolError, TransportError
from fedvalue.protocol import codec
from fedvalue.protocol import messages as m
from fedvalue.protocol.error_codes import BREACHES, CHECKS
from fedvalue.protocol.role import Role
from fedvalue.protocol.transitions import FINAL, TABLES, RoleName, State, mermaid
from tests.simulation.world import RUN_ID, Postman, World
from tests.unit.protocol.test_codec import one_of_each

WORLD = World.drawn(1, n=12).with_features()
KINDS = {kind.__name__: kind for kind in m.AnyMessage.__args__}


RUNS = {
    "mirror": {"protocol": "mirror"},
    "mirror, intersect": {"protocol": "mirror", "align": "intersect", "columns": "features"},
    "paper": {"protocol": "paper", "n_r": 1, "columns": "features"},
    "gram": {"protocol": "gram", "epsilon": "1"},
}


@cache
def journals(run: str) -> dict[str, list[tuple[State, m.Envelope]]]:
    """What each role received in an honest run, with the state it was in."""
    seen: dict[str, list[tuple[State, m.Envelope]]] = {}

    class Writing(Postman):
        def _deliver(self, envelope: m.Envelope) -> None:
            role = self._by_name[envelope.recipient]
            seen.setdefault(role.name, []).append((role.state, envelope))
            super()._deliver(envelope)

    Writing(WORLD.cast(**RUNS[run]).everyone(), seed=3).run()
    return seen


def in_state(run: str, name: str, state: State) -> Role | None:
    """The role, brought into that state by an honest journal; None if it is never there."""
    role = next((r for r in WORLD.cast(**RUNS[run]).everyone() if r.name == name), None)
    if role is None:
        return None  # only gram has an assisting server
    if state is State.CREATED:
        return role
    role.start()
    for _, envelope in journals(run)[name]:
        if role.state is state:
            return role
        role.receive(envelope)
    return role if role.state is state else None


def outcome_of(role: Role, envelope: m.Envelope) -> tuple[list[m.Envelope], str]:
    """What a role sends, and the code of its refusal."""
    try:
        return role.receive(envelope), ""
    except FedValueError as error:
        return [], error.code


ROLES = {
    "task party": RoleName.TASK_PARTY,
    "p0": RoleName.DATA_PARTY,
    "compute": RoleName.COMPUTATION_SERVER,
    "validate": RoleName.VALIDATION_SERVER,
    "assist": RoleName.ASSISTING_SERVER,
}


@pytest.mark.parametrize("protocol", sorted(RUNS))
@pytest.mark.parametrize("name", sorted(ROLES))
@pytest.mark.parametrize("state", [s for s in State if s is not State.FAILED])
def test_every_message_in_every_state(protocol: str, name: str, state: State) -> None:
    """A message that the table does not have raises E_STATE (or E_SENDER) and fails the run; a finished
    run stays finished; nothing is sent."""
    if in_state(protocol, name, state) is None:
        other_runs = {State.ALIGNING: "intersect", State.COMPARING: "mirror"}
        never = state in other_runs and other_runs[state] not in protocol
        assert never or state not in TABLES[ROLES[name]] or (name == "assist" and protocol != "gram")
        return
    legal = TABLES[ROLES[name]].get(state, {})
    for kind_name, kind in KINDS.items():
        sample = codec.decode(one_of_each()[kind_name]).message
        for sender in ("compute", "task party", "p1", "validate", "assist"):
            role = in_state(protocol, name, state)
            assert role is not None
            envelope = m.Envelope(RUN_ID, sender, name, sample)
            if kind is m.Abort and state in FINAL:
                continue
            already_there = (sender, *sample.slot) in role._seen
            sent, code = outcome_of(role, envelope)
            if code:
                assert role.state is (State.DONE if state is State.DONE else State.FAILED)
                illegal = kind not in legal and not already_there and kind is not m.Abort
                assert not illegal or code in ("E_STATE", "E_SENDER")
            else:
                # The sample may be the very message of this run: then it was legal, or a resend.
                assert kind in legal or already_there
                if already_there:
                    assert sent == []
                    assert role.state is state


@pytest.mark.parametrize("name", sorted(ROLES))
def test_failed_is_final(name: str) -> None:
    role = in_state("gram" if name == "assist" else "mirror", name, State.UPLOADING)
    assert role is not None
    first = role.fail(RemoteProtocolError("deadline", code="E_DEADLINE"))
    assert role.state is State.FAILED
    assert {type(envelope.message) for envelope in first} == {m.Abort}
    for sample in one_of_each().values():
        with pytest.raises(RemoteProtocolError) as refused:
            role.receive(codec.decode(sample))
        assert refused.value.code == "E_STATE"
    assert role.state is State.FAILED
    assert role.failure is not None
    assert role.failure.code == "E_DEADLINE"


def test_who_is_missing_is_passed_on_by_everybody_who_hears_of_it() -> None:
    """Whichever server's word comes first: the name of the one who did not come is in it."""
    role = in_state("mirror", "validate", State.UPLOADING)
    assert role is not None
    late = role.terms.parties[0]
    told = m.Envelope(RUN_ID, "task party", "validate", m.Abort("E_DEADLINE", (late, "stranger")))
    with pytest.raises(TransportError, match=f"'task party' has ended the run; missing: {late}$") as ended:
        role.receive(told)
    assert ended.value.code == "E_DEADLINE"
    notices = role.fail(ended.value)
    words = f"'task party' has ended the run; missing: {late}"
    assert {envelope.message for envelope in notices} == {
        m.Abort("E_DEADLINE", (late,), words, "TransportError")
    }
    assert codec.decode(codec.encode(told)) == told


def test_a_finished_run_cannot_be_failed() -> None:
    role = in_state("mirror", "task party", State.DONE)
    assert role is not None
    assert role.fail(RemoteProtocolError("late")) == []
    assert role.receive(m.Envelope(RUN_ID, "compute", "task party", m.Abort("E_DEADLINE"))) == []
    assert role.state is State.DONE
    assert role.outcome is not None  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"run_id": bytes(32)}, "E_RUN"),
        ({"recipient": "p1"}, "E_RUN"),
        ({"sender": "nobody"}, "E_SENDER"),
        ({"sender": "p1"}, "E_SENDER"),
    ],
)
def test_messages_for_or_from_others_are_refused(changed: dict, code: str) -> None:
    role = in_state("mirror", "p0", State.KEYING)
    assert role is not None
    fields = {"run_id": RUN_ID, "sender": "compute", "recipient": "p0", "message": m.KeyRoster(())} | changed
    with pytest.raises(RemoteProtocolError) as refused:
        role.receive(m.Envelope(**fields))
    assert refused.value.code == code
    assert role.state is State.FAILED


def test_a_role_starts_once() -> None:
    role = in_state("mirror", "p0", State.KEYING)
    assert role is not None
    with pytest.raises(LocalProtocolError):
        role.start()


def test_tables_lead_from_the_first_state_to_done() -> None:
    """Every state of a table can be reached and can go on."""
    for role, table in TABLES.items():
        targets = {state for steps in table.values() for states in steps.values() for state in states}
        assert State.DONE in targets
        waiting = (RoleName.VALIDATION_SERVER, RoleName.ASSISTING_SERVER)
        first = State.ALIGNING if role in waiting else State.KEYING
        assert set(table) == (targets | {first}) - FINAL


def test_documentation_shows_the_tables() -> None:
    """docs/protocol.md holds every diagram as it is drawn from the table."""
    text = (Path(__file__).parents[3] / "docs" / "protocol.md").read_text(encoding="utf-8")
    for role in RoleName:
        assert f"```mermaid\n{mermaid(role)}\n```" in text


@pytest.mark.parametrize("state", [State.DONE, State.FAILED])
def test_a_party_drops_its_keys_at_the_end(state: State) -> None:
    role = in_state("mirror", "p0", State.DONE if state is State.DONE else State.UPLOADING)
    assert role is not None
    role.fail(RemoteProtocolError("deadline", code="E_DEADLINE"))
    assert role.state is state
    assert (role._ring, role._hashes, role._work) == (None, None, None)  # type: ignore[attr-defined]
    assert role._agreement._private == b""  # type: ignore[attr-defined]
    assert role._agreement._pairs == {}  # type: ignore[attr-defined]


def test_a_strange_code_is_not_sent() -> None:
    role = in_state("mirror", "p0", State.UPLOADING)
    assert role is not None
    for notice in role.fail(RemoteProtocolError("x", code="E_ü 1")):
        assert codec.decode(codec.encode(notice)).message == m.Abort("E_PROTOCOL")


def test_secrets_stay_out_of_repr() -> None:
    for role in WORLD.cast().everyone():
        assert repr(role) == f"{type(role).__name__}(name={role.name!r}, state='created')"
        text = repr(role._credentials) if hasattr(role, "_credentials") else ""
        assert "seed" not in text
        assert "signing_key" not in text


def test_documentation_lists_every_code() -> None:
    text = (Path(__file__).parents[3] / "docs" / "protocol.md").read_text(encoding="utf-8")
    for code, meaning in (CHECKS | BREACHES).items():
        assert f"| `{code}` | {meaning} |" in text


def test_documentation_names_every_message() -> None:
    text = (Path(__file__).parents[3] / "docs" / "protocol.md").read_text(encoding="utf-8")
    for name in KINDS:
        assert f"`{name}`" in text
