"""What an epsilon means, how much noise it takes, and what is left of an answer."""

from __future__ import annotations

import math
from collections import Counter
from decimal import Decimal, localcontext
from fractions import Fraction
from hashlib import sha256
from itertools import combinations

import msgspec
import numpy as np
import pytest

from fedvalue.errors import InputError, VerificationError
from fedvalue.information.contingency import JointCounts
from fedvalue.protocol import noisy_release as noise
from fedvalue.protocol.outcome import Answer
from fedvalue.protocol.privacy import GRID_BITS, Privacy, parse_epsilon, spell_epsilon
from fedvalue.protocol.settings import Policy, ProtocolName, Settings
from fedvalue.valuation.engine import value_counts
from fedvalue.valuation.settings import ValuationSettings
from tests.naive import shapley

KEY = bytes(range(32))


@pytest.mark.parametrize(
    ("written", "spelled"),
    [("1.0", "1"), ("0.50", "0.5"), ("10", "10"), ("1e-3", "0.001"), (" 2 ", "2"), ("0.123456", "0.123456")],
)
def test_epsilon_has_one_spelling(written, spelled):
    assert spell_epsilon(written) == spelled
    assert parse_epsilon(spelled) == Fraction(spelled)


@pytest.mark.parametrize("written", ["0", "-1", "10.5", "0.0009", "0.1234567", "one", "nan", "inf", ""])
def test_an_epsilon_that_promises_nothing_or_the_impossible_is_refused(written):
    with pytest.raises(InputError, match="epsilon"):
        spell_epsilon(written)


@pytest.mark.parametrize("spelled", ["1.0", "01", ".5", "1e0", "+1", " 1", "1\n", 1, 1.0, None])
def test_other_spellings_in_a_manifest_are_refused(spelled):
    with pytest.raises(InputError, match="epsilon"):
        parse_epsilon(spelled)


def test_the_scale_is_sensitivity_over_epsilon():
    """Five parties, n = 1000, by hand: 4 (n ln n - (n - 1) ln(n - 1)) / n, and two steps per party."""
    exact = 4 / 1000 * (1000 * math.log(1000) - 999 * math.log(999))
    found = Privacy(Fraction(1, 2), 1000, 5)
    assert found.sensitivity == math.ceil(exact * 2**30) + 10
    assert found.scale == pytest.approx(2 * exact, rel=1e-6)


def test_noise_over_many_runs_is_laplace_with_the_stated_scale():
    """Kolmogorov-Smirnov over 1,500 keys of runs, five values each: item 33."""
    from scipy import stats

    privacy = Privacy(Fraction(1), 1000, 5)
    keys = [sha256(k.to_bytes(4, "big")).digest() for k in range(1500)]
    found = np.array([noise.drawn(privacy, key) for key in keys]) * 2.0**-GRID_BITS
    assert stats.kstest(found.ravel(), stats.laplace(scale=privacy.scale).cdf).pvalue > 0.001
    # The values of one run are independent: 1,500 pairs have a correlation of 0 +- 1/sqrt(1500).
    apart = np.corrcoef(found.T)[np.triu_indices(5, 1)]
    assert np.abs(apart).max() < 4 / math.sqrt(1500)


def answer() -> Answer:
    share = {
        "value": 0.25,
        "share": 0.5,
        "alone": 0.3,
        "last": 0.1,
        "n_codes": 7,
        "se_data": 0.01,
        "flags": ["x"],
    }
    public = {"total": 0.5, "n_samples": 999, "method": "exact", "n_permutations": None, "seed": None}
    return Answer(
        public=public | {"surprise": 1.0},
        task={"label_entropy": 0.6, "learnable_total": 0.4, "interactions": [[0.0]]},
        shares=(share, share | {"value": 0.125}),
    )


def test_nothing_but_noisy_values_and_how_they_were_computed_is_left():
    privacy = Privacy(Fraction(1), 1000, 2)
    found = noise.released(answer(), noise.grid_points(answer()), privacy, KEY)
    assert found.task == {}
    assert [set(share) for share in found.shares] == [{"value"}, {"value"}]
    assert set(found.public) == {"total", "n_samples", "method", "n_permutations", "seed"}
    assert found.public["n_samples"] == 1000
    assert found.public["total"] == sum(share["value"] for share in found.shares)


