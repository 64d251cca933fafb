"""Under `mirror` no server learns who has how many codes, and every gate is still kept."""

from __future__ import annotations

import dataclasses

import msgspec
import numpy as np
import pytest

from fedvalue.crypto import keys
from fedvalue.information.contingency import Codebook
from fedvalue.protocol import codec, party_roles, readiness
from fedvalue.protocol import messages as m
from fedvalue.protocol.mirror.naming import Naming
from fedvalue.simulation.drill.party_cheats import TurnedWork, cheating_party
from fedvalue.simulation.drill.plot import Plot
from fedvalue.valuation.engine import value_counts
from fedvalue.valuation.settings import ValuationSettings
from tests.simulation.test_what_servers_see import summed_rows, watched
from tests.simulation.world import Codes, Envelope, Postman, World, run

VIEWS = [{}, {"columns": "features"}, {"columns": "features", "policy": "counts"}, {"epsilon": "1"}]
"""Joint codes, columns one by one, counts for the task party, noise."""


def different_sizes() -> World:
    """Three parties that differ in the number of their codes, and in nothing else that has a length."""
    return World.drawn(7, n=60, sizes=(3, 4, 6), n_task=4).with_features()


def with_width(party: Codes, width: int) -> Codes:
    """A party whose code has `width` features behind it, all like the code itself."""
    names = tuple(f"{party.name} {k}" for k in range(width))
    codes = np.tile(np.arange(party.n_codes), (width, 1)).T
    return dataclasses.replace(party, codebook=Codebook(names, codes))


def messages_of(postman: Postman, sender: str, server: str) -> list[m.AnyMessage]:
    envelopes = [codec.decode(data) for data in postman.log]
    return [e.message for e in envelopes if (e.sender, e.recipient) == (sender, server)]


def lengths_of(messages: list[m.AnyMessage]) -> list[tuple[str, int]]:
    return [(type(one).__name__, len(msgspec.msgpack.encode(one))) for one in messages]


@pytest.mark.parametrize("options", VIEWS, ids=["joint", "features", "counts", "noise"])
def test_columns_are_assigned_by_named_sizes_and_no_longer_without_them(options: dict) -> None:
    """The attack of the review: compare the sizes by name with those of the unnamed columns.

    By the old rule a Ready had open sizes. Now what one data party sends a server differs from what another
    sends in nothing that depends on its sizes: number, kinds and lengths of messages are the same.
    """
    cast = different_sizes().cast(**options)
    postman, _, ring = watched(cast)
    order = Naming(cast.task.settings, ring).order
    old_readies = dict(zip(cast.task.settings.parties, cast.task.settings.n_codes, strict=True))
    for server in ("compute", "validate"):
        sent = {party: messages_of(postman, party, server) for party in old_readies}
        radices = next(one for one in sent["p0"] if isinstance(one, m.Declaration)).radices
        assigned = [next(p for p, size in old_readies.items() if size == radix) for radix in radices[2:]]
        assert tuple(assigned) == order  # the old rule gives every column away

        lengths = {party: lengths_of(messages) for party, messages in sent.items()}
        assert lengths["p0"] == lengths["p1"] == lengths["p2"]
        for party, messages in sent.items():
            (ready,) = (one for one in messages if isinstance(one, m.Ready))
            assert isinstance(ready.ranges, bytes)
            guess = m.CodeRanges((old_readies[party],), (), bytes(16))
            assert guess.digest != ready.ranges_digest  # salted: a right guess cannot be confirmed


def test_sealed_sizes_have_one_length_however_wide_a_party_is() -> None:
    """1,400 features took 5 KiB and 2 took one, so that wide parties stood out by name."""
    world = World.drawn(7, n=60, sizes=(3, 3, 3))
    parties = zip(world.parties, (2, 300, 1400), strict=True)
    wide = dataclasses.replace(world, parties=tuple(with_width(party, width) for party, width in parties))
    postman = run(wide.cast(columns="features"))
    assert postman.errors == {}
    for server in ("compute", "validate"):
        sent = {party: lengths_of(messages_of(postman, party, server)) for party in ("p0", "p1", "p2")}
        assert sent["p0"] == sent["p1"] == sent["p2"]


