"""Codebooks: servers see every coordinate's features and not whose they are; nobody changes another's."""

from __future__ import annotations

from itertools import permutations

import msgspec
import numpy as np
import pytest

from fedvalue.errors import InputError, RemoteProtocolError, VerificationError
from fedvalue.federated.valuers import make_valuer
from fedvalue.information.contingency import Codebook, JointCounts
from fedvalue.protocol import messages as m
from fedvalue.protocol.keyring import Keyring
from fedvalue.protocol.messages import Envelope
from fedvalue.protocol.mirror import counting, upload
from fedvalue.protocol.mirror.codebooks import BookLayout, BookSum, masked_table, written_section
from fedvalue.protocol.readiness import check_cells, check_code_gate, gated_sizes
from fedvalue.protocol.samples import CodedColumn, MemorySamples
from fedvalue.protocol.settings import ColumnView, Gates, RunTerms, Settings
from fedvalue.protocol.shared_codebooks import CodebookRelay, SharedCodebooks
from fedvalue.valuation.settings import ValuationSettings
from tests.simulation.world import Codes, World, run

WORLD = World.drawn(3, n=60, sizes=(4, 6)).with_features()
KEYS = [bytes([k]) * 16 for k in range(4)]


def settings(**changed: object) -> Settings:
    base = WORLD.settings("mirror")
    agreed = {"columns": ColumnView.FEATURES, "features": ((2, 1), (2, 2), (2, 3))}
    return msgspec.structs.replace(base, **(agreed | changed))


LAYOUT = BookLayout((2, 2, 4, 6), ((2, 1), (), (2, 2), (2, 3)))
BOOKS = {
    0: np.array([[1, 0], [0, 0]]),
    2: np.array([[0, 1], [1, 1], [0, 0], [1, 0]]),
    3: np.array([[0, 2], [1, 2], [0, 1], [1, 1], [0, 0], [1, 0]]),
}
OWNERS = {"task party": (0,), "p0": (2,), "p1": (3,)}


def tables(layout: BookLayout = LAYOUT) -> dict[str, bytes]:
    """Every party's masked table; the mask keys of a pair are the pair."""
    names = list(OWNERS)
    made = {}
    for k, name in enumerate(names):
        own = {
            place: written_section(layout, place, KEYS[place], BOOKS[place])
            for place in OWNERS[name]
            if layout.features[place]
        }
        masks = [(1 if j > k else -1, bytes([min(j, k), max(j, k)]) + bytes(14)) for j in range(3) if j != k]
        made[name] = bytes(masked_table(layout, own, masks))
    return made


def chunk(data: bytes, index: int = 0, total: int = 1) -> m.CodebookChunk:
    return m.CodebookChunk(index, total, b"", bytes(16), memoryview(data)).with_digest()


def summed(uploads: dict[str, bytes]) -> BookSum:
    total = BookSum(settings(), LAYOUT)
    for party, data in uploads.items():
        total.add(party, chunk(data))
    return total


def test_the_sum_of_all_tables_is_every_codebook() -> None:
    books = summed(tables()).books(KEYS)
    assert books[1] is None
    for place, codes in BOOKS.items():
        book = books[place]
        assert book is not None
        assert np.array_equal(book.codes, codes)
        assert book.features == ("feature 0", "feature 1")


def test_a_table_alone_shows_neither_its_content_nor_its_owner() -> None:
    """All of one length and without a zero block, wherever the owner's section lies."""
    uploads = tables()
    assert {len(data) for data in uploads.values()} == {LAYOUT.n_bytes}
    for data in uploads.values():
        assert bytes(16) not in (data[k : k + 16] for k in range(0, len(data), 16))
        for place, codes in BOOKS.items():
            assert written_section(LAYOUT, place, KEYS[place], codes) not in data


@pytest.mark.parametrize("place", [0, 20, LAYOUT.start(3), LAYOUT.start(3) + 17, LAYOUT.n_bytes - 1])
def test_whoever_adds_something_to_a_section_is_detected(place: int) -> None:
    """A tag, a cell, or the zeros that fill a block: one answer for all, E_AUTH."""
    uploads = tables()
    changed = bytearray(uploads["p0"])
    changed[place] = (changed[place] + 1) % 256
    with pytest.raises(VerificationError) as caught:
        summed(uploads | {"p0": bytes(changed)}).books(KEYS)
    assert caught.value.code == "E_AUTH"


