"""The servers' view, byte for byte: no ids, no hashes of ids, no names of values, nothing to link."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from fedvalue.crypto.hashing import hash_ids
from fedvalue.crypto.ids import canonical_ids
from fedvalue.crypto.tokens import token_blocks
from fedvalue.crypto.tokens import tokens as token_values
from fedvalue.federated.cast import Cast
from fedvalue.protocol import codec
from fedvalue.protocol import messages as m
from fedvalue.protocol.keyring import Keyring
from fedvalue.protocol.mirror.naming import Naming
from fedvalue.protocol.mirror.row_layout import TAG_BYTES, RowLayout
from fedvalue.protocol.party_roles import PartyRole
from tests.simulation.world import Codes, Postman, World, run

N = 4000


def big_world(seed: int = 1) -> World:
    """Ids and party names that are easy to find."""
    world = World.drawn(seed, n=N, sizes=(3, 4))
    names = ("secretive-bank", "private-shop")
    parties = tuple(Codes(name, p.codes, p.n_codes) for name, p in zip(names, world.parties, strict=True))
    return World(world.label, world.task, parties, world.ids)


def observed(world: World, protocol: str, **options: object) -> tuple[Postman, bytes, Keyring]:
    """A run, all that the servers received, and (for the search) the keys of a party."""
    return watched(world.cast(protocol, **options))


def watched(cast: Cast) -> tuple[Postman, bytes, Keyring]:
    rings = []

    class Spying(Postman):
        def _deliver(self, envelope: m.Envelope) -> None:
            super()._deliver(envelope)
            role = self._by_name[envelope.recipient]
            if isinstance(role, PartyRole) and role._ring is not None and not rings:
                rings.append(role._ring)

    postman = Spying(cast.everyone())
    postman.run()
    assert postman.errors == {}
    received = [data for data in postman.log if codec.decode(data).recipient in ("compute", "validate")]
    return postman, b"".join(received), rings[0]


def masked_rows(postman: Postman, lane_type: str) -> dict[tuple[str, str], np.ndarray]:
    """The masked rows of every upload under mirror, lane after lane, without the tags of their chunks."""
    parts: dict[tuple[str, str], list[bytes]] = {}
    for data in postman.log:
        envelope = codec.decode(data)
        if isinstance(envelope.message, m.Chunk):
            rows = envelope.message.data[:-TAG_BYTES]
            parts.setdefault((envelope.sender, envelope.recipient), []).append(rows)
    return {key: np.frombuffer(b"".join(data), dtype=lane_type) for key, data in parts.items()}


def summed_rows(postman: Postman, layout: RowLayout, server: str) -> np.ndarray:
    """What one server sees: the sum of all uploads, shape (n_rows, n_lanes)."""
    rows = [one for (_, at), one in masked_rows(postman, layout.lane_type.str).items() if at == server]
    return np.add.reduce(rows, dtype=layout.lane_type).astype(np.uint64).reshape(-1, layout.n_lanes)


def all_tokens(postman: Postman, sender: str) -> bytes:
    """Every token that one party sent; no two of them are equal."""
    envelopes = [codec.decode(data) for data in postman.log]
    return b"".join(
        e.message.tokens for e in envelopes if isinstance(e.message, m.TokenChunk) and e.sender == sender
    )


@pytest.mark.parametrize(
    ("protocol", "options"), [("mirror", {}), ("mirror", {"policy": "counts"}), ("single", {}), ("paper", {})]
)
def test_no_id_no_hash_and_no_code_reaches_a_server(protocol: str, options: dict) -> None:
    world = big_world()
    _, view, ring = observed(world, protocol, **options)
    assert b"person-" not in view
    hashes = hash_ids(ring.ids(), world.ids)
    for k in range(0, N, 20):
        assert hashes[k].tobytes() not in view
        assert hashes[k].tobytes()[:8] not in view
    for column in (world.label, *world.parties):
        for dtype in (np.uint8, np.int64):
            assert column.codes[:64].astype(dtype).tobytes() not in view
    assert ring.run_key not in view
    for pair in ring.pairs.values():
        assert pair not in view


def test_tokens_of_two_queries_and_two_runs_share_nothing() -> None:
    world = World.drawn(3, n=300, sizes=(2, 2))
    seen: set[bytes] = set()
    n_tokens = 0
    for run_id in (bytes(32), bytes([1]) * 32):
        postman, _, _ = observed(world, "paper", n_r=2, run_id=run_id)
        per_query: dict[bytes, set[bytes]] = {}
        for data in postman.log:
            message = codec.decode(data).message
            if isinstance(message, m.TokenChunk):
                cut = {message.tokens[k : k + 16] for k in range(0, len(message.tokens), 16)}
                per_query.setdefault(message.query, set()).update(cut)
        for tokens in per_query.values():
            assert seen.isdisjoint(tokens)
            seen |= tokens
            n_tokens += len(tokens)
    assert len(seen) == n_tokens > 10_000


def test_the_same_rows_look_different_in_every_run_and_at_every_server() -> None:
    """Same ids, same secrets of the parties, another run id: rows and tags agree as often as random ones.

    Two of the uploads, of 500 bytes each, agree in 500/256 places on average; 20 are 12 standard deviations
    more.
    """
    world = World.drawn(3, n=500)
    uploads, tags = [], []
    for run_id in (bytes(32), bytes([1]) * 32):
        postman, _, _ = observed(world, "mirror", run_id=run_id)
        uploads += list(masked_rows(postman, "u1").values())
        messages = [codec.decode(data).message for data in postman.log]
        tags += [bytes(one.data[-TAG_BYTES:]) for one in messages if isinstance(one, m.Chunk)]
    assert all(len(one) == 500 for one in uploads)
    assert max(np.count_nonzero(one == other) for one, other in combinations(uploads, 2)) <= 20
    assert len(set(tags)) == len(tags) == len(uploads)


def chi_square(values: np.ndarray) -> float:
    counts = np.bincount(values, minlength=256)
    expected = len(values) / 256
    return float(((counts - expected) ** 2 / expected).sum())


# 255 degrees of freedom: mean 255, standard deviation sqrt(2 * 255) = 22.6; the bound is 6 of them.
CHI_BOUND = 255 + 6 * (2 * 255) ** 0.5


WIDE = World.drawn(2, n=N, sizes=(300, 300, 300))
"""More cells than 2^16: a row has 4 bytes; in `big_world` it has one."""


@pytest.mark.parametrize("run_id", [bytes(32), bytes([1]) * 32], ids=["one run", "another"])
@pytest.mark.parametrize(
    ("world", "row_bytes"), [(big_world(), 1), (WIDE, 4)], ids=["one byte", "four bytes"]
)
def test_mirror_uploads_look_uniform(world: World, row_bytes: int, run_id: bytes) -> None:
    """Every byte of the masked rows, for every party and server."""
    postman, _, _ = observed(world, "mirror", run_id=run_id, policy="counts")
    uploads = masked_rows(postman, "u1")
    assert len(uploads) == 2 * (1 + len(world.parties))
    for rows in uploads.values():
        assert len(rows) == row_bytes * N
        for place in range(row_bytes):
            assert chi_square(rows.reshape(N, -1)[:, place]) < CHI_BOUND


def test_sums_without_one_party_look_uniform_too() -> None:
    """A partial upload carries no information: with any one party missing the sums are random."""
    postman, _, _ = observed(big_world(), "mirror")
    uploads = masked_rows(postman, "u1")

    def total(senders: set[str]) -> np.ndarray:
        rows = [one for (sender, server), one in uploads.items() if server == "compute" and sender in senders]
        return np.add.reduce(rows, dtype=np.uint8)

    everybody = {sender for sender, _ in uploads}
    for missing in everybody:
        assert chi_square(total(everybody - {missing})) < CHI_BOUND
    assert total(everybody).max() < 3 * 4 * 2 * 2


def test_tokens_look_uniform() -> None:
    """Every byte of the tokens of every party. (Two parties send equal tokens for common samples.)"""
    postman, _, _ = observed(big_world(), "paper", n_r=3)
    for sender in ("task party", "secretive-bank", "private-shop"):
        data = np.frombuffer(all_tokens(postman, sender), dtype=np.uint8).reshape(-1, 16)
        assert len(data) > 100_000
        for place in range(16):
            assert chi_square(data[:, place]) < CHI_BOUND


def everyone_in_a_cell_of_their_own() -> World:
    """4096 rows and as many cells: the joint code says whose row it is."""
    k = np.arange(64 * 64)
    parties = (Codes("p0", k // 64, 64), Codes("p1", k % 64, 64))
    return World(Codes("y", k % 2, 2), None, parties, canonical_ids([f"person-{i}" for i in k]))


def assert_unrelated(ranks: list[np.ndarray]) -> None:
    """Rank correlation of every pair below 6 / sqrt(n): six standard deviations for unrelated orders."""
    found = np.corrcoef(ranks)
    assert np.abs(found[np.triu_indices(len(ranks), 1)]).max() < 6 / len(ranks[0]) ** 0.5


def test_the_two_servers_and_two_runs_see_unrelated_orders_and_labels() -> None:
    """Read from the bytes that the servers got: the sum of the uploads in row j is somebody's joint code."""
    world = everyone_in_a_cell_of_their_own()
    n = len(world.label.codes)
    ranks, maps = [], []
    for run_id in (bytes(32), bytes([1]) * 32):
        cast = world.cast(run_id=run_id, policy="counts")
        postman, _, ring = watched(cast)
        naming = Naming(cast.task.settings, ring)
        for server in ("compute", "validate"):
            codes = summed_rows(postman, naming.layout, server)
            person = np.zeros(n, dtype=np.int64)
            for party, weight in (("p0", 64), ("p1", 1)):
                real = np.argsort(naming.renamed(server, party))
                person += weight * real[naming.layout.digits(codes, naming.place(party))]
            assert np.array_equal(np.sort(person), np.arange(n))
            ranks.append(np.argsort(person))
            maps.append(naming.renamed(server, "p0"))
    ranks.append(np.arange(n))  # and unrelated to the order in which the parties hold the rows
    assert_unrelated(ranks)
    assert len({tuple(one) for one in maps}) == 4


