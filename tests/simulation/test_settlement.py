"""What a hostile review did with exact numbers and two servers, against the old rules and the new ones."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
import numpy as np
import pytest

from fedvalue.crypto import keys
from fedvalue.crypto.ids import PackedIds
from fedvalue.federated.valuation_parts import valuation_of
from fedvalue.information.contingency import JointCounts
from fedvalue.protocol import codec
from fedvalue.protocol import messages as m
from fedvalue.protocol.outcome import Answer
from fedvalue.protocol.settings import Gates
from fedvalue.protocol.settlement import committed
from fedvalue.protocol.transitions import State
from fedvalue.protocol.validation_server import ValidationServer
from fedvalue.simulation.drill.party_cheats import SplitWork, cheating_party
from fedvalue.simulation.drill.plot import Plot
from fedvalue.valuation.engine import value_counts
from fedvalue.valuation.settings import ValuationSettings
from tests.simulation.world import RUN_ID, Codes, Postman, World, run

SHAPLEY = ValuationSettings(method="exact", statistics=False)


# Finding 1: exact values leak labels.


def xi(counts: np.ndarray) -> np.ndarray:
    return np.where(counts > 0, counts * np.log(np.maximum(counts, 1)), 0.0)


def segments(size: int, n_targets: int = 12, n: int = 2000) -> tuple[World, np.ndarray]:
    """Each segment holds one person that the data party asks about and people whose labels it knows."""
    rng = np.random.default_rng(size)
    y = (rng.random(n) < 0.3).astype(np.int64)
    codes = np.full(n, n_targets)
    row = 0
    for k in range(n_targets):
        codes[row : row + size + k] = k  # sizes differ, so that the terms do
        row += size + k
    firsts = np.array([np.flatnonzero(codes == k)[0] for k in range(n_targets)])
    return World(Codes("y", y, 2), None, (Codes("p0", codes, n_targets + 1),), PackedIds.of_rows(n)), firsts


def consistent_labels(world: World, targets: np.ndarray, released: float, slack: float) -> np.ndarray:
    """All labels of the targets that explain a released value: everything else is known to the attacker."""
    y, codes, n = world.label.codes, world.parties[0].codes, len(world.label.codes)
    guesses = np.array(list(itertools.product((0, 1), repeat=len(targets))))
    known = np.delete(np.arange(n), targets)
    ones = np.bincount(codes[known], weights=y[known], minlength=len(targets) + 1)[: len(targets)]
    sizes = np.bincount(codes, minlength=len(targets) + 1)
    with_guess = ones + guesses
    terms = xi(sizes[:-1]) - xi(with_guess) - xi(sizes[:-1] - with_guess)
    rest = int(y[codes == len(targets)].sum())
    rest_term = xi(sizes[-1:]) - xi(np.array([rest])) - xi(np.array([sizes[-1] - rest]))
    positives = with_guess.sum(axis=1) + rest
    whole = n * np.log(n) - xi(positives) - xi(n - positives)
    values = (whole - terms.sum(axis=1) - rest_term) / n
    return guesses[np.abs(values - released) <= slack]


def own_value(world: World, **options: Any) -> float:
    cast = world.cast(engine=SHAPLEY, **options)
    assert run(cast).states() == {State.DONE}
    assert cast.parties[0].outcome is not None
    return float(cast.parties[0].outcome.shares["p0"]["value"])


@pytest.mark.parametrize("size", [10, 30, 120])
def test_subset_sums_decode_no_label_on_the_grid(size: int) -> None:
    """The old rule released the double: it names every label. On the grid no label is certain."""
    world, targets = segments(size)
    truth = world.label.codes[targets]
    old = consistent_labels(world, targets, own_value(world), 1e-12)
    assert (old == truth).all(axis=1).tolist() == [True]
    new = consistent_labels(world, targets, own_value(world, grid="0.0001"), 0.5e-4)
    assert (new == truth).all(axis=1).any()
    assert len(new) >= 100
    assert not (new.min(axis=0) == new.max(axis=0)).any()


GATES = Gates(min_samples=100, min_rows_per_code=5, min_cell=10)
"""Of a deployed run."""


def chosen_segments(n_targets: int, n: int = 2000) -> tuple[World, np.ndarray]:
    """Segments of 12 people and more, with label 0 but for the person asked about."""
    rng = np.random.default_rng(n_targets)
    sizes = 12 + 7 * np.arange(n_targets)
    codes = np.full(n, n_targets)
    codes[: sizes.sum()] = np.repeat(np.arange(n_targets), sizes)
    y = np.where(codes < n_targets, 0, rng.random(n) < 0.3).astype(np.int64)
    targets = np.cumsum(sizes) - 1
    y[targets] = rng.integers(0, 2, n_targets)
    return World(Codes("y", y, 2), None, (Codes("p0", codes, n_targets + 1),), PackedIds.of_rows(n)), targets


def explaining(world: World, targets: np.ndarray, explains: Callable[[float], bool]) -> np.ndarray:
    """All labels of the targets whose learnable value explains what the party got."""
    guesses = np.array(list(itertools.product((0, 1), repeat=len(targets))))
    column, kept = world.parties[0].codes, []
    for guess in guesses:
        y = world.label.codes.copy()
        y[targets] = guess
        value = value_counts(JointCounts.from_columns(label=y, parties={"p0": column})).learnable["p0"]
        if value is not None and explains(round(value, 4)):
            kept.append(guess)
    return np.array(kept)


@pytest.mark.parametrize("n_targets", [1, 2, 4, 6])
def test_no_label_is_certain_from_a_learnable_value_that_is_rounded_at_random(n_targets: int) -> None:
    """A fixed grid of 1e-4 names labels of few targets for certain. A deployed run names none."""
    world, targets = chosen_segments(n_targets)
    truth = world.label.codes[targets]
    released = {}
    for gates in (None, GATES):
        cast = world.cast(engine=ValuationSettings(), grid="0.0001", gates=gates)
        assert run(cast).states() == {State.DONE}
        assert cast.parties[0].outcome is not None
        released[gates] = cast.parties[0].outcome.shares["p0"]["learnable"]
    fixed = explaining(world, targets, lambda value: value == released[None])
    assert (fixed == truth).all(axis=1).any()
    assert (fixed.min(axis=0) == fixed.max(axis=0)).any()
    step = 0.015  # the first size of the ladder from 30 / 2000
    assert released[GATES] == pytest.approx(step * round(released[GATES] / step))
    chance = explaining(world, targets, lambda value: abs(value - released[GATES]) < step)
    assert (chance == truth).all(axis=1).any()
    assert not (chance.min(axis=0) == chance.max(axis=0)).any()


def informed(n: int = 2000) -> World:
    """Two parties, each with a noisy copy of the label."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, n)
    noisy = [np.where(rng.random(n) < 0.3, 1 - y, y) for _ in range(2)]
    parties = tuple(Codes(f"p{k}", column, 2) for k, column in enumerate(noisy))
    return World(Codes("y", y, 2), None, parties, PackedIds.of_rows(n))


