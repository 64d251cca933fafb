"""Data parties that cheat: what they upload is not what their own column says."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from fedvalue.crypto import aes
from fedvalue.crypto.ids import canonical_ids
from fedvalue.crypto.permute import row_order
from fedvalue.errors import InputError
from fedvalue.federated.cast import Cast
from fedvalue.protocol.mirror.authenticators import CodeCheck, RowWeights
from fedvalue.protocol.mirror.naming import label_name
from fedvalue.protocol.mirror.upload import MirrorWork
from fedvalue.protocol.tokens.asking import TokenWork, ValueSets
from fedvalue.protocol.transitions import State
from fedvalue.valuation.engine import value_counts
from fedvalue.valuation.settings import ValuationSettings
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
    key = work._ring.row_order(server)
    (everybody,) = work._samples.parts(key)
    order = row_order(key, everybody.hashes)
    return int(np.flatnonzero(order == person)[0])


Pieces = Iterator[tuple[np.ndarray, int]]


def copy_label(work: MirrorWork, server: str, n_rows: int) -> Pieces:
    """Own digit 0 and label digit + 1 in every row: the carry writes the label into the own digit."""
    ((rows, tag),) = honest(work, server, n_rows)
    if work._name == EVIL:
        strides, own = work._naming.layout.stride, work._naming.renamed(server, EVIL)
        place = work._naming.place(EVIL)
        rows[:, 0] += np.uint32((strides[1] - int(own[0]) * strides[place]) % 2**32)
    yield rows, tag


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
    monkeypatch.setattr(CodeCheck, "authentic", lambda *_: True)
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

        def shift(work: MirrorWork, server: str, n_rows: int, person: int = person) -> Pieces:
            ((rows, tag),) = honest(work, server, n_rows)
            if work._name == EVIL and server in servers:
                name = label_name(work._settings) if column == "label" else column
                stride = work._naming.layout.stride[work._naming.place(name)]
                rows[rows_of(work, server, person), 0] += np.uint32(stride)
            yield rows, tag

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
    """Adding what its own weights would need does not help: the label's are under another key."""

    def guess(work: MirrorWork, server: str, n_rows: int) -> Pieces:
        ((rows, tag),) = honest(work, server, n_rows)
        if work._name == EVIL:
            rows[:, 0] += np.uint32(work._naming.layout.stride[1])
            tag += RowWeights(work._ring.code_key(server, EVIL)).tag(np.ones(len(rows), dtype=np.uint32), 0)
        yield rows, tag

    monkeypatch.setattr(MirrorWork, "_masked", guess)
    assert run(world().cast()).codes() == {"E_AUTH"}


def test_changes_that_cancel_over_rows_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two persons' labels exchanged: all marginals and all sums without weights stay the same."""

    def exchange(work: MirrorWork, server: str, n_rows: int) -> Pieces:
        ((rows, tag),) = honest(work, server, n_rows)
        if work._name == EVIL:
            names = work._naming.renamed(server, label_name(work._settings))
            labels = names[world().label.codes]
            (one, *_), (other, *_) = np.flatnonzero(labels == 0), np.flatnonzero(labels == 1)
            stride = np.uint32(work._naming.layout.stride[1])
            rows[rows_of(work, server, int(one)), 0] += stride
            rows[rows_of(work, server, int(other)), 0] -= stride
        yield rows, tag

    monkeypatch.setattr(MirrorWork, "_masked", exchange)
    assert run(world().cast()).codes() == {"E_AUTH"}


class ChosenSets:
    """Sets that the cheat picks for one query, of the same sizes as those of its own column."""

    def __init__(self, own: ValueSets, value_sent_for: Callable[[int], int]) -> None:
        self._own = own
        self._value_sent_for = value_sent_for
        self.sizes = own.sizes

    def of(self, value: int) -> aes.Blocks:
        return self._own.of(self._value_sent_for(value))


def send_other_sets(
    monkeypatch: pytest.MonkeyPatch, sets_for: Callable[[TokenWork, dict[str, int]], object]
) -> None:
    """The cheat sends, for each cell, the sets of `sets_for`, and looks away from its own checks."""
    encrypted, table_check, set_check = TokenWork._encrypted, TokenWork._check_table, TokenWork._check_sets

    def cheat(work: TokenWork, number: int, *rest: object) -> object:
        if work._name != EVIL:
            return encrypted(work, number, *rest)  # type: ignore[arg-type]
        table = work._tables[work._members[number]]
        cell = {member: int(table.values(member)[number - table.first]) for member in table.coalition}
        own = work._sets
        work._sets = sets_for(work, cell)  # type: ignore[assignment]
        try:
            return encrypted(work, number, *rest)  # type: ignore[arg-type]
        finally:
            work._sets = own

    def unless_evil(check: object) -> object:
        return lambda work, *rest: None if work._name == EVIL else check(work, *rest)  # type: ignore[operator]

    monkeypatch.setattr(TokenWork, "_encrypted", cheat)
    monkeypatch.setattr(TokenWork, "_check_table", unless_evil(table_check))
    monkeypatch.setattr(TokenWork, "_check_sets", unless_evil(set_check))


def send_by_cell(monkeypatch: pytest.MonkeyPatch, choose: Callable[[TokenWork, dict[str, int]], int]) -> None:
    """The cheat, whose column is a bit, sends v XOR choose(cell) for v."""

    def flipped(work: TokenWork, cell: dict[str, int]) -> ChosenSets:
        flip = choose(work, cell)
        return ChosenSets(work._sets, lambda value: value ^ flip)

    send_other_sets(monkeypatch, flipped)


