"""An own utility handed to `fedvalue.value`."""

from __future__ import annotations

import numpy as np
import pytest

import fedvalue
from fedvalue.errors import InputError
from tests import naive

LABEL = [0, 1, 0, 1, 1, 0, 1, 0]
PARTIES = {"a": {"x": [0, 1, 0, 1, 0, 0, 1, 1]}, "b": {"x": [1, 1, 0, 0, 1, 0, 1, 0]}, "c": {"x": [0] * 8}}


def test_values_are_the_shapley_values_of_the_utility() -> None:
    """v(S) = (weights of S)² by hand: φ_i = w_i · Σ w, and w_i w_j interact twice."""
    weights = {"a": 1.0, "b": 2.0, "c": 0.0}
    asked = []

    def squared(parties: tuple[str, ...]) -> float:
        asked.append(parties)
        return 10.0 + sum(weights[name] for name in parties) ** 2

    found = fedvalue.value(label=LABEL, parties=PARTIES, utility=squared)
    assert found.learnable == pytest.approx({"a": 3.0, "b": 6.0, "c": 0.0})
    assert found.learnable_total == pytest.approx(9.0)
    assert found["b"].learnable_share == pytest.approx(2 / 3)
    assert np.array(found.interactions)[0, 1] == pytest.approx(4.0)
    assert found.estimator == "utility/squared"
    assert found.coalition("a", "b") == pytest.approx(9.0)
    assert sorted(map(len, asked)) == [0, 1, 1, 1, 2, 2, 2, 3]
    assert found["a"].learnable_interval is None
    assert list(found.values.values()) == pytest.approx(
        naive.shapley_cmi([p["x"] for p in PARTIES.values()], LABEL, [0] * 8), abs=1e-12
    )
    assert fedvalue.Valuation.from_dict(found.to_dict()) == found


@pytest.mark.parametrize("more", [{"protocol": "mirror"}, {"sensitivity": True}])
def test_what_an_own_utility_does_not_go_with(more) -> None:
    with pytest.raises(InputError, match="cannot be combined with"):
        fedvalue.value(label=LABEL, parties=PARTIES, utility=lambda parties: 0.0, **more)


def test_a_worth_that_is_no_number_and_too_many_parties() -> None:
    with pytest.raises(InputError, match="the utility of nobody is nan"):
        fedvalue.value(label=LABEL, parties=PARTIES, utility=lambda parties: float("nan"))
    many = {f"p{k}": {"x": LABEL} for k in range(13)}
    with pytest.raises(InputError, match="at most 12 parties, got 13"):
        fedvalue.value(label=LABEL, parties=many, utility=lambda parties: 0.0)