def test_the_task_party_keeps_its_numbers_on_the_grid() -> None:
    """Only what data parties get is rounded at random: both differ by less than a step."""
    world = informed()
    fine, coarse = (
        world.cast(engine=ValuationSettings(), grid="0.0001", gates=gates) for gates in (None, GATES)
    )
    for cast in (fine, coarse):
        assert run(cast).states() == {State.DONE}
    assert fine.task.outcome is not None
    assert coarse.task.outcome is not None
    names = [party.name for party in coarse.parties]
    exact_valuation = valuation_of(fine.task.outcome, names)
    assert min(value or 0.0 for value in exact_valuation.learnable.values()) > 0.01
    assert valuation_of(coarse.task.outcome, names) == exact_valuation
    for mine, theirs in zip(fine.parties, coarse.parties, strict=True):
        assert mine.outcome is not None
        assert theirs.outcome is not None
        exact, rounded = mine.outcome.shares[mine.name], theirs.outcome.shares[mine.name]
        assert abs(rounded["learnable"] - exact["learnable"]) < 0.015
        assert rounded["learnable_error"] >= exact["learnable_error"]
        assert rounded["learnable"] / 0.015 == pytest.approx(round(rounded["learnable"] / 0.015))


def test_a_small_share_holds_two_numbers_and_two_errors() -> None:
    """No value alone, no value when added last, no Shapley-CMI: each would be one more equation."""
    cast = World.drawn(1, n=300, sizes=(2, 3, 2)).cast(engine=ValuationSettings(), grid="0.0001")
    run(cast)
    for party in cast.parties:
        assert party.outcome is not None
        assert party.outcome.task == {}
        (own,) = party.outcome.shares.values()
        assert set(own) == {"learnable", "learnable_error", "n_codes"}
        assert {key for key, item in party.outcome.public.items() if isinstance(item, float)} == {
            "learnable_total",
            "learnable_total_error",
        }
    assert cast.task.outcome is not None
    assert {"interactions", "uplift", "coalitions", "total"} <= set(cast.task.outcome.task)
    assert set(cast.task.outcome.task["coalitions"]) == {"learnable"}


# Finding 4: different columns to the two servers.


def split_cast(**options: Any) -> tuple[Any, Plot]:
    plot = Plot(np.random.default_rng(3))
    world = World.drawn(4, n=60, sizes=(2, 3))
    cast = world.cast(data_party=cheating_party("p0", SplitWork, plot), **options)
    return cast, plot


