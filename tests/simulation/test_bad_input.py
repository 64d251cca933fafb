"""Bad input of our own side: refused before a byte is sent; and numbers that a server must not trust."""

from __future__ import annotations

import numpy as np
import pytest

from fedvalue.crypto.ids import canonical_ids
from fedvalue.errors import InputError
from fedvalue.protocol.transitions import State
from tests.simulation.world import Codes, World, cells, run

WORLD = World.drawn(1)
N = len(WORLD.label.codes)


@pytest.mark.parametrize(
    "codes",
    [
        np.full(N, 2),
        np.full(N, -1),
        np.full(N, 0.5),
        np.full(N, np.nan),
        np.zeros(N - 1, dtype=int),
        np.zeros((N, 1), dtype=int),
        np.array([None] * N),
        np.zeros(N, dtype=bool),
    ],
)
def test_codes_that_are_none_are_refused_locally(codes: np.ndarray) -> None:
    bad = World(WORLD.label, WORLD.task, (Codes("p0", codes, 2), WORLD.parties[1]), WORLD.ids)
    with pytest.raises(InputError):
        bad.cast()


def test_a_wrong_number_of_ids_is_refused_locally() -> None:
    with pytest.raises(InputError, match=f"expected {N} sample ids, got 3"):
        WORLD.cast(ids=canonical_ids(["a", "b", "c"]))


@pytest.mark.parametrize("protocol", ["mirror", "single", "paper"])
def test_duplicate_ids_end_the_run(protocol: str) -> None:
    twice = canonical_ids([f"person-{min(k, N - 2)}" for k in range(N)])
    cast = WORLD.cast(protocol, ids=twice)
    postman = run(cast)
    assert any(isinstance(error, InputError) for error in postman.errors.values())
    assert cast.task.state is State.FAILED
    assert cast.task.outcome is None


@pytest.mark.parametrize(
    "options",
    [
        {"q": 0}, {"q": 65}, {"n_r": -1}, {"n_r": "100%"}, {"n_r": "many"}, {"n_r": "random:0"},
        {"n_r": 1.0}, {"protocol": "none"}, {"policy": "all"}, {"run_id": b"short"},
    ],
)  # fmt: skip
def test_settings_out_of_range_are_refused(options: dict) -> None:
    with pytest.raises(InputError):
        WORLD.cast(**{"protocol": "paper", **options})


def test_names_must_differ_and_be_printable() -> None:
    for names in (("a", "a"), ("a", ""), ("a", "b\0"), ("a", "b" * 201)):
        parties = tuple(Codes(name, p.codes, p.n_codes) for name, p in zip(names, WORLD.parties, strict=True))
        with pytest.raises(InputError):
            World(WORLD.label, WORLD.task, parties, WORLD.ids).cast()


def test_parties_may_have_the_names_of_roles() -> None:
    names = ("compute", "task party")
    parties = tuple(Codes(name, p.codes, p.n_codes) for name, p in zip(names, WORLD.parties, strict=True))
    cast = World(WORLD.label, WORLD.task, parties, WORLD.ids).cast("paper", n_r=1)
    assert run(cast).errors == {}


def test_coalition_by_coalition_is_for_few_parties() -> None:
    world = World.drawn(1, sizes=(2,) * 17)
    with pytest.raises(InputError, match="at most 16"):
        world.cast("paper", by_coalition=True)


def test_too_many_queries_are_refused_however_few_samples() -> None:
    world = World.drawn(1, n=1, sizes=(1000, 1000, 1000))
    assert run(world.cast("paper", max_tokens=10**15)).codes() == {"E_BUDGET"}


def test_codes_may_change_outside_without_effect() -> None:
    """The party has its own copy: keys are bound to it."""
    world = World.drawn(1)
    cast = world.cast(policy="counts")
    expected = cells(world.counts())
    world.parties[0].codes[:] = 0
    assert run(cast).errors == {}
    assert cells(cast.task.outcome.counts) == expected


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.uint64])
def test_codes_of_any_integer_type(dtype: type) -> None:
    world = World.drawn(1)
    parties = tuple(Codes(p.name, p.codes.astype(dtype), p.n_codes) for p in world.parties)
    for protocol in ("mirror", "single"):
        cast = World(world.label, world.task, parties, world.ids).cast(
            protocol, **({"policy": "counts"} if protocol == "mirror" else {})
        )
        assert run(cast).errors == {}
        assert cells(cast.task.outcome.counts) == cells(world.counts())


def test_a_run_too_large_ends_before_anything_is_uploaded() -> None:
    postman = run(WORLD.cast("paper", max_tokens=100))
    assert postman.codes() == {"E_BUDGET"}
    assert any("above the limit" in str(error) for error in postman.errors.values())
    assert not any(b"TokenChunk" in data for data in postman.log)
