"""`vpsic`: honest runs give the true counts, checks catch what they are for, and one lie passes them all."""

from __future__ import annotations

import numpy as np
import pytest

import fedvalue
from fedvalue.crypto.ids import PackedIds
from fedvalue.errors import InputError, RemoteProtocolError, VerificationError
from fedvalue.federated.cast import CodedTables, make_terms
from fedvalue.federated.options import Vpsic
from fedvalue.federated.vpsic_run import vpsic_counts
from fedvalue.protocol.vpsic import CellCounts, VpsicParty, VpsicServer, VpsicSettings, VpsicTaskParty
from fedvalue.simulation.drill.plot import Plot
from fedvalue.simulation.drill.vpsic_drill import (
    MovingServer,
    between_two_cells,
    blind_detection,
    read_q,
    uniform_tables,
    vpsic_rows,
)

PUBLISHED = VpsicSettings(harden=False)
N = 300


@pytest.fixture
def tables() -> CodedTables:
    return uniform_tables(N, 3, 4, np.random.default_rng(5))


def run(tables: CodedTables, settings: VpsicSettings, server: VpsicServer | None = None):
    return vpsic_counts(tables, settings, ids=PackedIds.of_rows(N), server=server, secret=bytes(32))


class Changing(VpsicServer):
    """Changes its true answer in some round."""

    def __init__(self, change, only: int | None = None) -> None:
        self._change = change
        self._only = only

    def count(self, index, uploads):
        truth = super().count(index, uploads)
        if self._only is not None and index != self._only:
            return truth
        cells, counts = truth.cells.copy(), truth.counts.copy()
        self._change(cells, counts)
        return CellCounts(cells[counts > 0], counts[counts > 0])


def test_the_accepted_counts_are_the_true_ones(tables: CodedTables) -> None:
    """Column by column up to the data parties' renaming: the same partition, the same counts."""
    found = run(tables, PUBLISHED)
    codes = np.column_stack([tables.label.codes, *(party.codes for party in tables.parties)])
    true = sorted(np.unique(codes, axis=0, return_counts=True)[1].tolist())
    assert sorted(found.count.tolist()) == true
    assert found.n_samples == N
    assert np.bincount(found.label, found.count).tolist() == np.bincount(tables.label.codes).tolist()
    for k, party in enumerate(tables.parties):
        mine = np.bincount(found.parties[:, k], found.count)
        assert sorted(mine.tolist()) == sorted(np.bincount(party.codes).tolist())


def add_one(cells, counts):
    counts[0] += 1


def drop_cell(cells, counts):
    counts[np.argmax(counts)] = 0


def empty(cells, counts):
    counts[:] = 0


@pytest.mark.parametrize(
    ("change", "only", "code"),
    [(add_one, None, "E_FLOOR"), (empty, None, "E_FLOOR"), (drop_cell, 1, "E_ROUNDS")],
)
def test_published_checks_catch_a_server_that_does_not_know_q(tables, change, only, code) -> None:
    with pytest.raises(VerificationError) as caught:
        run(tables, PUBLISHED, Changing(change, only))
    assert caught.value.code == code


def test_a_server_that_reads_q_passes_the_published_checks_and_not_the_marginals(tables: CodedTables) -> None:
    def server():
        return MovingServer(Plot(np.random.default_rng(0)), between_two_cells)

    false, true = run(tables, PUBLISHED, server()), run(tables, PUBLISHED)
    assert false.n_samples == true.n_samples
    assert sorted(false.count.tolist()) != sorted(true.count.tolist())
    with pytest.raises(VerificationError) as caught:
        run(tables, VpsicSettings(harden=True), server())
    assert caught.value.code == "E_MARGINAL"


def test_the_drill_says_so() -> None:
    rows = {(row.behaviour, row.hardened): row for row in vpsic_rows(trials=10, seed=2)}
    assert len(rows) == 10
    assert not any(row.surprising for row in rows.values())
    assert rows["move a row between two cells, reading q", False].detected == 0
    assert rows["move a row between two cells, reading q", True].detected == 10
    assert rows["move rows round a rectangle, reading q", True].detected == 0


def test_in_a_dense_table_a_server_that_knows_n_passes_where_reading_counts_fails() -> None:
    """50 cells of 40 rows: the counts hide q, and their sum shows it."""
    dense = {"n_samples": 2000, "n_parties": 2, "n_codes": 5}
    rows = {(row.behaviour, row.hardened): row for row in vpsic_rows(trials=5, seed=3, **dense)}
    assert rows["move a row between two cells, reading q", False].detected > 0
    assert rows["move a row between two cells, knowing n", False].detected == 0
    assert rows["move a row between two cells, knowing n", True].detected == 5
    assert rows["move rows round a rectangle, knowing n", True].detected == 0