def test_the_noise_is_on_the_grid_and_comes_off_again():
    privacy = Privacy(Fraction(1), 1000, 2)
    points = noise.grid_points(answer())
    assert points == (2**GRID_BITS // 4, 2**GRID_BITS // 8)
    found = noise.released(answer(), points, privacy, KEY)
    exact = [
        share["value"] - k * 2.0**-GRID_BITS
        for share, k in zip(found.shares, noise.drawn(privacy, KEY), strict=True)
    ]
    assert exact == [0.25, 0.125]


def test_values_are_computed_far_more_exactly_than_the_grid():
    """Against 40 digits, a million samples, columns renamed: below 1e-12, where half a step is allowed."""
    rng = np.random.default_rng(2)
    rows = np.unique(rng.integers(0, 5, (400, 5)), axis=0)
    count = rng.integers(1, 5000, len(rows))
    for _ in range(3):
        for column in rows.T:
            column[:] = rng.permutation(5)[column]
        counts = JointCounts(
            task=rows[:, 0], label=rows[:, 1], parties=rows[:, 2:], count=count, names=("a", "b", "c"),
            n_codes=(5, 5, 5),
        )  # fmt: skip
        found = value_counts(counts, ValuationSettings(method="exact", statistics=False), reproducible=True)
        exact = shapley(forty_digits(rows, count), 3)
        errors = [abs(a - b) for a, b in zip(found.values.values(), exact, strict=True)]
        assert max(errors) < 1e-12


def forty_digits(rows: np.ndarray, count: np.ndarray) -> dict[frozenset[int], float]:
    """I(X_S; Y | X_t) of every coalition, with decimal logarithms."""
    with localcontext(prec=40):

        def surprise(columns: list[int]) -> Decimal:
            """Sum of c ln c over the cells of these columns."""
            cells: Counter[tuple[int, ...]] = Counter()
            for row, n in zip(rows[:, columns].tolist(), count.tolist(), strict=True):
                cells[tuple(row)] += n
            return sum((n * Decimal(n).ln() for n in cells.values()), Decimal(0))

        def unknown(given: list[int]) -> Decimal:
            return (surprise(given) - surprise([*given, 1])) / int(count.sum())

        coalitions = [frozenset(c) for size in range(4) for c in combinations(range(3), size)]
        nobody = unknown([0])
        return {c: float(nobody - unknown([0, *(2 + d for d in sorted(c))])) for c in coalitions}


def test_two_servers_may_round_to_neighbours_and_no_further():
    noise.check_points((5, 7), (6, 6))
    for other in ((7, 7), (5, 5), (5,), (5, 7, 0)):
        with pytest.raises(VerificationError) as caught:
            noise.check_points((5, 7), other)
        assert caught.value.code == "E_MIRROR"


def settings(**changed: object) -> Settings:
    agreed = {
        "run_id": KEY, "protocol": ProtocolName.MIRROR, "task": "t", "parties": ("a", "b"), "max_samples": 9,
        "n_samples": 9, "n_task_codes": 1, "n_label_codes": 2, "n_codes": (2, 3),
    }  # fmt: skip
    return Settings(**(agreed | changed))  # type: ignore[arg-type]


def test_the_digest_of_settings_covers_every_field():
    fields = {name: getattr(settings(), name) for name in Settings.__struct_fields__}
    assert settings().digest() == sha256(msgspec.msgpack.encode(fields)).digest()
    assert settings(epsilon="1").digest() != settings().digest()


@pytest.mark.parametrize(
    "changed",
    [{"protocol": ProtocolName.PAPER}, {"protocol": ProtocolName.SINGLE}, {"policy": Policy.COUNTS}],
)
def test_where_counts_are_given_out_noise_on_values_is_refused(changed):
    with pytest.raises(InputError, match="policy valuation"):
        settings(**changed, epsilon="1")