def test_tokens_of_the_same_samples_have_unrelated_orders_in_every_query_and_run() -> None:
    """`paper`: the servers get tokens in rising order. (The validation server sees tokens that the
    computation server sends on, so between these two there is nothing to hide.)"""
    n = 2000
    drawn = World.drawn(4, n=n, sizes=(2, 2))
    world = World(drawn.label, drawn.task, (Codes("p0", np.zeros(n, int), 1), drawn.parties[1]), drawn.ids)
    ranks = []
    for run_id in (bytes(32), bytes([1]) * 32):
        postman, _, ring = watched(world.cast("paper", q=1, n_r=0, run_id=run_id, by_coalition=False))
        hashes = hash_ids(ring.ids(), world.ids)
        sent = [codec.decode(data) for data in postman.log]
        sent = [e.message for e in sent if isinstance(e.message, m.TokenChunk) and e.sender == "p0"]
        assert len(sent) == 8
        for message in sent:
            tokens = [message.tokens[k : k + 16] for k in range(0, 16 * n, 16)]
            place = {token: k for k, token in enumerate(tokens)}
            keys = ring.tokens(message.query)
            mine = token_values(keys, token_blocks(keys, hashes, 1))
            ranks.append(np.array([place[row.tobytes()] for row in mine], dtype=float))
    ranks.append(np.arange(n, dtype=float))
    assert len(ranks) == 17
    assert_unrelated(ranks)


