"""`federated_value`: what it says before it starts, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest

from fedvalue.engines import Execution
from fedvalue.errors import InputError
from fedvalue.federated.options import Mirror, Paper, Single, make_options
from fedvalue.federated.run import federated_value
from fedvalue.valuation.settings import ValuationSettings
from tests import naive
from tests.simulation.world import Codes, World

WORLD = World.drawn(1)
COLUMNS = {"label": WORLD.label, "parties": WORLD.parties, "task": WORLD.task}
PLAIN = {"settings": ValuationSettings(statistics=False, method="exact"), "threads": 1}


@pytest.mark.parametrize(
    ("protocol", "told"), [("paper", "tokens"), ("single", "tokens"), ("mirror", "bytes")]
)
def test_the_cost_is_told_before_anything_is_sent(protocol: str, told: str) -> None:
    events: list[str] = []
    result = federated_value(
        **COLUMNS, **PLAIN, protocol=protocol,
        execution=Execution(progress=lambda done, total, note="": events.append(note)),
        tap=lambda data: events.append("sent"),
    )  # fmt: skip
    assert told in events[0]
    assert "sent" in events[1:]
    assert result.details["cost"]["n_bytes"] > 0


def test_uploads_of_mirror_are_as_large_as_told() -> None:
    sizes: list[int] = []

    def measure(data: bytes) -> None:
        if b"\xa5Chunk" in data[:200]:
            sizes.append(len(data))

    result = federated_value(**COLUMNS, **PLAIN, tap=measure)
    told = result.details["cost"]["n_bytes"]
    # One byte a row, from three parties to two servers.
    assert told == 40 * 3 * 2
    assert told <= sum(sizes) <= told + 300 * len(sizes)


def test_a_run_above_the_limit_is_refused_before_anything_is_sent() -> None:
    sent: list[bytes] = []
    with pytest.raises(InputError, match="above the limit") as refused:
        federated_value(**COLUMNS, protocol=Paper(max_tokens=10), tap=sent.append)
    assert refused.value.code == "E_BUDGET"
    assert sent == []


@pytest.mark.parametrize(
    "options", [{"protocol": "two"}, {"align": "some"}, {"ids": ["a"]}, {"ids": [1.5] * 40}]
)
def test_wrong_arguments_are_refused(options: dict) -> None:
    with pytest.raises(InputError):
        federated_value(**COLUMNS, **options)


def test_every_run_has_its_own_id() -> None:
    first, second = (federated_value(**COLUMNS, **PLAIN).run_id for _ in range(2))
    assert first != second
    assert len(first) == 64


def test_a_misspelled_protocol_or_option_is_named() -> None:
    with pytest.raises(
        InputError,
        match=r"protocol must be single, paper, mirror, gram, vpsic, got 'miror'; did you mean 'mirr",
    ):
        federated_value(**COLUMNS, protocol="miror")
    with pytest.raises(TypeError, match="epsilom"):
        Mirror(epsilom=1)  # type: ignore[call-arg]
    with pytest.raises(InputError, match="policy must be valuation or counts, got 'values'"):
        Mirror(policy="values")
    with pytest.raises(
        InputError, match=r"protocol 'mirror' has no option 'q'; its options are policy, epsilon"
    ):
        make_options("mirror", q=3)


@pytest.mark.parametrize("wrong", [{"q": 0}, {"q": 65}, {"n_r": "many"}])
def test_options_out_of_range_are_refused_where_they_are_written(wrong: dict) -> None:
    with pytest.raises(InputError):
        Paper(**wrong)


@pytest.mark.parametrize("epsilon", [0.5, "0.5", 1, 1.0])
def test_epsilon_may_be_a_number(epsilon: float | str) -> None:
    assert Mirror(epsilon=epsilon).epsilon in ("0.5", "1")


@pytest.mark.parametrize("protocol", [Mirror(), Mirror(policy="counts"), Single(), Paper()])
def test_tables_are_reduced_to_their_common_ids(protocol: Mirror | Single | Paper) -> None:
    """Every party brings other rows in another order; the values are those of the common persons."""
    rng = np.random.default_rng(3)
    persons = np.arange(40)
    held = {name: rng.permutation(persons)[: 40 - k] for k, name in enumerate(("task", "p0", "p1"), start=3)}
    common = np.array(sorted(set.intersection(*(set(rows.tolist()) for rows in held.values()))))

    def column(table: Codes, rows: np.ndarray) -> Codes:
        return Codes(table.name, table.codes[rows], table.n_codes)

    assert WORLD.task is not None
    tables = {
        "label": column(WORLD.label, held["task"]),
        "task": column(WORLD.task, held["task"]),
        "parties": [column(party, held[party.name]) for party in WORLD.parties],
    }
    ids = {name: [f"person {k}" for k in rows] for name, rows in held.items()}
    result = federated_value(**tables, **PLAIN, ids=ids, align="intersect", protocol=protocol)
    expected = naive.shapley_cmi(
        [party.codes[common].tolist() for party in WORLD.parties],
        WORLD.label.codes[common].tolist(),
        WORLD.task.codes[common].tolist(),
    )
    assert list(result.values.values()) == pytest.approx(list(expected), abs=1e-9)
    assert result.n_samples == len(common)
    assert result.details["match_rate"] == {
        name: pytest.approx(len(common) / len(held[key]))
        for name, key in (("task party", "task"), ("p0", "p0"), ("p1", "p1"))
    }


def test_ids_by_party_must_name_every_party() -> None:
    with pytest.raises(InputError, match="ids by party: expected 'task', 'p0', 'p1', got 'task', 'p0'"):
        federated_value(**COLUMNS, ids={"task": range(40), "p0": range(40)})
