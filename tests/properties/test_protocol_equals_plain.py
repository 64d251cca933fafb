"""All protocols give the values of the plain computation, on tables of any shape."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedvalue.crypto.ids import canonical_ids
from fedvalue.federated.options import Mirror, Paper, Single, Vpsic
from fedvalue.federated.run import federated_value
from fedvalue.protocol.outcome import same_numbers
from fedvalue.valuation.engine import value_counts
from fedvalue.valuation.settings import ValuationSettings
from tests import naive
from tests.simulation.world import Codes, World


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """One to five data parties with one to four codes each, 1 to 40 samples, codes drawn freely."""
    n = draw(st.integers(1, 40))

    def column(name: str, size: int) -> Codes:
        values = draw(st.lists(st.integers(0, size - 1), min_size=n, max_size=n))
        return Codes(name, np.array(values, dtype=np.int64), size)

    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=5))
    parties = tuple(column(f"party {k}", size) for k, size in enumerate(sizes))
    task = column("task", draw(st.integers(1, 3))) if draw(st.booleans()) else None
    label = column("label", draw(st.integers(1, 3)))
    return World(label, task, parties, canonical_ids([f"id{k}" for k in range(n)]))


def columns(world: World) -> dict:
    return {"label": world.label, "parties": world.parties, "task": world.task}


@settings(max_examples=60)
@given(worlds(), st.sampled_from(["valuation", "counts"]))
def test_mirror(world: World, policy: str) -> None:
    plain = value_counts(world.counts(), ValuationSettings(method="exact", statistics=False))
    federated = federated_value(
        **columns(world),
        protocol=Mirror(policy=policy),
        threads=1,
        settings=ValuationSettings(method="exact", statistics=False),
    )
    assert federated.values == pytest.approx(plain.values, abs=1e-9)
    assert federated.total == pytest.approx(plain.total, abs=1e-9)
    assert federated.n_samples == plain.n_samples


@settings(max_examples=25)
@given(
    worlds(),
    st.sampled_from(["single", "paper"]),
    st.integers(1, 3),
    st.sampled_from([0, 1, "40%", "random:3"]),
    st.booleans(),
    st.booleans(),
)
def test_single_and_paper(
    world: World, protocol: str, q: int, n_r: int | str, harden: bool, pad: bool
) -> None:
    pad = pad and not (harden and protocol == "paper")  # refused: H3 needs the sizes
    plain = value_counts(world.counts(), ValuationSettings(method="exact", statistics=False))
    options = Single(pad=pad) if protocol == "single" else Paper(q=q, n_r=n_r, harden=harden, pad=pad)
    federated = federated_value(
        **columns(world),
        protocol=options,
        threads=1,
        settings=ValuationSettings(method="exact", statistics=False),
    )
    assert federated.values == pytest.approx(plain.values, abs=1e-9)
    assert federated.protocol == protocol


@settings(max_examples=25)
@given(worlds(), st.integers(1, 3), st.integers(1, 4), st.sampled_from([0.1, 3]), st.booleans())
def test_vpsic(world: World, rounds: int, q: int, artificial: float, harden: bool) -> None:
    plain = value_counts(world.counts(), ValuationSettings(method="exact", statistics=False))
    federated = federated_value(
        **columns(world),
        protocol=Vpsic(rounds=rounds, least_q=q, most_q=q + 2, artificial=artificial, harden=harden),
        settings=ValuationSettings(method="exact", statistics=False),
    )
    assert federated.values == pytest.approx(plain.values, abs=1e-9)
    assert federated.task_value == pytest.approx(plain.task_value, abs=1e-9)
    assert federated.n_samples == plain.n_samples
    assert federated.protocol == "vpsic"


def test_vpsic_values_renamed_joint_codes() -> None:
    """Its server counts one pseudo-category per party, so the learnable value is that of joint codes."""
    world = World.drawn(17, n=300, sizes=(4, 6, 3), n_task=3).with_features()
    how = ValuationSettings(method="exact", columns="joint")
    federated = federated_value(**columns(world), protocol=Vpsic(), settings=how)
    plain = value_counts(world.counts(), how)
    assert federated.learnable == pytest.approx(plain.learnable, abs=1e-9)
    assert any(abs(value) > 1e-5 for value in plain.learnable.values())
    assert np.array(federated.interactions) == pytest.approx(np.array(plain.interactions), abs=1e-9)


def test_against_the_naive_twin() -> None:
    """An anchor outside the engine: brute force over all coalitions."""
    world = World.drawn(11, n=120, sizes=(2, 3, 2))
    expected = naive.shapley_cmi(
        [p.codes.tolist() for p in world.parties], world.label.codes.tolist(), world.task.codes.tolist()
    )
    for protocol in ("mirror", "single", "paper", "vpsic"):
        federated = federated_value(
            **columns(world), protocol=protocol, threads=1, settings=ValuationSettings(statistics=False)
        )
        assert list(federated.values.values()) == pytest.approx(list(expected), abs=1e-9)


def test_statistics_and_interactions_come_back_in_the_order_of_the_parties() -> None:
    """The servers' order of columns is secret; what they return is put back in place."""
    world = World.drawn(12, n=200, sizes=(2, 3, 4, 2))
    plain = value_counts(world.counts(), ValuationSettings(method="exact", statistics=True))
    federated = federated_value(
        **columns(world), protocol="mirror", threads=1, settings=ValuationSettings(method="exact")
    )
    for a, b in zip(plain.parties, federated.parties, strict=True):
        assert b.name == a.name
        assert b.flags == a.flags
        for key in ("value", "share", "alone", "last", "n_codes", "se_data", "learnable"):
            assert getattr(b, key) == pytest.approx(getattr(a, key), abs=1e-9)
    assert np.array(federated.interactions) == pytest.approx(np.array(plain.interactions), abs=1e-9)
    assert federated.label_entropy == pytest.approx(plain.label_entropy, abs=1e-9)
    assert federated.task_value == pytest.approx(plain.task_value, abs=1e-9)