@pytest.mark.parametrize("options", [{}, {"grid": "0.0001"}, {"policy": "counts"}, {"epsilon": "0.1"}])
def test_a_party_that_splits_its_uploads_gets_no_answer(options: dict[str, Any]) -> None:
    """Not one byte of a result leaves a server, whatever the policy and whether or not there is noise."""
    cast, plot = split_cast(**options)
    postman = run(cast)
    assert plot.fired
    kinds = {type(codec.decode(data).message) for data in postman.log}
    assert m.ResultCommit in kinds
    assert not kinds & {m.ResultChunk, m.ResultSeal, m.NoiseSeed, m.NoiseOpening}
    assert {postman.errors[role.name].code for role in cast.everyone()} == {"E_MIRROR"}
    assert all(party.outcome is None for party in (cast.task, *cast.parties))


def test_the_old_rule_gave_two_exact_answers_for_one_failed_run() -> None:
    """What the servers would have sealed for the party without comparing: two exact, different numbers."""
    cast, _ = split_cast()
    answers = []

    def watch(envelope: m.Envelope) -> list[m.Envelope]:
        if isinstance(envelope.message, m.ResultOpening):
            answers.append(msgspec.msgpack.decode(envelope.message.answer, type=Answer))
        return [envelope]

    run(cast, meddler=watch)
    assert len(answers) == 2
    values = [sorted(share["value"] for share in answer.shares) for answer in answers]
    assert max(abs(a - b) for a, b in zip(*values, strict=True)) > 1e-6


def test_the_message_blames_nobody() -> None:
    cast, _ = split_cast()
    postman = run(cast)
    words = next(str(error) for error in postman.errors.values() if "computed" in str(error))
    assert "a server computed wrongly, or a party sent them different columns" in words
    assert not any(name in words for name in ("p0", "p1"))


# Finding 5: two honest servers must never end in E_MIRROR.


class OtherRounding(ValidationServer):
    """An honest server on another machine: every number is off by a rounding error of its own."""

    def __init__(self, *args: Any, size: float, **named: Any) -> None:
        super().__init__(*args, **named)
        rng, honest = np.random.default_rng(0), self._valuer
        assert honest is not None

        def moved(tree: Any) -> Any:
            if isinstance(tree, dict):
                return {key: moved(item) for key, item in tree.items()}
            if isinstance(tree, list | tuple):
                return [moved(item) for item in tree]
            return tree + size * rng.standard_normal() if isinstance(tree, float) else tree

        def valuer(counted: Any, settings: Any) -> Answer:
            return Answer(**moved(msgspec.to_builtins(honest(counted, settings))))

        self._valuer = valuer


def independent(n: int = 400) -> World:
    """Label and both parties exactly independent in the sample: every value is 0 but for rounding."""
    codes = np.unravel_index(np.arange(n) % 8, (2, 2, 2))
    y, a, b = (one.astype(np.int64) for one in codes)
    return World(Codes("y", y, 2), None, (Codes("p0", a, 2), Codes("p1", b, 2)), PackedIds.of_rows(n))


@pytest.mark.parametrize("grid", [None, "0.0001"])
@pytest.mark.parametrize("size", [1e-16, 1e-11])
def test_rounding_errors_of_two_honest_servers_accuse_nobody(grid: str | None, size: float) -> None:
    """Old rule: shares, quotients of such errors, were compared; they differ by more than 1e-9 here."""
    noise = size * np.random.default_rng(0).standard_normal(4)
    assert abs(noise[0] / noise[1] - noise[2] / noise[3]) > 1e-9
    for world in (independent(), World.drawn(2, n=200, sizes=(2, 3))):
        servers = {"validation": partial(OtherRounding, size=size)}
        cast = world.cast(engine=ValuationSettings(), grid=grid, servers=servers)
        postman = run(cast)
        assert postman.errors == {}
        assert postman.states() == {State.DONE}


def test_a_number_that_differs_by_more_than_the_grid_is_refused() -> None:
    servers = {"validation": partial(OtherRounding, size=3e-4)}
    cast = World.drawn(2, n=200, sizes=(2, 3)).cast(
        engine=ValuationSettings(), grid="0.0001", servers=servers
    )
    assert run(cast).errors["compute"].code == "E_MIRROR"


# The exchange itself.


def changed(kind: type, **fields: Any) -> Any:
    def meddler(envelope: m.Envelope) -> list[m.Envelope]:
        if not isinstance(envelope.message, kind) or envelope.sender != "compute":
            return [envelope]
        message = msgspec.structs.replace(envelope.message, **fields)
        return [msgspec.structs.replace(envelope, message=message)]

    return meddler


