"""`gram`: sums of shares are the tables of the joined columns, and every single cheat is caught."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest

from fedvalue.crypto.sign_sums import sign_variance
from fedvalue.errors import InputError
from fedvalue.federated.cast import Cast
from fedvalue.federated.options import Gram
from fedvalue.federated.run import federated_value
from fedvalue.information.pair_tables import MAX_CELLS, PairTables, pair_layout, pair_tables
from fedvalue.protocol import codec
from fedvalue.protocol import messages as m
from fedvalue.protocol.gram import components, gram_checks, gram_upload, sign_noise
from fedvalue.protocol.gram.gram_layout import GramLayout
from fedvalue.protocol.gram.gram_sums import GramSums
from fedvalue.protocol.gram.prime_field import PRIME, expanded, from_bytes, products, reduced
from fedvalue.protocol.settings import Settings
from fedvalue.protocol.transitions import State
from fedvalue.simulation.drill.gram_drill import (
    SCENARIOS,
    GramScenario,
    gram_rows,
    guess_anothers_draw,
    spoilt,
)
from fedvalue.valuation.low_order.low_order_valuation import low_order_values
from tests.simulation.world import World, check_rebuilt_server, run

WORLD = World.drawn(4, n=60, sizes=(2, 3, 4), n_label=3)
SERVERS = ("compute", "validate", "assist")


def cast_of(world: World = WORLD, **options: Any) -> Cast:
    return world.cast("gram", **({"exact_tables": True} | options))


def tables_of(cast: Cast) -> PairTables:
    assert cast.task.outcome is not None
    assert cast.task.outcome.tables is not None
    return cast.task.outcome.tables


def plain(world: World, cast: Cast) -> PairTables:
    """The tables of the joined columns, counted here."""
    return pair_tables(world.counts(), GramLayout.of(cast.task.settings).pairs)


# What it computes.


@pytest.mark.parametrize("columns", ["joint", "features"])
@pytest.mark.parametrize("n_task", [1, 4])
def test_without_noise_every_party_has_exactly_the_tables_of_the_joined_columns(columns, n_task):
    world = World.drawn(7, n=150, sizes=(2, 5, 4), n_task=n_task, n_label=3)
    world = world.with_features() if columns == "features" else world
    cast = cast_of(world, columns=columns)
    assert run(cast).states() == {State.DONE}
    expected = plain(world, cast)
    for party in (cast.task, *cast.parties):
        assert party.outcome is not None
        assert party.outcome.tables is not None
        assert party.outcome.tables.layout == expected.layout
        assert np.array_equal(party.outcome.tables.cells, expected.cells)
    assert low_order_values(tables_of(cast)).values.tolist() == low_order_values(expected).values.tolist()


def test_many_chunks_give_the_same_sums():
    """1,024 bytes per message: 16 rows per chunk, and a last one that is not full."""
    world = World.drawn(2, n=530, sizes=(3, 9))
    cast = cast_of(world)
    for role in cast.everyone():
        role.terms = msgspec.structs.replace(role.terms, chunk_bytes=1024)
    assert run(cast).states() == {State.DONE}
    assert GramLayout.of(cast.task.settings).n_chunks > 20
    assert np.array_equal(tables_of(cast).cells, plain(world, cast).cells)


@pytest.mark.parametrize("seed", range(6))
def test_the_order_of_delivery_and_resends_change_nothing(seed):
    straight, other = cast_of(exact_tables=False), cast_of(exact_tables=False)
    run(straight)
    assert run(other, seed=seed, twice=0.3).states() == {State.DONE}
    assert np.array_equal(tables_of(straight).cells, tables_of(other).cells)


def test_the_noise_has_the_stated_variance():
    """Sums minus the exact tables, over several runs: three draws, of signs where the label is."""
    off = []
    for k in range(12):
        cast = cast_of(exact_tables=False, epsilon="1", run_id=bytes([k]) * 32)
        run(cast)
        off.append(tables_of(cast).cells - plain(WORLD, cast).cells)
    cut = plain(WORLD, cast).layout.n_label_cells
    found = np.array(off)
    for part, variance in (
        (found[:, :cut], tables_of(cast).label_variance),
        (found[:, cut:], tables_of(cast).pair_variance),
    ):
        # Standard deviations of a variance of N cells: sqrt(2 / N).
        assert part.var() == pytest.approx(variance, rel=5 * np.sqrt(2 / part.size))
    privacy = cast.task.settings.privacy
    assert privacy is not None
    assert tables_of(cast).label_variance == float(3 * sign_variance(privacy.label_levels))
    assert tables_of(cast).pair_variance == float(3 * privacy.pair_variance)
    assert "one cheating server" in privacy.observer


def test_it_runs_through_the_public_function_and_names_what_it_releases():
    world = World.drawn(1, n=300, sizes=(3, 3))
    found = federated_value(label=world.label, parties=world.parties, protocol="gram")
    assert found.protocol == "gram"
    assert found.privacy is not None
    assert found.privacy.epsilon == 1.0
    exact = federated_value(label=world.label, parties=world.parties, protocol=Gram(exact_tables=True))
    assert exact.privacy is None
    with pytest.raises(InputError, match="exact_tables"):
        Gram(epsilon=None)


def test_products_modulo_the_prime_are_exact():
    rng = np.random.default_rng(0)
    a, b = (rng.integers(0, PRIME, (300, 5)).astype(np.uint64) for _ in range(2))
    a[:20] = PRIME - 1
    expected = [
        [sum(int(x) * int(y) for x, y in zip(a[:, i], b[:, j], strict=True)) % PRIME for j in range(5)]
        for i in range(5)
    ]
    assert products(a, b).tolist() == expected
    assert products(a, a).tolist() == [[int(x) for x in row] for row in products(a, a.copy())]


def test_one_partys_codes_do_not_decide_how_much_memory_a_server_needs():
    """The old rule counted tables between two columns: one column of 40,000 codes passed, and every server
    made a matrix of 12 GiB. Now nobody uploads: the run ends when all sizes are known."""
    sizes = ((), (2,), (40_000,))
    assert pair_layout(("p0", "p1"), sizes[1:], 2).n_cells <= MAX_CELLS
    assert 8 * 40_000**2 > 11 * 2**30
    world = World.drawn(2, n=60, sizes=(2, 40_000), n_task=1)
    cast = cast_of(world)
    postman = run(cast)
    assert postman.codes() == {"E_BUDGET"}
    assert "'p1' has 40,000 of the codes" in str(postman.errors["compute"])
    kinds = {type(codec.decode(data).message) for data in postman.log}
    assert m.Ready in kinds
    assert not kinds & {m.GramDeclaration, m.Chunk}


def test_the_limit_of_products_counts_those_of_a_column_with_itself():
    """k (k + 1) / 2 <= 2^22 holds up to k = 2,895: four codes are the label's and the other party's."""
    settings = WORLD.settings("gram", exact_tables=True)

    def layout(size: int) -> GramLayout:
        return GramLayout.of(
            msgspec.structs.replace(settings, parties=("p0", "p1"), n_task_codes=1, n_label_codes=2,
                                    n_codes=(2, size), features=())
        )  # fmt: skip

    assert layout(2_891).width == 2_895
    with pytest.raises(InputError, match="2,896 codes of all columns have 4,194,856 products") as caught:
        layout(2_892)
    assert caught.value.code == "E_BUDGET"


class StoppedError(Exception):
    """Raised by a checkpoint."""


@pytest.mark.parametrize("at", ["counting", "drawing noise", "sending signs", "drawing signs"])
def test_a_server_that_adds_up_can_be_stopped_between_pieces(at, monkeypatch):
    """The old rule: counting and drawing noise ran to their end. One piece per chunk, many chunks."""
    under_way, calls = [], []
    for name, step in (
        ("_count_chunk", "counting"), ("_noise", "drawing noise"),
        ("_begin", "sending signs"), ("_own_draw", "drawing signs"),
    ):  # fmt: skip
        honest = getattr(GramSums, name)

        def noted(self: GramSums, *args: Any, honest: Any = honest, step: str = step) -> Any:
            under_way.append(step)
            found = honest(self, *args)
            under_way.pop()
            return found

        monkeypatch.setattr(GramSums, name, noted)

    def checkpoint() -> None:
        calls.append(under_way[-1])
        if calls.count(at) == 3:
            raise StoppedError

    world = World.drawn(2, n=530, sizes=(3, 9))
    cast = cast_of(world, exact_tables=False)
    for role in cast.everyone():
        role.terms = msgspec.structs.replace(role.terms, chunk_bytes=1024)
    server: Any = cast.servers[2]
    server._checkpoint = checkpoint
    with pytest.raises(StoppedError):
        run(cast)
    assert calls[-1] == at
    assert cast.task.outcome is None


def test_pieces_of_a_chunk_give_the_sums_of_the_whole(monkeypatch):
    monkeypatch.setattr("fedvalue.protocol.gram.row_sums._PIECE_NUMBERS", 7 * 30)
    monkeypatch.setattr("fedvalue.protocol.gram.row_sums._LEAST_PIECE", 1)
    cast = cast_of()
    assert run(cast).states() == {State.DONE}
    assert np.array_equal(tables_of(cast).cells, plain(WORLD, cast).cells)


def test_more_signs_than_servers_are_to_exchange_are_refused_before_any_upload():
    """60 labels and 2,000 codes have 120,000 cells: parties and servers say so when all sizes are known."""
    world = World.drawn(2, n=60, sizes=(2, 2_000), n_task=1, n_label=60)
    cast = cast_of(world, exact_tables=False)
    postman = run(cast)
    assert postman.codes() == {"E_BUDGET"}
    assert "2,002 codes of all features with 60 labels" in str(postman.errors["compute"])
    assert "use fewer columns" in str(postman.errors["compute"])
    kinds = {type(codec.decode(data).message) for data in postman.log}
    assert not kinds & {m.GramDeclaration, m.Chunk}


# Noise that one server knows.


def draws_of(cast: Cast) -> dict[str, np.ndarray]:
    """The draws of the three servers in tables with the label, noted as a run computes them."""
    noted: dict[str, np.ndarray] = {}
    for server in cast.servers:
        role: Any = server
        honest = role._make_gram

        def made(settings: Settings, honest: Any = honest, name: str = role.name) -> GramSums:
            sums = honest(settings)
            own_draw = sums._own_draw

            def noting() -> Any:
                draw = own_draw()
                noted[name] = draw.noise
                return draw

            sums._own_draw = noting
            return sums

        role._make_gram = made
    return noted


def test_the_label_noise_is_the_sum_of_three_draws_that_one_server_knows_each():
    cast = cast_of(exact_tables=False)
    noted = draws_of(cast)
    assert run(cast).states() == {State.DONE}
    expected = plain(WORLD, cast)
    cut = expected.layout.n_label_cells
    assert np.array_equal((tables_of(cast).cells - expected.cells)[:cut], sum(noted.values()))
    # Independent, and of the stated variance: cells of three draws, five standard deviations.
    privacy = cast.task.settings.privacy
    assert privacy is not None
    drawn = np.array([noted[name] for name in SERVERS])
    assert drawn.var() == pytest.approx(float(privacy.label_variance), rel=5 * np.sqrt(2 / drawn.size))
    assert np.abs(np.corrcoef(drawn)[np.triu_indices(3, 1)]).max() < 5 / np.sqrt(cut)


def test_in_many_pieces_the_sums_fit_as_well():
    """1,024 bytes per message: a cell per piece."""
    cast = cast_of(exact_tables=False)
    for role in cast.everyone():
        role.terms = msgspec.structs.replace(role.terms, chunk_bytes=1024)
    postman = run(cast, seed=3)
    assert postman.states() == {State.DONE}
    sent = [codec.decode(data).message for data in postman.log]
    assert sum(isinstance(one, m.GramSigns) for one in sent) == 3 * plain(WORLD, cast).layout.n_label_cells


def guessed(guess: int) -> tuple[bool, int]:
    """Whether a run passes in which server 0 guesses server 1's draw in the first cell; and that draw."""
    cast = cast_of(exact_tables=False)
    noted = draws_of(cast)
    guessing = GramScenario("guess", lambda sums: guess_anothers_draw(sums, guess))
    spoilt(cast, guessing, 0)
    run(cast)
    return cast.task.outcome is not None, int(noted["validate"][0])