@pytest.mark.parametrize("n_r", [1, "random:8", "50%"])
def test_set_sizes_say_nothing_when_padded(n_r: int | str) -> None:
    """With `pad`, every query of a party has the same number of tokens, whatever its n_r."""
    world = World.drawn(5, n=200, sizes=(3, 2))
    for pad in (False, True):
        postman = run(world.cast("paper", n_r=n_r, pad=pad, harden=False))
        sizes: dict[str, set[int]] = {}
        for data in postman.log:
            envelope = codec.decode(data)
            if isinstance(envelope.message, m.TokenChunk):
                sizes.setdefault(envelope.sender, set()).add(len(envelope.message.tokens))
        assert all(len(found) == 1 for found in sizes.values()) is pad


def test_query_ids_do_not_name_cells() -> None:
    """Queries come in a secret order under random names: another run, another order."""
    world = World.drawn(5, n=60)
    orders = []
    for run_id in (bytes(32), bytes([1]) * 32):
        postman = run(world.cast("paper", n_r=0, q=1, run_id=run_id))
        sizes = {}
        for data in postman.log:
            envelope = codec.decode(data)
            if isinstance(envelope.message, m.TokenChunk) and envelope.sender == "p0":
                sizes[envelope.message.query] = len(envelope.message.tokens)
        orders.append(sizes)
    assert set(orders[0]).isdisjoint(orders[1])
    assert list(orders[0].values()) != list(orders[1].values())