def test_servers_relay_sealed_sizes_and_parties_open_the_true_ones() -> None:
    cast = different_sizes().cast(columns="features")
    assert run(cast).errors == {}
    assert cast.task.settings.n_codes == (3, 4, 6)
    for party in (cast.task, *cast.parties):
        assert party.settings == cast.task.settings
    assert cast.task.outcome is not None
    assert cast.task.outcome.evidence is not None
    roster = cast.task.outcome.evidence.roster
    assert [ready.ranges.sizes for ready in roster] == [(4, 2), (3,), (4,), (6,)]  # type: ignore[union-attr]


@pytest.mark.parametrize("protocol", ["single", "paper", "gram"])
def test_other_protocols_state_sizes_openly(protocol: str) -> None:
    """Their servers count per set or per code, and need them."""
    options = {"exact_tables": True} if protocol == "gram" else {}
    postman = run(World.drawn(1, n=12).cast(protocol, **options))
    (ready,) = (one for one in messages_of(postman, "p0", "compute") if isinstance(one, m.Ready))
    assert isinstance(ready.ranges, m.CodeRanges)


def changed(kind: type[m.Message], sender: str, change: dict[str, object]):  # type: ignore[no-untyped-def]
    def meddle(envelope: Envelope) -> list[Envelope]:
        if isinstance(envelope.message, kind) and envelope.sender == sender:
            forged = msgspec.structs.replace(envelope.message, **change)
            return [msgspec.structs.replace(envelope, message=forged)]
        return [envelope]

    return meddle


def test_open_sizes_under_mirror_and_sealed_ones_under_paper_are_refused() -> None:
    world = World.drawn(1, n=12)
    open_sizes = {"ranges": m.CodeRanges((2,), (), bytes(16))}
    assert "E_DECLARED" in run(world.cast(), meddler=changed(m.Ready, "p0", open_sizes)).codes()
    sealed = changed(m.Ready, "p0", {"ranges": bytes(1040)})
    assert "E_DECLARED" in run(world.cast("paper"), meddler=sealed).codes()


def test_a_relay_that_changes_sealed_sizes_ends_the_run() -> None:
    """Both servers lie alike, so that the rosters agree: the seal does not open."""

    def meddle(envelope: Envelope) -> list[Envelope]:
        if not isinstance(envelope.message, m.ReadyRoster):
            return [envelope]
        first, *rest = envelope.message.readies
        assert isinstance(first.ranges, bytes)
        damaged = msgspec.structs.replace(first, ranges=first.ranges[:-1] + bytes([first.ranges[-1] ^ 1]))
        return [msgspec.structs.replace(envelope, message=m.ReadyRoster((damaged, *rest)))]

    assert "E_SEAL" in run(World.drawn(1, n=12).cast(), meddler=meddle).codes()


@pytest.mark.parametrize(
    ("garbage", "code"),
    [("another key", "E_SEAL"), ("no padding", "E_MALFORMED"), ("no sizes", "E_MALFORMED")],
)
def test_a_party_that_seals_garbage_is_named_by_all_others(
    monkeypatch: pytest.MonkeyPatch, garbage: str, code: str
) -> None:
    """All others see it at once; whoever ends the run first must not look guilty."""
    plain = bytes(64) if garbage == "no padding" else keys.padded(b"garbage", 64)

    def evil(terms, party, samples, *, run_key, **named):  # type: ignore[no-untyped-def]
        honest = readiness.make_ready(terms, party, samples, run_key=run_key, **named)
        if party != "p0":
            return honest
        key = bytes(32) if garbage == "another key" else readiness._ranges_key(terms, honest, run_key)
        return msgspec.structs.replace(honest, ranges=keys.seal(key, plain, readiness._RANGES))

    monkeypatch.setattr(party_roles, "make_ready", evil)
    cast = World.drawn(1, n=12).cast()

    def hold(envelope: Envelope) -> list[Envelope]:
        """No party hears from another that the run has ended: each has to see it in the roster."""
        return [] if isinstance(envelope.message, m.Abort) else [envelope]

    postman = run(cast, meddler=hold)
    assert set(postman.errors) == {"task party", "p0", "p1"}
    for error in postman.errors.values():
        assert error.code == code
        assert "'p0'" in str(error)


