"""Runs with noise: both servers release the same noisy values, and nothing else; neither chose the noise."""

from __future__ import annotations

from hashlib import sha256

import msgspec
import numpy as np
import pytest

from fedvalue.crypto import keys
from fedvalue.errors import FedValueError, VerificationError
from fedvalue.federated.cast import Cast
from fedvalue.federated.valuation_parts import valuation_of
from fedvalue.information.pair_tables import PairLayout, PairTables, tables_of_columns
from fedvalue.protocol import codec
from fedvalue.protocol import messages as m
from fedvalue.protocol.mirror.server_result import (
    SHARE_CONTEXT,
    TASK_CONTEXT,
    ValuesResult,
    decode_result,
    open_share,
)
from fedvalue.protocol.noisy_release import drawn
from fedvalue.protocol.transitions import State
from tests.simulation.world import RUN_ID, Postman, World, check_rebuilt_server, run

WORLD = World.drawn(4, n=60, sizes=(2, 3, 4))
NAMES = tuple(party.name for party in WORLD.parties)


def noisy_cast(**options: object) -> Cast:
    return WORLD.cast("mirror", epsilon="1", **options)  # type: ignore[arg-type]


def outcome_values(cast: Cast) -> dict[str, float]:
    assert cast.task.outcome is not None
    return {name: cast.task.outcome.shares[name]["learnable"] for name in NAMES}


def opened(postman: Postman, server: str) -> tuple[ValuesResult, dict[str, object], list[dict[str, object]]]:
    """A server's result as the task party gets it, with every share opened."""
    sent = [codec.decode(data) for data in postman.log]
    given = next(e.message for e in sent if e.recipient == server and isinstance(e.message, m.ShareKeys))
    parts = [
        e.message.data
        for e in sent
        if e.sender == server and e.recipient == "task party" and isinstance(e.message, m.ResultChunk)
    ]
    result = decode_result(b"".join(parts))
    assert isinstance(result, ValuesResult)
    shares = [
        open_share(key, sealed, SHARE_CONTEXT)
        for key, sealed in zip(given.shares, result.shares, strict=True)
    ]
    return result, open_share(given.task, result.task, TASK_CONTEXT), shares


def exact_tables(cast: Cast) -> PairTables:
    """The tables of the world's columns, in the servers' order of parties, counted here."""
    assert cast.task.outcome is not None
    sizes = {party.name: party for party in WORLD.parties}
    parties = [sizes[name] for name in cast.task.outcome.order]
    task = [] if WORLD.task is None else [WORLD.task]
    columns = [*task, *parties]
    owner = (-1,) * len(task) + tuple(range(len(parties)))
    layout = PairLayout(
        tuple(c.n_codes for c in columns), owner, WORLD.label.n_codes, tuple(f"column {k}" for k in range(3))
    )
    return tables_of_columns(layout, [c.codes for c in columns], WORLD.label.codes)


def test_both_servers_release_the_same_numbers():
    """To the last bit: they add the same whole numbers to the same cells."""
    postman = run(noisy_cast())
    assert postman.states() == {State.DONE}
    found = [opened(postman, server) for server in ("compute", "validate")]
    assert found[0][1:] == found[1][1:]
    assert found[0][0].public == found[1][0].public
    for result, _, shares in found:
        assert "value" not in shares[0]
        assert result.public["learnable_total"] == pytest.approx(sum(s["learnable"] for s in shares))


def test_what_is_released_is_a_function_of_noisy_tables_with_the_noise_of_the_joint_key():
    """Cells differ by the draw from HKDF(C's contribution, V's contribution) alone, made here again.

    Servers see renamed codes, so the cells come in another order; values do not depend on it, but for the
    rounding of sums and the ties of equal ranks.
    """
    seen: list[PairTables] = []
    cast = WORLD.cast("mirror", epsilon="1")
    for role in cast.servers:
        honest = role._valuer  # type: ignore[attr-defined]

        def spying(tables, run, honest=honest):  # type: ignore[no-untyped-def]
            seen.append(tables)
            return honest(tables, run)

        role._valuer = spying  # type: ignore[attr-defined]
    postman = run(cast)
    sent = [codec.decode(data).message for data in postman.log]
    opening = next(one for one in sent if isinstance(one, m.NoiseOpening))
    seed = next(one for one in sent if isinstance(one, m.NoiseSeed))
    settings = cast.task.settings
    assert settings.privacy is not None
    key = keys.hkdf(opening.seed + seed.seed, salt=RUN_ID, info=b"fedvalue/1/noise\0")
    exact = exact_tables(cast)
    noise = np.array(drawn(settings.privacy, exact.layout, key))
    assert len(seen) == 2
    for tables in seen:
        assert tables.layout == exact.layout
        assert tables.label_variance == float(settings.privacy.label_variance)
        cut = exact.layout.n_label_cells
        for part in (slice(0, cut), slice(cut, None)):
            assert sorted((tables.cells - noise)[part]) == sorted(exact.cells[part])


def test_a_party_reads_its_own_value_and_the_total():
    cast = noisy_cast()
    run(cast)
    values = outcome_values(cast)
    for party in cast.parties:
        assert party.outcome is not None
        assert set(party.outcome.shares) == {party.name}
        assert party.outcome.shares[party.name]["learnable"] == values[party.name]