def test_without_the_check_of_signs_a_run_would_tell_another_servers_draw(monkeypatch):
    """Why step 3 of the signs is there: a run that passes shows server 0 the draw of server 1."""
    monkeypatch.setattr(sign_noise.ReceivedLines, "verify", lambda *_, **__: None)
    passed, draw = guessed(0)
    assert passed == (draw == 0)
    assert guessed(draw) == (True, draw)
    assert guessed(draw + 1) == (False, draw)


def test_with_the_check_of_signs_a_guess_ends_the_run_whether_right_or_wrong():
    _, draw = guessed(0)
    assert guessed(draw) == (False, draw)
    assert guessed(draw + 1) == (False, draw)


def test_signs_from_the_wrong_server_are_refused():
    def meddle(envelope: m.Envelope) -> list[m.Envelope]:
        if envelope.sender == "compute" and isinstance(envelope.message, m.GramSigns):
            return [envelope, msgspec.structs.replace(envelope, recipient="validate")]
        return [envelope]

    cast = cast_of(exact_tables=False)
    assert "E_SENDER" in run(cast, meddler=meddle).codes()
    assert cast.task.outcome is None


def test_no_coefficient_leaves_before_the_signs_that_it_checks_are_here():
    """Without server 0's signs, server 2 never sends its check, which has the seed of its coefficients."""

    def meddle(envelope: m.Envelope) -> list[m.Envelope]:
        return [] if (type(envelope.message), envelope.sender) == (m.GramSigns, "compute") else [envelope]

    postman = run(cast_of(exact_tables=False), meddler=meddle)
    checks = {e.sender for e in map(codec.decode, postman.log) if isinstance(e.message, m.GramCheck)}
    assert checks == {"compute", "validate"}


