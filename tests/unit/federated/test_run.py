"""`federated_value`: what it says before it starts, and what it refuses."""

from __future__ import annotations

import pytest

from fedvalue.errors import InputError
from fedvalue.federated.run import federated_value
from fedvalue.valuation.settings import ValuationSettings
from tests.simulation.world import World

WORLD = World.drawn(1)
COLUMNS = {"label": WORLD.label, "parties": WORLD.parties, "task": WORLD.task}
PLAIN = {"settings": ValuationSettings(statistics=False, method="exact"), "threads": 1}


@pytest.mark.parametrize(
    ("protocol", "told"), [("paper", "tokens"), ("single", "tokens"), ("mirror", "bytes")]
)
def test_the_cost_is_told_before_anything_is_sent(protocol: str, told: str) -> None:
    events: list[str] = []
    result = federated_value(
        **COLUMNS, **PLAIN, protocol=protocol, n_r=1,
        progress=lambda done, total, note="": events.append(note),
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
    # One word a row, for the codes and their authenticator, from three parties to two servers.
    assert told == 8 * 40 * 3 * 2
    assert told <= sum(sizes) <= told + 300 * len(sizes)


def test_a_run_above_the_limit_is_refused_before_anything_is_sent() -> None:
    sent: list[bytes] = []
    with pytest.raises(InputError, match="above the limit") as refused:
        federated_value(**COLUMNS, protocol="paper", max_tokens=10, tap=sent.append)
    assert refused.value.code == "E_BUDGET"
    assert sent == []


@pytest.mark.parametrize(
    "options", [{"protocol": "two"}, {"policy": "some"}, {"ids": ["a"]}, {"ids": [1.5] * 40}]
)
def test_wrong_arguments_are_refused(options: dict) -> None:
    with pytest.raises(InputError):
        federated_value(**COLUMNS, **options)


def test_every_run_has_its_own_id() -> None:
    first, second = (federated_value(**COLUMNS, **PLAIN).run_id for _ in range(2))
    assert first != second
    assert len(first) == 64