def bits(n: int, *columns: np.ndarray, task: np.ndarray | None = None) -> World:
    """A world of bits: the label first, then the parties' columns."""
    label, *parties = columns
    return World(
        Codes("y", label, 2),
        None if task is None else Codes("t", task, 2),
        tuple(Codes(f"p{k}", codes, 2) for k, codes in enumerate(parties)),
        canonical_ids([f"person-{k}" for k in range(n)]),
    )


def values_in(cast: Cast) -> dict[str, float]:
    """Values that the task party computes from its counts."""
    assert cast.task.outcome is not None
    assert cast.task.outcome.counts is not None
    found = value_counts(cast.task.outcome.counts, ValuationSettings(method="exact", statistics=False))
    return {party.name: party.value for party in found.parties}


def test_a_data_party_cannot_take_the_value_of_another_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Review, finding 2: y = p0 XOR p1, each worth half a bit. The cheat names the label in every cell.

    Without the comparison of coalitions all checks pass, and it takes the other party's half. With it, as
    is the default, the table without the other party contradicts the claim.
    """
    person = np.arange(64)
    first, second = person % 2, person // 2 % 2
    world = bits(64, first ^ second, first, second)
    half = np.log(2) / 2
    honest_cast = world.cast("paper")
    run(honest_cast)
    assert values_in(honest_cast) == pytest.approx({"p0": half, EVIL: half})

    def claims_the_label(work: TokenWork, cell: dict[str, int]) -> int:
        # Who has label y and code o elsewhere has y XOR o here: send these persons under the value y.
        return cell.get("p0", 0)

    send_by_cell(monkeypatch, claims_the_label)
    old = world.cast("paper", by_coalition=False)
    assert run(old).errors == {}
    assert values_in(old) == pytest.approx({"p0": 0.0, EVIL: 2 * half})
    cast = world.cast("paper")
    assert "E_MARGINAL" in run(cast).codes()
    assert cast.task.outcome is None


def test_a_column_like_the_task_partys_can_still_claim_the_label_under_paper(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What remains, as docs/security.md says: a copy of X_t, worth nothing, is sold as the label."""
    person = np.arange(64)
    label, known = person % 2, person // 2 % 2
    world = bits(64, label, person // 4 % 2, known, task=known)
    honest_cast = world.cast("paper")
    run(honest_cast)
    assert values_in(honest_cast)[EVIL] == pytest.approx(0.0)

    def claims_the_label(work: TokenWork, cell: dict[str, int]) -> int:
        task, label = divmod(cell[work._settings.task], 2)
        return task ^ label

    send_by_cell(monkeypatch, claims_the_label)
    cast = world.cast("paper")
    assert run(cast).errors == {}
    assert values_in(cast)[EVIL] == pytest.approx(np.log(2))


class SetsOfTheLabel:
    """All ids where the claimed value is the cell's label, none elsewhere."""

    def __init__(self, everybody: aes.Blocks, label: int, own: np.ndarray) -> None:
        self._everybody = everybody
        self._label = label
        self.sizes = own

    def of(self, value: int) -> aes.Blocks:
        return self._everybody if value == self._label else self._everybody[:0]


def send_all_ids_for_the_label(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cheat answers each cell by the label that the cell names."""

    def all_ids(work: TokenWork, cell: dict[str, int]) -> SetsOfTheLabel:
        label = cell[work._settings.task] % work._settings.n_label_codes
        return SetsOfTheLabel(work._sets._hashes, label, work._sets.sizes)

    send_other_sets(monkeypatch, all_ids)


@pytest.mark.parametrize("by_coalition", [False, True])
@pytest.mark.parametrize("n_r", [0, 2, "random:5"])
def test_sets_that_depend_on_the_cell_are_detected(
    n_r: int | str, by_coalition: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """E_SETS in every trial of the hardened protocol (H3)."""
    send_all_ids_for_the_label(monkeypatch)
    for k in range(3):
        cast = world().cast("paper", n_r=n_r, by_coalition=by_coalition, secret=bytes([k]) * 32)
        postman = run(cast)
        assert "E_SETS" in postman.codes()
        assert cast.task.outcome is None
        assert cast.parties[0].outcome is None


def test_sets_that_depend_on_the_cell_pass_as_published(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps 1 to 4 do not see it: the counts say that the cheat's value is the label."""
    send_all_ids_for_the_label(monkeypatch)
    cast = world().cast("paper", harden=False)
    run(cast)
    counts = cast.task.outcome.counts
    assert np.array_equal(counts.parties[:, 1], counts.label)


@pytest.mark.parametrize("who", ["task party", "p0"])
def test_a_server_that_misstates_a_size_ends_the_run(who: str) -> None:
    """It can do no more: what it says about sizes changes no value."""
    from fedvalue.protocol.computation_server import ComputationServer
    from fedvalue.protocol.tokens.intersecting import AnswerLog

    class Misstating(AnswerLog):
        def answer(self, query_id, coalition, count, sizes=()):  # type: ignore[no-untyped-def]
            place = coalition.index(who)
            changed = tuple(size + 3 * (k == place and not self._answers) for k, size in enumerate(sizes))
            return super().answer(query_id, coalition, count, changed)

    class Server(ComputationServer):
        def _make_tokens(self, settings):  # type: ignore[no-untyped-def]
            made = super()._make_tokens(settings)
            made._log = Misstating(settings, settings.compute, self._credentials.signing_key)
            return made

    postman = run(world().cast("paper", by_coalition=False, servers={"computation": Server}))
    assert "E_SETS" in postman.codes()


def test_padding_is_refused_where_sizes_are_checked() -> None:
    with pytest.raises(InputError, match="pad hides the set sizes"):
        world().cast("paper", pad=True)
    assert run(world().cast("paper", pad=True, harden=False)).errors == {}