def test_a_codebook_under_another_key_or_in_another_place_is_refused() -> None:
    for keys in (KEYS[::-1], [KEYS[2], KEYS[1], KEYS[0], KEYS[3]]):
        with pytest.raises(VerificationError) as caught:
            summed(tables()).books(keys)
        assert caught.value.code == "E_AUTH"


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        (chunk(bytes(LAYOUT.n_bytes), 1, 2), "E_DECLARED"),
        (chunk(bytes(LAYOUT.n_bytes), 0, 2), "E_DECLARED"),
        (chunk(bytes(LAYOUT.n_bytes - 16)), "E_SIZE"),
        (chunk(bytes(LAYOUT.n_bytes + 16)), "E_SIZE"),
        (chunk(b""), "E_SIZE"),
    ],
)
def test_parts_that_do_not_fit_are_refused(wrong: m.CodebookChunk, code: str) -> None:
    total = BookSum(settings(), LAYOUT)
    with pytest.raises(RemoteProtocolError) as caught:
        total.add("p0", wrong)
    assert caught.value.code == code
    assert total.late() == ("task party", "p0", "p1")


@pytest.mark.parametrize(("size", "width"), [(1, 1), (256, 1), (257, 2), (65_536, 2), (65_537, 4)])
def test_cells_are_as_wide_as_the_largest_feature_needs(size: int, width: int) -> None:
    layout = BookLayout((3,), ((size, 2),))
    assert layout.cell_type.itemsize == width
    assert layout.section_bytes(0) == 16 + -(-3 * 2 * width // 16) * 16


def learnable(world: World, protocol: str, **options: object) -> tuple[object, list[bytes]]:
    """A run that looks at columns one by one."""
    cast = world.cast(protocol, columns="features", engine=ValuationSettings(method="exact"), **options)
    postman = run(cast)
    assert postman.errors == {}
    return cast.task.outcome, postman.log


def test_both_servers_see_the_same_features_under_different_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines, codes and rows have other names at the other server; the order of features is the same."""
    seen: list[JointCounts] = []
    honest = make_valuer(ValuationSettings(method="exact"))

    class Watching(counting.MirrorCounting):
        def __init__(self, terms, n_samples, server, credentials, valuer, store) -> None:  # type: ignore[no-untyped-def]
            def watch(counts: JointCounts, run: RunTerms) -> object:
                seen.append(counts)
                return honest(counts, run)

            super().__init__(terms, n_samples, server, credentials, watch, store)  # type: ignore[arg-type]

    monkeypatch.setattr("fedvalue.protocol.server.MirrorCounting", Watching)
    wide = World.drawn(3, n=400, sizes=(20, 30)).with_features()
    learnable(wide, "mirror")
    first, second = seen
    sizes = sorted(book.codes.shape for book in first.codebooks)
    assert sizes == [(20, 2), (30, 2)]
    assert [b.codes.shape for b in first.codebooks] == [b.codes.shape for b in second.codebooks]
    for a, b in zip(first.codebooks, second.codebooks, strict=True):
        assert not np.array_equal(a.codes, b.codes)
        assert a.features == b.features == ("feature 0", "feature 1")
        for k in range(2):
            # The same feature: equally many lines per code, whatever the codes are called.
            assert sorted(np.bincount(a.codes[:, k])) == sorted(np.bincount(b.codes[:, k]))


def test_a_party_that_changes_anothers_codebook_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """It knows where the section lies and what the lines are called, and does not know the owner's key."""
    honest = upload.masked_table

    def evil(layout: BookLayout, own: dict[int, bytes], masks: list[tuple[int, bytes]]) -> memoryview:
        table = bytearray(honest(layout, own, masks))
        if list(own) != [0]:  # a data party, which is alone in its section
            (mine,) = own
            other = next(place for place in (2, 3) if place != mine)
            table[layout.start(other) + 16] ^= 1
        return memoryview(bytes(table))

    monkeypatch.setattr(upload, "masked_table", evil)
    postman = run(WORLD.cast(columns="features", engine=ValuationSettings(method="exact")))
    assert "E_AUTH" in postman.codes()


@pytest.mark.parametrize("change", ["codebook", "order", "none"])
def test_codebooks_that_do_not_fit_their_declaration_are_refused(change: str) -> None:
    def meddle(envelope: Envelope) -> list[Envelope]:
        message = envelope.message
        if envelope.sender != "p0" or envelope.recipient != "compute":
            return [envelope]
        if isinstance(message, m.CodebookChunk):
            if change == "none":
                return []
            other = chunk(bytes(len(message.data)), message.index, message.total)
            return [msgspec.structs.replace(envelope, message=other)] if change == "codebook" else [envelope]
        if isinstance(message, m.Declaration) and change == "order":
            turned = (*message.features[:2], *message.features[:1:-1])
            changed = msgspec.structs.replace(message, features=turned)
            return [msgspec.structs.replace(envelope, message=changed)]
        return [envelope]

    world = World.drawn(3, n=60, sizes=(4, 6)).with_features()
    postman = run(world.cast(columns="features", engine=ValuationSettings(method="exact")), meddler=meddle)
    assert "E_DECLARED" in postman.codes()


def test_servers_that_relay_codebooks_cannot_read_or_change_them() -> None:
    """`single` and `paper`: sealed for the parties. A changed part does not open (E_SEAL)."""
    world = World.drawn(4, n=40, sizes=(4, 6)).with_features()
    _, log = learnable(world, "paper", n_r=0)
    plain = [
        np.ascontiguousarray(p.codebook.codes, dtype="<u4").tobytes() for p in world.parties if p.codebook
    ]
    assert not any(book in data for book in plain for data in log)

    def damage(envelope: Envelope) -> list[Envelope]:
        message = envelope.message
        if isinstance(message, m.SealedCodebook) and envelope.sender == "compute":
            data = message.data[:-1] + bytes([message.data[-1] ^ 1])
            forged = msgspec.structs.replace(message, data=data).with_digest()
            return [msgspec.structs.replace(envelope, message=forged)]
        return [envelope]

    assert "E_SEAL" in run(world.cast("paper", n_r=0, columns="features"), meddler=damage).codes()


def sealed(party: str, index: int = 0, total: int = 1, size: int = 16) -> m.SealedCodebook:
    return m.SealedCodebook(index, total, b"", party, bytes(size)).with_digest()


def test_a_relay_passes_on_codebooks_of_their_owner_in_order_and_of_a_bounded_size() -> None:
    terms = WORLD.settings("mirror", policy="counts")
    relay = CodebookRelay(terms)
    for sender, message, code in (
        ("p0", sealed("p1"), "E_SENDER"),
        ("p0", sealed("p0", index=1, total=2), "E_DECLARED"),
        ("p0", sealed("p0", total=relay._most + 1), "E_DECLARED"),
        ("task party", sealed("task party"), "E_DECLARED"),  # nobody may have it
        ("p0", sealed("p0", size=terms.chunk_bytes + 17), "E_SIZE"),
    ):
        with pytest.raises(RemoteProtocolError) as caught:
            relay.take(sender, message)
        assert caught.value.code == code
    assert [one.recipient for one in relay.take("p0", sealed("p0", size=terms.chunk_bytes + 16))] == [
        "task party"
    ]
    with pytest.raises(RemoteProtocolError):
        relay.take("p0", sealed("p0"))


@pytest.mark.parametrize("change", [{"index": 1, "total": 2}, {"total": 2}, {"party": "p1"}])
def test_a_server_cannot_hand_on_parts_that_do_not_belong_there(change: dict[str, object]) -> None:
    def meddle(envelope: Envelope) -> list[Envelope]:
        message = envelope.message
        if envelope.recipient != "p1" or not isinstance(message, m.SealedCodebook) or message.party != "p0":
            return [envelope]
        forged = msgspec.structs.replace(message, **change).with_digest()
        return [msgspec.structs.replace(envelope, message=forged)]

    world = World.drawn(4, n=40, sizes=(4, 6)).with_features()
    postman = run(world.cast("paper", n_r=0, columns="features"), meddler=meddle)
    assert postman.errors["p1"].code == "E_DECLARED"
    assert "part of a codebook out of order" in str(postman.errors["p1"])


def test_a_party_that_seals_codes_out_of_range_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its column has feature codes 0 and 1, and it writes 2."""
    honest = SharedCodebooks._renamed

    def evil(self: SharedCodebooks, book: Codebook | None) -> np.ndarray:
        return honest(self, book) + np.uint32(2 * (self._name == "p0"))

    monkeypatch.setattr(SharedCodebooks, "_renamed", evil)
    world = World.drawn(4, n=40, sizes=(4, 6)).with_features()
    cast = world.cast("paper", n_r=0, columns="features")
    postman = run(cast)
    assert {name for name, error in postman.errors.items() if error.code == "E_RANGE"}
    assert any("a code in the codebook of 'p0' is out of range" in str(e) for e in postman.errors.values())
    assert all(party.outcome is None for party in (cast.task, *cast.parties))


def test_under_policy_counts_only_the_task_party_gets_codebooks() -> None:
    world = World.drawn(5, n=40, sizes=(4, 6)).with_features()
    cast = world.cast(policy="counts", columns="features")
    seen: list[tuple[str, str]] = []

    def watch(envelope: Envelope) -> list[Envelope]:
        if isinstance(envelope.message, m.SealedCodebook):
            seen.append((envelope.message.party, envelope.recipient))
        return [envelope]

    assert run(cast, meddler=watch).errors == {}
    assert sorted(seen) == sorted([(p, r) for p in ("p0", "p1") for r in ("compute", "task party")])
    counts = cast.task.outcome.counts
    assert [book.codes.shape for book in counts.codebooks] == [(4, 2), (6, 2)]


def test_the_gate_on_rows_per_code_applies_to_each_feature() -> None:
    """A row-unique joint code passes where its columns are seen one by one, and fails as one."""
    gates = Gates(min_samples=10, min_rows_per_code=5, min_cell=10)
    features = msgspec.structs.replace(settings(), gates=gates)
    check_code_gate(gates, "party", 100, gated_sizes(features, "p0", (100,), (20, 20)))
    with pytest.raises(VerificationError, match="21 distinct codes"):
        check_code_gate(gates, "party", 100, gated_sizes(features, "p0", (100,), (20, 21)))
    joint = msgspec.structs.replace(features, columns=ColumnView.JOINT, features=())
    with pytest.raises(VerificationError, match="100 distinct codes"):
        check_code_gate(gates, "party", 100, gated_sizes(joint, "p0", (100,), ()))
    with pytest.raises(VerificationError, match="a code of the task party's features"):
        check_cells(features, [[50, 50], [95, 5]], [50, 50])


def test_a_changed_codebook_changes_the_digest_of_the_data() -> None:
    """Keys are bound to it: two codebooks are never masked in the same way."""
    party, other = WORLD.parties[0], np.array(WORLD.parties[0].codebook.codes)
    other[0, 1] += 1

    def digest(book: Codebook | None) -> bytes:
        return MemorySamples(WORLD.ids, [CodedColumn("p0", party.codes, party.n_codes, book)]).digest

    assert len({digest(book) for book in (None, party.codebook, Codebook(("a", "b"), other))}) == 3
    assert digest(party.codebook) == digest(Codebook(("other", "names"), party.codebook.codes))


@pytest.mark.parametrize("codes", [np.zeros((3, 2), int), np.full((4, 2), -1), np.zeros((4, 2))])
def test_a_codebook_that_does_not_fit_its_column_is_refused(codes: np.ndarray) -> None:
    with pytest.raises(InputError, match="codebook"):
        MemorySamples(WORLD.ids, [CodedColumn("p0", WORLD.parties[0].codes, 4, Codebook(("a", "b"), codes))])


def test_codebooks_that_are_too_large_are_refused_before_anything_is_uploaded() -> None:
    with pytest.raises(InputError, match="codebooks of all parties") as caught:
        settings(n_codes=(2**20, 2**20), features=((), (2,) * 100, (2,) * 100))
    assert caught.value.code == "E_BUDGET"


def test_a_party_with_two_hundred_columns() -> None:
    """Its joint code is nearly row-unique; it gets at least 80% of what its two informative columns get."""
    rng = np.random.default_rng(6)
    n = 1000
    y = rng.integers(0, 2, n)
    noisy = [(y ^ (rng.random(n) < 0.25)).astype(np.int64) for _ in range(2)]

    def party(name: str, columns: list[np.ndarray]) -> Codes:
        lines, codes = np.unique(np.column_stack(columns), axis=0, return_inverse=True)
        book = Codebook(tuple(f"c{k}" for k in range(len(columns))), lines.astype(np.int64))
        return Codes(name, codes.reshape(-1).astype(np.int64), len(lines), book)

    other = party("p1", [rng.integers(0, 3, n)])
    label, ids = Codes("y", y.astype(np.int64), 2), WORLD.drawn(1, n=n).ids
    wide = party("p0", [*noisy, *(rng.integers(0, 3, n) for _ in range(198))])
    assert wide.n_codes == n
    shares = []
    for own in (wide, party("p0", noisy)):
        outcome, _ = learnable(World(label, None, (own, other), ids), "mirror")
        shares.append(outcome.shares["p0"]["learnable"])  # type: ignore[attr-defined]
    assert shares[0] >= 0.8 * shares[1] > 0


def test_the_order_of_features_is_a_secret_of_their_owner() -> None:
    """By size, which everybody knows; equal sizes in an order that changes with the owner's key alone."""
    orders = set()
    for k in range(40):
        ring = Keyring(bytes(32), bytes(32), bytes([k]) * 32, {}, {})
        order = ring.feature_order("p0", (3, 2, 3, 3))
        assert order[0] == 1
        orders.add(tuple(order[1:]))
    assert orders == set(permutations((0, 2, 3)))
    other = Keyring(bytes(32), bytes([9]) * 32, bytes([0]) * 32, {}, {})
    same = Keyring(bytes(32), bytes(32), bytes([0]) * 32, {}, {})
    assert other.feature_order("p0", (2,) * 9) == same.feature_order("p0", (2,) * 9)