def test_blind_guesses_are_found_out_as_often_as_predicted() -> None:
    """One q: it passes where the guess is a multiple of it. Two rounds: where both q are the same, too."""
    assert blind_detection(VpsicSettings(rounds=1, least_q=8, most_q=8)) == pytest.approx(6 / 7)
    assert blind_detection(VpsicSettings(rounds=1, least_q=2, most_q=2)) == pytest.approx(3 / 7)
    assert blind_detection(VpsicSettings()) == pytest.approx(1 - 12 / 7 / 49)


@pytest.mark.parametrize("q", [2, 3, 5, 8])
def test_sparse_counts_reveal_q(q: int) -> None:
    rng = np.random.default_rng(q)
    real = np.bincount(rng.integers(0, 5000, 1000), minlength=5000)
    artificial = np.bincount(rng.integers(0, 5000, 400), minlength=5000)
    counts = q * real + artificial
    assert read_q(counts[counts > 0]) == q


def test_uploads_hide_ids_copies_and_codes() -> None:
    """Tokens are fresh in every round, in an order of their own, and the repr of a plan shows no secret."""
    ids, codes = PackedIds.of_rows(50), np.arange(50) % 5
    task = VpsicTaskParty("task", ids, codes, 5, secret=b"t" * 32, settings=PUBLISHED)
    party = VpsicParty("a", ids, codes, 5, secret=b"a" * 32)
    first = task.plan()
    upload = party.upload(first)
    assert len(upload.tokens) == 50 * first.q + first.n_artificial
    assert np.array_equal(upload.tokens, task.upload(first).tokens)
    assert len(np.unique(upload.tokens, axis=0)) == len(upload.tokens)
    assert repr(first) == "Round(index=0)"
    answer = VpsicServer().count(0, [task.upload(first), upload])
    task.check(first, answer, [task.artificial(first), party.artificial(first)])
    second = task.plan()
    assert not np.isin(party.upload(second).tokens, upload.tokens).all(axis=1).any()


def test_parties_with_other_ids_are_refused() -> None:
    codes = np.zeros(4, dtype=np.int64)
    task = VpsicTaskParty("task", PackedIds.of_rows(4), codes, 1, secret=b"t" * 32, settings=PUBLISHED)
    other = VpsicParty("a", PackedIds.of_rows(8).take(np.arange(4, 8)), codes, 1, secret=b"a" * 32)
    plan = task.plan()
    with pytest.raises(VerificationError) as caught:
        VpsicServer().count(0, [task.upload(plan), other.upload(plan)])
    assert caught.value.code == "E_POPULATION"


def test_rounds_in_turn_only() -> None:
    codes = np.zeros(4, dtype=np.int64)
    task = VpsicTaskParty("task", PackedIds.of_rows(4), codes, 1, secret=b"t" * 32, settings=PUBLISHED)
    plan = task.plan()
    answer = VpsicServer().count(0, [task.upload(plan)])
    with pytest.raises(RemoteProtocolError):
        _ = task.result
    task.check(plan, answer, [task.artificial(plan)])
    with pytest.raises(RemoteProtocolError) as caught:
        task.check(plan, answer, [task.artificial(plan)])
    assert caught.value.code == "E_STATE"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rounds": 0}, "rounds must be 1 to 20, got 0"),
        ({"least_q": 9}, "least_q <= most_q"),
        ({"artificial": 0}, "artificial must be above 0"),
    ],
)
def test_settings_out_of_range(options, message) -> None:
    with pytest.raises(InputError, match=message):
        Vpsic(**options)


def test_it_cannot_be_deployed(tables: CodedTables) -> None:
    with pytest.raises(InputError, match="runs in one process only"):
        make_terms(tables, "vpsic")


def test_learnable_values_are_those_of_joint_codes_and_the_result_says_so() -> None:
    rng = np.random.default_rng(3)
    label = rng.integers(0, 2, 400)
    late = (label + (rng.random(400) < 0.3)) % 2
    parties = {"telco": {"late": late, "age": rng.integers(0, 3, 400)}, "shop": {"returns": label * late}}
    task = {"income": rng.integers(0, 3, 400), "branch": rng.integers(0, 2, 400)}
    found = fedvalue.value(label=label, task=task, parties=parties, protocol="vpsic")
    plain = fedvalue.value(label=label, task=task, parties=parties)
    joint = fedvalue.value(label=label, task=task, parties=parties, columns="joint")
    assert found.settings is not None
    assert found.settings.columns == "joint"
    assert found.learnable == pytest.approx(joint.learnable, abs=1e-9)
    assert found.learnable != pytest.approx(plain.learnable, abs=1e-4)
    assert found.values == pytest.approx(plain.values, abs=1e-9)
