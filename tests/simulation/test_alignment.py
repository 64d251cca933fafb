"""`align = "intersect"`: parties with different ids are reduced to the common ones first."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest

from fedvalue.crypto.ids import canonical_ids
from fedvalue.errors import InputError
from fedvalue.protocol import codec
from fedvalue.protocol import messages as m
from fedvalue.protocol.alignment import ServerAlignment
from fedvalue.protocol.messages import Envelope
from fedvalue.protocol.settings import Align
from fedvalue.protocol.transitions import State
from fedvalue.protocol.validation_server import ValidationServer
from fedvalue.protocol.work import Addressed
from fedvalue.valuation.answers import make_valuer
from fedvalue.valuation.engine import value_counts
from fedvalue.valuation.federated import Cast, make_cast, make_settings
from tests.simulation.world import RUN_ID, SECRET, Codes, World, cells, run

FULL = World.drawn(21, n=80, sizes=(2, 3))
KEEP = {
    "task party": np.arange(0, 70),
    "p0": np.arange(79, 4, -1),
    "p1": np.concatenate([np.arange(20, 80), np.arange(0, 10)]),
}
COMMON = [k for k in range(80) if all(k in kept for kept in KEEP.values())]


def cast_of(protocol: str, keep: dict[str, np.ndarray] | None = None, **options: Any) -> Cast:
    """Every party brings its own part of the people, in its own order."""
    keep = KEEP if keep is None else keep
    servers = options.pop("servers", {})
    ids = {name: canonical_ids([f"person-{k}" for k in kept]) for name, kept in keep.items()}

    def part(column: Codes, name: str) -> Codes:
        return Codes(column.name, column.codes[keep[name]], column.n_codes)

    columns = {
        "label": part(FULL.label, "task party"),
        "task": part(FULL.task, "task party"),
        "parties": tuple(part(p, p.name) for p in FULL.parties),
    }
    settings = make_settings(**columns, protocol=protocol, run_id=RUN_ID, **options)
    settings = msgspec.structs.replace(settings, align=Align.INTERSECT, n_samples=75, chunk_bytes=1024)
    valuer = make_valuer(method="exact", statistics=False)
    return make_cast(settings, **columns, ids=ids, valuer=valuer, secret=SECRET, **servers)


def common_world() -> World:
    def part(column: Codes) -> Codes:
        return Codes(column.name, column.codes[COMMON], column.n_codes)

    return World(part(FULL.label), part(FULL.task), tuple(map(part, FULL.parties)), FULL.ids)


@pytest.mark.parametrize(
    ("protocol", "options"),
    [("mirror", {}), ("mirror", {"policy": "counts"}), ("single", {}), ("paper", {"n_r": 1, "q": 2})],
)
def test_the_common_people_are_valued(protocol: str, options: dict) -> None:
    expected = common_world().counts()
    for seed in range(3):
        cast = cast_of(protocol, **options)
        postman = run(cast, seed=seed, twice=0.2)
        assert postman.errors == {}
        assert postman.states() == {State.DONE}
        outcome = cast.task.outcome
        assert outcome.n_samples == len(COMMON)
        assert outcome.rows == {"task party": 70, "p0": 75, "p1": 70}
        if outcome.counts is not None:
            assert cells(outcome.counts) == cells(expected)
        else:
            plain = value_counts(expected, method="exact", statistics=False)
            for name, value in plain.values.items():
                assert outcome.shares[name]["value"] == pytest.approx(value, abs=1e-9)


def test_servers_see_no_id_and_no_token_twice() -> None:
    """The two servers' tokens of the same people share nothing."""
    postman = run(cast_of("mirror"))
    seen: dict[str, set[bytes]] = {}
    for data in postman.log:
        envelope = codec.decode(data)
        assert b"person-" not in data
        if isinstance(envelope.message, m.AlignChunk):
            tokens = envelope.message.tokens
            cut = {tokens[k : k + 16] for k in range(0, len(tokens), 16)}
            seen.setdefault(envelope.recipient, set()).update(cut)
    assert len(seen["compute"]) == 80
    assert seen["compute"].isdisjoint(seen["validate"])