@pytest.mark.parametrize(
    ("kind", "fields", "code"),
    [
        (m.ResultCommit, {"commitment": bytes(32)}, "E_EQUIVOCATION"),
        (m.ResultOpening, {"answer": b"\xc1"}, "E_EQUIVOCATION"),
        (m.ResultOpening, {"roots": ()}, "E_EQUIVOCATION"),
        (m.ResultOpening, {"signature": bytes(64)}, "E_SIGNATURE"),
    ],
)
def test_an_opening_that_does_not_fit_is_refused(kind: type, fields: dict[str, Any], code: str) -> None:
    cast = World.drawn(5).cast()
    postman = run(cast, meddler=changed(kind, **fields))
    assert postman.errors["validate"].code == code
    assert all(party.outcome is None for party in (cast.task, *cast.parties))


def test_an_opening_that_comes_before_its_commitment_is_refused() -> None:
    """Who opens without having committed could fit its answer to the other's."""
    cast = World.drawn(5).cast()

    def without_commitment(envelope: m.Envelope) -> list[m.Envelope]:
        lost = isinstance(envelope.message, m.ResultCommit) and envelope.sender == "compute"
        return [] if lost else [envelope]

    postman = run(cast, meddler=without_commitment)
    assert postman.errors["validate"].code == "E_STATE"
    assert "before it was committed to" in str(postman.errors["validate"])
    assert all(party.outcome is None for party in (cast.task, *cast.parties))


def opened_otherwise(cast: Any, change: Callable[[m.ResultOpening], m.ResultOpening]) -> Any:
    """A computation server that commits to, signs and opens something else than it computed."""
    key = next(one for one in cast.servers if one.name == "compute")._credentials.signing_key

    def meddler(envelope: m.Envelope) -> list[m.Envelope]:
        if envelope.sender != "compute" or not isinstance(envelope.message, m.ResultCommit | m.ResultOpening):
            return [envelope]
        if isinstance(envelope.message, m.ResultCommit):
            return []  # sent again below, right before the opening
        other = change(envelope.message)
        commitment = committed(RUN_ID, "compute", other.salt, other.roots, other.answer)
        signature = keys.sign(key, "settled", RUN_ID, "compute", commitment)
        messages = (m.ResultCommit(commitment), msgspec.structs.replace(other, signature=signature))
        return [msgspec.structs.replace(envelope, message=message) for message in messages]

    return meddler


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        (lambda opening: {}, None),
        (lambda opening: {"answer": b"\xc1"}, "E_MALFORMED"),
        (lambda opening: {"roots": opening.roots[:-1]}, "E_DECLARED"),
        (lambda opening: {"roots": (*opening.roots, m.NO_ROOT)}, "E_DECLARED"),
        (lambda opening: {"roots": (m.NO_ROOT, *opening.roots[1:])}, "E_SIGNATURE"),
    ],
    ids=["honest", "no answer", "a root less", "a root more", "a root that nobody signed"],
)
def test_what_a_server_signed_must_still_be_a_result_of_all_parties(
    fields: Callable[[m.ResultOpening], dict[str, Any]], code: str | None
) -> None:
    cast = World.drawn(5).cast()
    meddler = opened_otherwise(cast, lambda one: msgspec.structs.replace(one, **fields(one)))
    postman = run(cast, meddler=meddler)
    if code is None:
        assert postman.states() == {State.DONE}
    else:
        assert postman.errors["validate"].code == code
        assert all(party.outcome is None for party in (cast.task, *cast.parties))


def test_a_declaration_whose_root_is_not_signed_is_refused() -> None:
    cast = World.drawn(5).cast()

    def meddler(envelope: m.Envelope) -> list[m.Envelope]:
        if not isinstance(envelope.message, m.Declaration) or envelope.sender != "p0":
            return [envelope]
        message = msgspec.structs.replace(envelope.message, root=m.NO_ROOT)
        return [msgspec.structs.replace(envelope, message=message)]

    assert run(cast, meddler=meddler).errors["compute"].code == "E_SIGNATURE"


@pytest.mark.parametrize("n", [50, 4000])
def test_the_exchange_takes_two_messages_each_way_whatever_the_number_of_rows(n: int) -> None:
    postman: Postman = run(World.drawn(6, n=n).cast(grid="0.0001"))
    between = [
        type(envelope.message).__name__
        for envelope in map(codec.decode, postman.log)
        if {envelope.sender, envelope.recipient} == {"compute", "validate"}
    ]
    assert sorted(between) == ["ResultCommit"] * 2 + ["ResultOpening"] * 2


def test_in_one_process_there_is_no_grid_unless_asked() -> None:
    world = World.drawn(7, n=120)
    outcomes = []
    for grid in (None, "0.0001"):
        cast = world.cast(grid=grid)
        run(cast)
        assert cast.task.outcome is not None
        outcomes.append(cast.task.outcome.shares["p0"]["value"])
    exact, rounded = outcomes
    assert rounded == round(exact, 4) != exact
