"""Honest runs: the right result in any order of delivery, with repeats, rebuilt from a journal."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from fedvalue.crypto.ids import canonical_ids
from fedvalue.federated.cast import CodedTables, make_cast, make_terms
from fedvalue.federated.in_process import InProcessTransport
from fedvalue.federated.options import make_options
from fedvalue.federated.valuation_parts import valuation_of
from fedvalue.federated.valuers import make_valuer
from fedvalue.protocol import messages as m
from fedvalue.protocol.transitions import State
from fedvalue.valuation.engine import value_counts
from fedvalue.valuation.settings import ValuationSettings
from tests.simulation.world import Postman, World, cells, run

PROTOCOLS = [
    ("mirror", {}),
    ("mirror", {"policy": "counts"}),
    ("single", {}),
    ("single", {"by_coalition": True, "pad": True}),
    ("paper", {"n_r": 1, "q": 2}),
    ("paper", {"n_r": "60%", "q": 3, "harden": False}),
    ("paper", {"n_r": "random:3", "q": 2, "by_coalition": True}),
    ("paper", {"n_r": 0, "q": 1, "harden": False, "pad": True}),
]


@pytest.mark.parametrize(("protocol", "options"), PROTOCOLS)
def test_any_order_of_delivery_gives_the_same_result(protocol: str, options: dict) -> None:
    """Between different pairs of roles nothing is assumed about order, and repeats are harmless."""
    world = World.drawn(1)
    plain = value_counts(world.counts(), ValuationSettings(method="exact", statistics=False))
    for seed in range(4):
        cast = world.cast(protocol, **options)
        postman = run(cast, seed=seed, twice=0.3)
        assert postman.errors == {}
        assert postman.states() == {State.DONE}
        outcome = cast.task.outcome
        if outcome.counts is not None:
            assert cells(outcome.counts) == cells(world.counts())
        else:
            found = valuation_of(outcome, [party.name for party in world.parties])
            assert found.values == pytest.approx(plain.values, abs=1e-9)
            assert found.total == pytest.approx(plain.total, abs=1e-9)


def test_data_party_reads_its_own_value_and_the_total_only() -> None:
    world = World.drawn(2, sizes=(2, 3, 4))
    plain = value_counts(world.counts(), ValuationSettings(method="exact", statistics=False))
    cast = world.cast()
    run(cast)
    for party in cast.parties:
        outcome = party.outcome
        assert set(outcome.shares) == {party.name}
        assert outcome.shares[party.name]["value"] == pytest.approx(plain[party.name].value, abs=1e-9)
        assert outcome.public["total"] == pytest.approx(plain.total, abs=1e-9)
        assert outcome.task == {}
        assert outcome.counts is None
        assert outcome.order == ()


def test_counts_go_to_the_task_party_only() -> None:
    cast = World.drawn(2).cast(policy="counts")
    run(cast)
    assert cast.task.outcome.counts is not None
    assert all(party.outcome.counts is None and not party.outcome.shares for party in cast.parties)


def test_results_do_not_depend_on_the_order_of_a_partys_rows() -> None:
    """Ids align the rows, not their places."""
    world = World.drawn(3, n=60)
    rng = np.random.default_rng(0)
    ids = {"task party": world.ids}
    parties = []
    for party in world.parties:
        order = rng.permutation(60)
        texts = [f"person-{k}" for k in order]
        ids[party.name] = canonical_ids(texts)
        parties.append(type(party)(party.name, party.codes[order], party.n_codes))
    shuffled = World(world.label, world.task, tuple(parties), world.ids)
    for protocol, options in PROTOCOLS[1:3]:
        cast = shuffled.cast(protocol, ids=ids, **options)
        assert run(cast).errors == {}
        assert cells(cast.task.outcome.counts) == cells(world.counts())


@pytest.mark.parametrize(("protocol", "options"), PROTOCOLS)
def test_a_role_rebuilt_from_its_journal_says_the_same_bytes(protocol: str, options: dict) -> None:
    """After a crash a shell feeds the journal to a new role and gets the same output, byte for byte."""
    world = World.drawn(4)
    first, second = (world.cast(protocol, **options) for _ in range(2))
    journals: dict[str, list] = {}
    outputs: dict[str, list] = {}

    class Writing(Postman):
        def _deliver(self, envelope):
            journals.setdefault(envelope.recipient, []).append(envelope)
            super()._deliver(envelope)

        def _post(self, envelopes):
            envelopes = list(envelopes)
            for envelope in envelopes:
                outputs.setdefault(envelope.sender, []).append(envelope)
            super()._post(envelopes)

    Writing(first.everyone(), seed=5).run()
    for role in second.everyone():
        said = role.start()
        for envelope in journals.get(role.name, []):
            said += role.receive(envelope)
        assert said == outputs.get(role.name, [])
        assert role.state is State.DONE


def test_tokens_in_many_chunks_and_rows_in_many_chunks() -> None:
    """Small chunks, so that sets, intersections and results need several."""
    world = World.drawn(6, n=700, sizes=(2, 2))
    for protocol, options in (("mirror", {}), ("mirror", {"policy": "counts"}), ("paper", {"n_r": 3})):
        tables = CodedTables(world.label, world.parties, world.task)
        base = make_terms(tables, make_options(protocol, **options))
        terms = msgspec.structs.replace(base, chunk_bytes=1024)
        valuer = make_valuer(ValuationSettings(method="exact", statistics=False))
        cast = make_cast(terms, tables, ids=world.ids, valuer=valuer)
        postman = run(cast, seed=1)
        assert postman.errors == {}
        if cast.task.outcome.counts is not None:
            assert cells(cast.task.outcome.counts) == cells(world.counts())


def test_more_codes_than_a_lane_holds() -> None:
    """Products beyond 2^64 go over several lanes; the joint table is exact."""
    world = World.drawn(7, n=300, sizes=(5000, 7000, 9000, 11000, 13000), n_task=3, n_label=3)
    cast = world.cast(policy="counts")
    assert run(cast).errors == {}
    assert cast.task.settings.n_cells > 2**64
    assert cells(cast.task.outcome.counts) == cells(world.counts())


def test_one_party_and_one_sample() -> None:
    """The smallest run there can be."""
    world = World.drawn(8, n=1, sizes=(1,), n_task=1, n_label=1)
    for protocol in ("mirror", "single", "paper"):
        cast = world.cast(protocol)
        assert run(cast).errors == {}


def test_threads_do_not_change_the_result() -> None:
    world = World.drawn(9, n=200)
    seen = []
    for threads in (1, 3):
        wire: list[bytes] = []
        cast = world.cast("paper", n_r=2)
        InProcessTransport(threads=threads, tap=wire.append).run(cast.everyone())
        seen.append(wire)
    assert seen[0] == seen[1]


def test_missing_chunks_are_listed_until_they_come() -> None:
    """What a resumed upload needs to know."""
    world = World.drawn(10, n=50)
    cast = world.cast(policy="counts")
    server = cast.servers[1]
    assert server.missing("p0") == []
    held = []

    def hold(envelope):
        uploaded = isinstance(envelope.message, m.Declaration | m.Chunk)
        if envelope.recipient == server.name and envelope.sender == "p0" and uploaded:
            held.append(envelope)
            return []
        return [envelope]

    postman = Postman(cast.everyone(), meddler=hold)
    postman.run()
    assert postman.errors == {}
    server.receive(held[0])
    assert server.missing("p0") == [0]
    answers = server.receive(held[1])
    assert server.missing("p0") == []
    assert [type(envelope.message) for envelope in answers] == [m.ResultCommit, m.ResultOpening]
    assert {envelope.recipient for envelope in answers} == {"compute"}