def test_sampled_values_of_counted_protocols_are_the_plain_ones() -> None:
    """These protocols give the task party the table: same seed, same draw."""
    world = World.drawn(13, n=200, sizes=(2, 3, 4, 2))
    how = ValuationSettings(method="sampled", n_permutations=200, seed=5, statistics=False)
    plain = value_counts(world.counts(), how)
    for protocol in (Single(), Paper(), Vpsic(), Mirror(policy="counts")):
        federated = federated_value(**columns(world), protocol=protocol, threads=1, settings=how)
        assert federated.values == pytest.approx(plain.values, abs=1e-9)


def test_sampled_values_by_the_servers_agree_within_their_error() -> None:
    """Under `valuation` the servers permute columns in an order that they do not know: another draw of
    the same estimator, and both servers draw the same."""
    world = World.drawn(14, n=200, sizes=(2, 3, 4, 2))
    exact = value_counts(world.counts(), ValuationSettings(method="exact", statistics=False))
    how = ValuationSettings(method="sampled", n_permutations=400, seed=5, statistics=False)
    federated = federated_value(**columns(world), protocol="mirror", threads=1, settings=how)
    assert federated.method == "sampled"
    for party in federated.parties:
        assert abs(party.value - exact[party.name].value) <= 5 * party.se_sampling + 1e-12


@pytest.mark.parametrize("protocol", [Mirror(), Mirror(policy="counts"), Single(), Paper(n_r=1)])
def test_columns_one_by_one_give_the_plain_result_under_every_protocol(
    protocol: Mirror | Single | Paper,
) -> None:
    """Values, learnable values, interactions, coalitions and uplift, to 1e-9: the whole result."""
    world = World.drawn(15, n=150, sizes=(4, 6, 3), n_task=3).with_features()
    how = ValuationSettings(method="exact")
    plain = value_counts(world.counts(), how).to_dict()
    federated = federated_value(**columns(world), protocol=protocol, threads=1, settings=how).to_dict()
    for about in ("protocol", "run_id", "details"):
        plain.pop(about, None), federated.pop(about)
    assert set(federated) == set(plain)
    for key, item in plain.items():
        assert same_numbers(item, federated[key], 1e-9), key


def test_columns_as_one_need_no_codebook() -> None:
    world = World.drawn(16, n=100, sizes=(4, 6)).with_features()
    joint = ValuationSettings(method="exact", columns="joint")
    sent: list[bytes] = []
    federated = federated_value(**columns(world), threads=1, settings=joint, tap=sent.append)
    plain = value_counts(world.counts(), joint)
    assert federated.learnable == pytest.approx(plain.learnable, abs=1e-9)
    assert not any(b"CodebookChunk" in data for data in sent)
