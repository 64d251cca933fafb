"""The servers' view, byte for byte: no ids, no hashes of ids, no names of values, nothing to link."""

from __future__ import annotations

import numpy as np
import pytest

from fedvalue.crypto.hashing import hash_ids
from fedvalue.crypto.permute import row_order
from fedvalue.protocol import codec
from fedvalue.protocol import messages as m
from fedvalue.protocol.keyring import Keyring
from fedvalue.protocol.party import Party
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
    cast = world.cast(protocol, **options)
    rings = []

    class Spying(Postman):
        def _deliver(self, envelope: m.Envelope) -> None:
            super()._deliver(envelope)
            role = self._by_name[envelope.recipient]
            if isinstance(role, Party) and role._ring is not None and not rings:
                rings.append(role._ring)

    postman = Spying(cast.everyone())
    postman.run()
    assert postman.errors == {}
    received = [data for data in postman.log if codec.decode(data).recipient in ("compute", "validate")]
    return postman, b"".join(received), rings[0]


def chunk_words(postman: Postman) -> dict[tuple[str, str], np.ndarray]:
    """The masked words of every upload under mirror."""
    parts: dict[tuple[str, str], list[bytes]] = {}
    for data in postman.log:
        envelope = codec.decode(data)
        if isinstance(envelope.message, m.Chunk):
            parts.setdefault((envelope.sender, envelope.recipient), []).append(envelope.message.data)
    return {key: np.frombuffer(b"".join(data), dtype="<u8") for key, data in parts.items()}


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
    """Same ids, same secrets of the parties, another run id: no word in common."""
    world = World.drawn(3, n=500)
    words = []
    for run_id in (bytes(32), bytes([1]) * 32):
        postman, _, _ = observed(world, "mirror", run_id=run_id)
        words += list(chunk_words(postman).values())
    joined = np.concatenate(words)
    assert len(np.unique(joined)) == len(joined)


def chi_square(values: np.ndarray) -> float:
    counts = np.bincount(values, minlength=256)
    expected = len(values) / 256
    return float(((counts - expected) ** 2 / expected).sum())


# 255 degrees of freedom: mean 255, standard deviation sqrt(2 * 255) = 22.6; the bound is 6 of them.
CHI_BOUND = 255 + 6 * (2 * 255) ** 0.5


def test_mirror_uploads_look_uniform() -> None:
    """Every byte of the masked words, for every party and server."""
    postman, _, _ = observed(big_world(), "mirror")
    uploads = chunk_words(postman)
    assert len(uploads) == 6
    for words in uploads.values():
        assert len(words) == 2 * N  # codes and authenticators
        for place in range(8):
            assert chi_square(words.view(np.uint8).reshape(-1, 8)[:, place]) < CHI_BOUND


def test_sums_without_one_party_look_uniform_too() -> None:
    """A partial upload carries no information: with any one party missing the sums are random words."""
    postman, _, _ = observed(big_world(), "mirror")
    uploads = chunk_words(postman)
    for missing in {sender for sender, _ in uploads}:
        total = sum(w for (sender, server), w in uploads.items() if server == "compute" and sender != missing)
        assert len(np.unique(total)) == 2 * N
        assert chi_square((total >> np.uint64(56)).astype(np.int64)) < CHI_BOUND
    codes = sum(w for (_, server), w in uploads.items() if server == "compute")[::2]
    assert codes.max() < 3 * 4 * 2 * 2


def test_tokens_look_uniform() -> None:
    """Every byte of the tokens of every party. (Two parties send equal tokens for common samples.)"""
    postman, _, _ = observed(big_world(), "paper", n_r=3)
    for sender in ("task party", "secretive-bank", "private-shop"):
        data = np.frombuffer(all_tokens(postman, sender), dtype=np.uint8).reshape(-1, 16)
        assert len(data) > 100_000
        for place in range(16):
            assert chi_square(data[:, place]) < CHI_BOUND


def test_the_two_servers_see_unrelated_orders_and_labels() -> None:
    """Rank correlation of the two orders of the same rows within 5 / sqrt(n); other label maps."""
    world = big_world()
    _, _, ring = observed(world, "mirror")
    hashes = hash_ids(ring.ids(), world.ids)
    ranks = []
    for server in ("compute", "validate"):
        order, _ = row_order(ring.row_order(server), hashes)
        place = np.empty(N)
        place[order] = np.arange(N)
        ranks.append(place)
    assert abs(np.corrcoef(ranks)[0, 1]) < 5 / N**0.5
    maps = [ring.label_map(server, "secretive-bank", 50).tolist() for server in ("compute", "validate")]
    assert maps[0] != maps[1]


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