def test_sizes_that_were_not_signed_do_not_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """A party seals other sizes than it signs: every party refuses its statement."""

    def evil(terms, party, samples, *, run_key, **named):  # type: ignore[no-untyped-def]
        honest = readiness.make_ready(terms, party, samples, run_key=run_key, **named)
        if party != "p0":
            return honest
        false = m.CodeRanges((5,), (), bytes(16))
        sealed = readiness._sealed(terms, honest, false, run_key)
        return msgspec.structs.replace(honest, ranges=sealed)

    monkeypatch.setattr(party_roles, "make_ready", evil)
    assert "E_SIGNATURE" in run(World.drawn(1, n=12).cast()).codes()


@pytest.mark.parametrize(
    "change",
    [
        {"radices": (2, 2, 2)},
        {"radices": (2, 2, 2**25, 3)},
        {"features": ((2,), (), (), ())},
        {"rows": 11},
    ],
    ids=["a column less", "too large", "unagreed features", "rows"],
)
def test_a_table_that_does_not_fit_is_refused_before_rows_are_counted(change: dict[str, object]) -> None:
    postman = run(World.drawn(1, n=12).cast(), meddler=changed(m.Declaration, "p0", change))
    assert postman.errors["compute"].code == "E_DECLARED"
    assert "'p0' declares another table than agreed" in str(postman.errors["compute"])


def test_a_false_declaration_accuses_nobody_alone() -> None:
    """A server cannot know which of two parties declares the false columns, so it names both."""
    cheat = cheating_party("p0", TurnedWork, Plot(np.random.default_rng(0)))
    postman = run(World.drawn(1, n=12, sizes=(2, 5)).cast(data_party=cheat))
    words = str(postman.errors["compute"])
    assert postman.errors["compute"].code == "E_DECLARED"
    assert "'p0'" in words
    assert "declare different columns, so one of them broke the protocol" in words


def test_a_padded_range_hides_no_number_of_codes() -> None:
    """Why ranges are not padded (decision 0314): a server counts the codes that occur in its rows.

    p0 has three codes and declares eight. What both servers sum up has three in that column.
    """
    drawn = World.drawn(5, n=300, sizes=(3, 2), n_task=1)
    padded = World(
        drawn.label, drawn.task, (Codes("p0", drawn.parties[0].codes, 8), drawn.parties[1]), drawn.ids
    )
    cast = padded.cast()
    postman, _, ring = watched(cast)
    naming = Naming(cast.task.settings, ring)
    place = naming.place("p0")
    assert naming.layout.radices[place] == 8
    for server in ("compute", "validate"):
        codes = summed_rows(postman, naming.layout, server)
        assert len(np.unique(naming.layout.digits(codes, place))) == 3


def test_a_server_has_to_know_which_column_is_the_label() -> None:
    """Why Y has a known place (decision 0314): the same rows have other values with another label.

    Y = a AND b of fair coins, all four cells equally often. I(a, b; Y) = H(Y) = h(1/4). With a as the label
    I(Y, b; a) = H(a) - H(a | Y, b) = ln 2 - ln(2) / 2, because a is open only where b is 0.
    """
    a, b = np.tile([0, 0, 1, 1], 50), np.tile([0, 1, 0, 1], 50)
    y, exact = a & b, ValuationSettings(method="exact", statistics=False)

    def total(label: np.ndarray, *parties: np.ndarray) -> float:
        columns = tuple(Codes(f"p{k}", codes, 2) for k, codes in enumerate(parties))
        return value_counts(World(Codes("y", label, 2), None, columns, np.arange(200)).counts(), exact).total

    assert total(y, a, b) == pytest.approx(np.log(4) - 0.75 * np.log(3), abs=1e-12)
    assert total(a, y, b) == pytest.approx(np.log(2) / 2, abs=1e-12)
