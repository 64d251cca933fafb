"""What a party gets from servers confirms no guess at other people's rows.

Signed digests reach every party: of the results in their seals, of the uploads in the heads of the
audit logs. Parties hold the run's key, so they can compute whatever follows from it and from a guess, and
compare. Each test here is such a party; it must not find what it looks for even where it guesses right.
"""

from __future__ import annotations

from itertools import combinations, product

import msgspec
import numpy as np
import pytest

from fedvalue.crypto import aes, keys
from fedvalue.crypto.hashing import hash_ids
from fedvalue.crypto.sorting import sort_tokens
from fedvalue.crypto.tokens import token_blocks, tokens
from fedvalue.protocol import codec
from fedvalue.protocol import messages as m
from fedvalue.protocol.mirror.naming import label_name
from fedvalue.protocol.mirror.server_result import CountsResult, decode_result
from tests.simulation.world import Codes, World, run


def test_a_data_party_cannot_find_the_counts_that_it_does_not_get():
    """Policy `counts`: with two binary columns there are as many tables as numbers of a pair of marginals."""
    world = World.drawn(3, n=40, sizes=(2,), n_task=1)
    cast = world.cast(policy="counts")
    work = []

    def spy(envelope):
        if isinstance(envelope.message, m.ResultSeal) and not work:
            work.append(next(role for role in cast.everyone() if role.name == "p0")._work)
        return [envelope]

    postman = run(cast, meddler=spy)
    assert not postman.errors
    sent = [codec.decode(data) for data in postman.log]
    naming, own = work[0]._naming, world.parties[0].codes
    told = [e for e in sent if isinstance(e.message, m.ResultSeal | m.ResultChunk) and e.recipient == "p0"]
    assert [type(e.message) for e in told] == [m.ResultSeal, m.ResultSeal]
    truth = {(y, x): int(((world.label.codes == y) & (own == x)).sum()) for y, x in product((0, 1), (0, 1))}

    def result(server: str, table: dict[tuple[int, int], int], salt: bytes) -> bytes:
        y_name, x_name = (naming.renamed(server, name) for name in (label_name(work[0]._settings), "p0"))
        _, y_stride, x_stride = naming.layout.stride
        cells = sorted((y_name[y] * y_stride + x_name[x] * x_stride, n) for (y, x), n in table.items() if n)
        words, counts = (np.array(column).astype("<u8").tobytes() for column in zip(*cells, strict=True))
        return msgspec.msgpack.encode(CountsResult(len(own), words, counts, salt))

    for envelope in told:
        server, digest = envelope.sender, envelope.message.digest
        seen = next(
            e.message.data for e in sent if isinstance(e.message, m.ResultChunk) and e.sender == server
        )
        salt = decode_result(seen).salt
        assert seen == result(server, truth, salt)  # the guess is right but for the salt
        n_x = np.bincount(own, minlength=2)
        for ones in product(range(n_x[0] + 1), range(n_x[1] + 1)):
            table = {(y, x): int(ones[x] if y else n_x[x] - ones[x]) for y, x in truth}
            for guess in (b"", bytes(16)):
                assert keys.digest(m.bulk_digest(0, 1, result(server, table, guess))) != digest


@pytest.mark.parametrize("harden", [True, False])
def test_a_data_party_cannot_find_who_is_in_a_cell(harden):
    """`paper`: one of its thirty rows of a value has the label. Thirty guesses would name the person."""
    n = 60
    own, label = np.arange(n) % 2, np.zeros(n, dtype=np.int64)
    label[[7, 8, 10, 12]] = 1  # one of own value 1, three of own value 0
    world = World(Codes("y", label, 2), None, (Codes("p0", own, 2),), World.drawn(n=n).ids)
    cast = world.cast("paper", harden=harden, q=2, n_r=0)
    party = next(role for role in cast.everyone() if role.name == "p0")
    rings = []

    def spy(envelope):
        if isinstance(envelope.message, m.IntersectionChunk) and not rings:
            rings.append(party._ring)
        return [envelope]

    postman = run(cast, meddler=spy)
    assert not postman.errors
    chunks = [codec.decode(data).message for data in postman.log]
    chunks = [one for one in chunks if isinstance(one, m.IntersectionChunk)]
    (ring,) = rings
    hashes = hash_ids(ring.ids(), world.ids)
    found = 0
    for chunk in chunks:
        if len(chunk.tokens) != 2 * 16:
            continue
        for who in combinations(np.flatnonzero(own == 1), 1):
            made = ring.tokens(chunk.query)
            blocks = token_blocks(made, hashes[list(who)], 2)
            sums = aes.encrypt(ring.validation(chunk.query), blocks)[:, 0] if harden else None
            guess, sums = sort_tokens(tokens(made, blocks), sums)
            data, payload = guess.tobytes(), sums.tobytes()
            if (data, payload) != (chunk.tokens, chunk.authenticators):
                continue
            found += 1
            for salt in ((), (b"",), (bytes(16),)):
                assert m.bulk_digest(0, 1, *salt, chunk.query, data, payload) != chunk.digest
    assert found == 1  # the guess was right, and the digest did not say so


@pytest.mark.parametrize("protocol", ["mirror", "paper", "single"])
def test_every_upload_has_a_salt_of_its_own(protocol):
    postman = run(World.drawn(1, n=12, sizes=(2,)).cast(protocol))
    sent = [codec.decode(data).message for data in postman.log]
    uploads = [one for one in sent if isinstance(one, m.BulkMessage) and not isinstance(one, m.ResultChunk)]
    assert uploads
    assert all(isinstance(one, m.SaltedMessage) for one in uploads)
    assert len({one.salt for one in uploads}) == len(uploads)