def test_nobody_in_common_ends_the_run() -> None:
    apart = {"task party": np.arange(0, 20), "p0": np.arange(20, 40), "p1": np.arange(40, 60)}
    cast = cast_of("mirror", apart)
    postman = run(cast)
    assert "E_POPULATION" in postman.codes()
    assert cast.task.outcome is None


class Forgetful(ServerAlignment):
    """Leaves one common person out."""

    def results(self) -> list[Addressed]:
        everybody = self._settings.everybody
        honest, self._tokens = self._tokens, dict(self._tokens)
        sets = [np.concatenate(honest[name]) for name in everybody]
        shared = set.intersection(*({row.tobytes() for row in tokens} for tokens in sets))
        gone = min(shared)
        first = sets[0]
        self._tokens[everybody[0]] = [np.array([row for row in first if row.tobytes() != gone])]
        rows = {name: len(tokens) for name, tokens in zip(everybody, sets, strict=True)}
        out = []
        for name, answer in super().results():
            assert isinstance(answer, m.Aligned)
            if name == everybody[0]:  # its own bits must again be as many as its tokens
                keep = np.array([row.tobytes() != gone for row in first])
                bits = np.zeros(len(first), dtype=bool)
                count = len(first) - 1
                bits[keep] = np.unpackbits(
                    np.frombuffer(answer.common, dtype=np.uint8), bitorder="little", count=count
                ).astype(bool)
                out.append((name, self._answer(name, rows, bits)))
            else:
                whole = np.unpackbits(
                    np.frombuffer(answer.common, dtype=np.uint8), bitorder="little", count=rows[name]
                )
                out.append((name, self._answer(name, rows, whole.astype(bool))))
        return out


def forgetful_validation(settings: Any, *, credentials: Any, **named: Any) -> ValidationServer:
    server = ValidationServer(settings, credentials=credentials, **named)
    server._alignment = Forgetful(settings, settings.validate, credentials.signing_key)
    return server


def test_a_server_that_leaves_somebody_out_is_seen() -> None:
    """The other server's answer names one person more: E_MIRROR, before any upload."""
    cast = cast_of("mirror", servers={"validation": forgetful_validation})
    postman = run(cast)
    assert "E_MIRROR" in postman.codes()
    assert not any(isinstance(codec.decode(data).message, m.Chunk) for data in postman.log)


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"n_common": 3}, "E_SIGNATURE"),
        ({"common": b"\xff" * 9}, "E_SIGNATURE"),
        ({"rows": {}}, "E_SIGNATURE"),
        ({"signature": bytes(64)}, "E_SIGNATURE"),
    ],
)
def test_an_answer_changed_on_the_way_is_seen(changed: dict, code: str) -> None:
    def change(envelope: Envelope) -> list[Envelope]:
        message = envelope.message
        if isinstance(message, m.Aligned) and envelope.recipient == "p0" and envelope.sender == "compute":
            return [msgspec.structs.replace(envelope, message=msgspec.structs.replace(message, **changed))]
        return [envelope]

    postman = run(cast_of("mirror"), meddler=change)
    assert code in postman.codes()


def test_one_partys_answer_does_not_serve_another() -> None:
    """Signatures name their recipient."""
    kept = {}

    def exchange(envelope: Envelope) -> list[Envelope]:
        message = envelope.message
        if isinstance(message, m.Aligned) and envelope.sender == "compute":
            kept.setdefault(envelope.recipient, message)
            if envelope.recipient == "p1" and "task party" in kept:
                return [msgspec.structs.replace(envelope, message=kept["task party"])]
        return [envelope]

    assert "E_SIGNATURE" in run(cast_of("mirror"), meddler=exchange).codes()


def test_more_ids_than_agreed_are_refused_locally() -> None:
    with pytest.raises(InputError, match="expected 1 to 75"):
        cast_of("mirror", KEEP | {"p0": np.arange(0, 80)})


def test_repeated_ids_are_refused() -> None:
    twice = KEEP | {"p1": np.concatenate([np.arange(0, 60), [5]])}
    postman = run(cast_of("mirror", twice))
    assert any(isinstance(error, InputError) for error in postman.errors.values())