@pytest.mark.parametrize("seed", range(8))
def test_the_order_of_delivery_and_resends_change_nothing(seed):
    """The opening may come before or after the last upload at either server."""
    straight, other = noisy_cast(), noisy_cast()
    run(straight)
    assert run(other, seed=seed, twice=0.3).states() == {State.DONE}
    assert outcome_values(other) == outcome_values(straight)


def test_two_runs_have_different_noise():
    first, second = noisy_cast(), noisy_cast(run_id=sha256(b"another run").digest())
    run(first)
    run(second)
    a, b = outcome_values(first), outcome_values(second)
    assert all(a[name] != b[name] for name in NAMES)


def test_a_result_states_the_promise_and_has_no_exact_number():
    cast = noisy_cast()
    run(cast)
    assert cast.task.outcome is not None
    found = valuation_of(cast.task.outcome, NAMES, privacy=cast.task.settings.privacy)
    data = found.to_dict()
    assert not {"label_entropy", "total"} & set(data)
    assert all(not {"value", "alone", "last", "n_codes"} & set(party) for party in data["parties"])
    assert {key: data["privacy"][key] for key in ("epsilon", "delta")} == {"epsilon": 1.0, "delta": 1e-6}
    assert "one person" in data["privacy"]["adjacency"]
    assert "not the servers" in data["privacy"]["observer"]
    assert type(found).from_dict(data).to_dict() == data


def replaced(kind: type[m.Message], **fields: object):  # type: ignore[no-untyped-def]
    """A postman's hand that changes the fields of one kind of message."""

    def meddle(envelope: m.Envelope) -> list[m.Envelope]:
        if not isinstance(envelope.message, kind):
            return [envelope]
        changed = {
            name: value(getattr(envelope.message, name)) if callable(value) else value
            for name, value in fields.items()
        }
        return [
            msgspec.structs.replace(envelope, message=msgspec.structs.replace(envelope.message, **changed))
        ]

    return meddle


def nobody_has_a_result(cast: Cast) -> bool:
    return all(party.outcome is None for party in (cast.task, *cast.parties))


@pytest.mark.parametrize("seed", range(4))
def test_a_server_that_opens_another_seed_than_it_committed_to_is_detected(seed):
    """E_NOISE at the validation server and at every party; nothing is released."""
    cast = noisy_cast()
    postman = run(cast, seed=seed, meddler=replaced(m.NoiseOpening, seed=bytes(32)))
    assert isinstance(postman.errors["validate"], VerificationError)
    assert postman.errors["validate"].code == "E_NOISE"
    assert {postman.errors[party.name].code for party in (cast.task, *cast.parties)} == {"E_NOISE"}
    assert nobody_has_a_result(cast)


@pytest.mark.parametrize("seed", range(4))
def test_nobody_knows_the_noise_before_every_party_has_paid_for_it(seed):
    """V's contribution leaves after the last upload: a server cannot look at the noise of a run for free."""
    postman = run(noisy_cast(), seed=seed)
    sent = [codec.decode(data) for data in postman.log]
    fresh = next(role for role in noisy_cast().servers if role.name == "validate")
    fresh.start()
    for envelope in sent:
        if envelope.recipient == "validate" and isinstance(envelope.message, m.Ready | m.NoiseCommit):
            assert all(isinstance(reply.message, m.ReadyRoster) for reply in fresh.receive(envelope))
    assert fresh.state is State.UPLOADING
    uploads = [k for k, e in enumerate(sent) if e.recipient == "validate" and isinstance(e.message, m.Chunk)]
    (told,) = (k for k, e in enumerate(sent) if isinstance(e.message, m.NoiseSeed))
    assert len(uploads) == 4
    assert told > max(uploads)


def test_an_opening_without_a_commitment_is_refused():
    cast = noisy_cast()
    postman = run(cast, meddler=replaced(m.NoiseCommit, commitment=bytes(32)))
    assert postman.errors["validate"].code == "E_NOISE"
    assert nobody_has_a_result(cast)


def test_a_server_with_other_tables_is_detected_by_the_other_one():
    """A digest of other tables, before anything is released."""
    cast = noisy_cast()
    postman = run(cast, meddler=replaced(m.NoiseOpening, tables=bytes(32)))
    assert postman.errors["validate"].code == "E_MIRROR"
    assert nobody_has_a_result(cast)


def test_servers_that_do_not_have_the_same_contributions_release_nothing():
    cast = noisy_cast()
    postman = run(cast, meddler=replaced(m.NoiseSeed, seed=bytes(32)))
    assert {postman.errors[party.name].code for party in (cast.task, *cast.parties)} == {"E_MIRROR"}
    assert nobody_has_a_result(cast)


def test_a_server_rebuilt_from_its_journal_sends_the_same_bytes():
    """A killed server adds the same noise: its contribution comes from its seed."""
    for name in ("compute", "validate"):
        check_rebuilt_server(noisy_cast, name)


def test_a_run_without_noise_refuses_messages_about_it():
    for kind, sender, to in (
        (m.NoiseSeed(bytes(32)), "validate", "compute"),
        (m.NoiseCommit(bytes(32)), "compute", "validate"),
        (m.NoiseOpening(bytes(32), bytes(32)), "compute", "validate"),
    ):
        cast = WORLD.cast("mirror")
        role = next(one for one in cast.servers if one.name == to)
        role.start()
        with pytest.raises(FedValueError) as caught:
            role.receive(m.Envelope(RUN_ID, sender, to, kind))
        assert caught.value.code == "E_STATE"