# What a server sees.


def test_every_component_alone_is_uniform_whatever_the_columns_are():
    """Seeds do not depend on the columns, and the component in chunks is a shift of uniform numbers."""
    layout = GramLayout.of(WORLD.settings("gram", exact_tables=True))
    for party in layout.everybody:
        secrets = components.PartySecrets.derived(layout, party, bytes(32))
        width = layout.width_of(party) + 2
        zeros, ones = np.zeros((60, width), dtype=np.uint64), np.ones((60, width), dtype=np.uint64)
        # The component in chunks is uniform for every content: a shift of the same uniform numbers.
        first, second = (secrets.rest(layout, party, rows, 0) for rows in (zeros, ones))
        assert np.array_equal(reduced(first + np.uint64(1)), second)
    drawn = expanded(bytes(32), "uniform", (200_000,))
    from scipy import stats

    assert stats.kstest(drawn / PRIME, "uniform").pvalue > 0.001


def test_no_message_between_servers_depends_on_the_columns_but_through_the_parties_shares():
    """A server's whole view but its parties' uploads, in two worlds that differ in every column: the values
    of checks are those of its own components, or complete them to 0; masked ones add up to 0."""
    for world in (WORLD, World.drawn(9, n=60, sizes=(2, 3, 4), n_label=3)):
        postman = run(cast_of(world))
        sent = [codec.decode(data) for data in postman.log]
        for kind, field in ((m.GramCheck, "sums"), (m.GramTest, "values")):
            by_server = {e.sender: getattr(e.message, field) for e in sent if isinstance(e.message, kind)}
            shape = (2, len(by_server["compute"]) // 8)
            held = {s: from_bytes(by_server[s], shape, who=s) for s in SERVERS}
            total = np.zeros(shape[1], dtype=np.uint64)
            for number, server in enumerate(SERVERS):
                total += held[server][0]
                assert np.array_equal(held[server][1], held[SERVERS[(number + 1) % 3]][0])
            assert not reduced(total).any()


# Cheats of the drill: one server in turn, one party, and both together.

CODES = {
    "shift a sum": {"E_SUMS"},
    "shift a sum and its check": {"E_SUMS"},
    "add noise of its own choice": {"E_SUMS"},
    "open other sums than committed to": {"E_COMMITMENT"},
    "misreport the check of rows": {"E_SUMS", "E_ONE_HOT"},
    "misreport the check of entries": {"E_ONE_HOT"},
    "open another coin than committed to": {"E_NOISE"},
    "show the two others different coins": {"E_EQUIVOCATION"},
    "add signs of its own choice": {"E_SUMS"},
    "add signs of its own choice and their check": {"E_SUMS"},
    "send other signs than agreed": {"E_NOISE"},
    "send signs of other check weights": {"E_NOISE"},
    "guess another server's draw": {"E_NOISE"},
    "multiply by other signs": {"E_SUMS"},
    "misreport the check of signs": {"E_NOISE"},
    "party: count a person 20 times": {"E_ONE_HOT"},
    "party: give two codes at once": {"E_ONE_HOT"},
    "party: give no code": {"E_ONE_HOT"},
    "party: entries 2 and -1": {"E_ONE_HOT"},
    "party: check column that points at a person": {"E_CHECK_COLUMN"},
    "party: reveal other weights": {"E_CHECK_COLUMN"},
    "party: split the upload": {"E_SPLIT"},
}


@pytest.mark.parametrize(
    ("scenario", "number"),
    [(one, k) for one in SCENARIOS for k in (range(3) if one.server is not None else [0])],
    ids=lambda item: getattr(item, "behaviour", item),
)
def test_every_cheat_is_caught_or_documented(scenario, number):
    """Nobody has a result where it is caught; the one that passes is named in decision 0321."""
    cast = cast_of(exact_tables=False)
    spoilt(cast, scenario, number)
    postman = run(cast)
    if scenario.predicted == 0.0:
        assert scenario.behaviour == "party with a server: entries 2 and -1"
        assert postman.states() == {State.DONE}
        return
    assert all(party.outcome is None for party in (cast.task, *cast.parties))
    assert postman.codes()
    assert postman.codes() <= CODES[scenario.behaviour]


def test_the_drill_agrees_with_its_predictions():
    for row in gram_rows(trials=1):
        assert row.detected == row.predicted * row.trials


@pytest.mark.parametrize("field", ["coin", "pair"])
def test_a_server_that_opens_another_seed_than_it_committed_to_is_caught(field):
    def meddle(envelope: m.Envelope) -> list[m.Envelope]:
        if envelope.sender == "validate" and isinstance(envelope.message, m.GramCoin):
            changed = msgspec.structs.replace(envelope.message, **{field: bytes(32)})
            return [msgspec.structs.replace(envelope, message=changed)]
        return [envelope]

    cast = cast_of()
    assert "E_NOISE" in run(cast, meddler=meddle).codes()
    assert cast.task.outcome is None


def test_a_server_that_misreports_the_third_ones_commitment_ends_the_run():
    def meddle(envelope: m.Envelope) -> list[m.Envelope]:
        if envelope.sender == "assist" and isinstance(envelope.message, m.GramCoin):
            changed = msgspec.structs.replace(envelope.message, third=bytes(32))
            return [msgspec.structs.replace(envelope, message=changed)]
        return [envelope]

    cast = cast_of()
    assert run(cast, meddler=meddle).codes() == {"E_EQUIVOCATION"}
    assert cast.task.outcome is None


def test_a_server_that_tells_two_parties_different_sums_is_caught():
    """Commitments and signatures differ: no party accepts before all have seen the same."""

    def meddle(envelope: m.Envelope) -> list[m.Envelope]:
        if (
            envelope.sender == "assist"
            and envelope.recipient == "p0"
            and isinstance(envelope.message, m.GramCommitment)
        ):
            return [msgspec.structs.replace(envelope, message=m.GramCommitment(bytes(32)))]
        return [envelope]

    cast = cast_of()
    assert "E_COMMITMENT" in run(cast, meddler=meddle).codes()
    assert all(party.outcome is None for party in (cast.task, *cast.parties))


def test_a_withheld_share_ends_nothing_well():
    """Without one server's opening there is no result, for anybody."""
    cast = cast_of()
    run(cast, meddler=lambda e: [] if e.sender == "assist" and isinstance(e.message, m.ResultSeal) else [e])
    assert all(party.outcome is None for party in (cast.task, *cast.parties))


# Why the checks are there.


def test_without_the_test_of_check_columns_a_party_would_read_a_row(monkeypatch):
    """Why step 7 is there: the difference of what is opened is the codes of one person, without noise."""
    monkeypatch.setattr(gram_checks, "agreed", lambda shape, values: np.zeros(shape, dtype=np.uint64))
    seen: list[np.ndarray] = []
    checked = gram_upload.opened_tables

    def reading(settings: Settings, opened: Any) -> PairTables:
        layout = GramLayout.of(settings)
        n_cells = layout.width * (layout.width + 1) // 2
        total = np.zeros(n_cells + 2 * layout.width, dtype=np.uint64)
        for one in opened.values():
            total += from_bytes(one.cells, total.shape, who="x")
        total = reduced(total)
        gram = np.zeros((layout.width, layout.width), dtype=np.uint64)
        gram[np.triu_indices(layout.width)] = total[:n_cells]
        gram = np.triu(gram) + np.triu(gram, 1).T
        rho = np.concatenate(
            [
                from_bytes(next(iter(opened.values())).rho[p], (2, layout.width_of(p)), who=p)
                for p in layout.everybody
            ],
            axis=1,
        )
        due = products(gram, np.ascontiguousarray(rho.T))
        seen.append(
            (total[n_cells:].reshape(layout.width, 2).astype(np.int64) - due.astype(np.int64))[:, 1] % PRIME
        )
        return checked(settings, opened)

    monkeypatch.setattr(gram_upload, "opened_tables", reading)
    cast = cast_of(exact_tables=False)
    (probing,) = (one for one in SCENARIOS if "points at a person" in one.behaviour)
    spoilt(cast, probing, 0)
    run(cast)
    # One 1 per feature: somebody's label, the task party's code and all parties' codes.
    assert seen
    assert set(seen[0].tolist()) == {0, 1}
    assert int(seen[0].sum()) == 5


def test_a_split_upload_ends_the_run_before_any_sum_and_names_who_lied():
    cast = cast_of()
    (split,) = (one for one in SCENARIOS if "split" in one.behaviour)
    spoilt(cast, split, 0)
    postman = run(cast)
    assert "'p0' signed different components" in str(
        next(e for e in postman.errors.values() if e.code == "E_SPLIT")
    )
    assert not any(isinstance(codec.decode(data).message, m.GramCommitment) for data in postman.log)


def test_a_chunk_that_was_not_signed_is_refused():
    def meddle(envelope: m.Envelope) -> list[m.Envelope]:
        if isinstance(envelope.message, m.Chunk) and envelope.sender == "p1":
            old = envelope.message
            data = memoryview(bytes(4) + bytes(old.data)[4:])
            changed = m.Chunk(
                old.index, old.total, m.bulk_digest(old.index, old.total, old.salt, data), old.salt, data
            )
            return [msgspec.structs.replace(envelope, message=changed)]
        return [envelope]

    cast = cast_of()
    assert "E_DECLARED" in run(cast, meddler=meddle).codes()
    assert cast.task.outcome is None


def test_a_server_rebuilt_from_its_journal_sends_the_same_bytes():
    for name in SERVERS:
        check_rebuilt_server(lambda: cast_of(exact_tables=False), name)
