"""What an epsilon means, how much noise it takes, and what is left of an answer."""

from __future__ import annotations

import math
from fractions import Fraction
from hashlib import sha256
from itertools import product

import msgspec
import numpy as np
import pytest

from fedvalue.errors import InputError
from fedvalue.information.pair_tables import PairLayout, PairTables, tables_of_columns
from fedvalue.protocol import noisy_release as noise
from fedvalue.protocol.privacy import Privacy, parse_epsilon, spell_epsilon
from fedvalue.protocol.settings import Policy, ProtocolName, Settings

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


def test_the_noise_is_that_of_the_stated_sensitivity():
    """Seven columns: rho splits 3 : 1, squared sensitivities are 2 F and F (F - 1)."""
    found = Privacy(Fraction(1), 10_000, 7)
    assert found.label_variance == 14 / (2 * Fraction(3, 4) * found.rho)
    assert found.pair_variance == 42 / (2 * Fraction(1, 4) * found.rho)
    alone = Privacy(Fraction(1), 10_000, 1)
    assert alone.label_variance == 1 / alone.rho
    assert float(Privacy(Fraction(1), 10**7, 7).delta) == pytest.approx(1e-8)


def small_tables(rows: np.ndarray, n_codes: int) -> PairTables:
    layout = PairLayout((n_codes,) * (rows.shape[1] - 1), (0,) * (rows.shape[1] - 1), n_codes, ("a",))
    return tables_of_columns(layout, list(rows.T[1:]), rows[:, 0])


def test_no_replaced_person_moves_the_tables_further_than_the_proof_says():
    """A search for counter-examples: random tables and replacements, and every replacement of tiny ones."""
    rng = np.random.default_rng(3)
    largest = 0.0
    for n_columns in (1, 2, 3, 5):
        bound = [2 * n_columns, n_columns * (n_columns - 1)]
        for _ in range(200):
            rows = rng.integers(0, 3, (rng.integers(1, 6), n_columns + 1))
            other = rows.copy()
            other[0] = rng.integers(0, 3, n_columns + 1)
            apart = small_tables(rows, 3).cells - small_tables(other, 3).cells
            label = small_tables(rows, 3).layout.n_label_cells
            moved = [int((apart[:label] ** 2).sum()), int((apart[label:] ** 2).sum())]
            assert moved[0] <= bound[0]
            assert moved[1] <= bound[1]
            largest = max(largest, moved[0] / bound[0])
    assert largest == 1.0  # the bound is reached, so it is not a loose one
    every = [np.array(row) for row in product(range(2), repeat=4)]
    kept = np.array([[0, 1, 0, 1], [1, 1, 0, 0]])
    for a, b in product(every, every):
        apart = small_tables(np.vstack([kept, a]), 2).cells - small_tables(np.vstack([kept, b]), 2).cells
        assert int((apart**2).sum()) <= 2 * 3 + 3 * 2


def test_noise_over_many_runs_is_gaussian_with_the_stated_variance():
    """Kolmogorov-Smirnov over 300 keys of runs, both kinds of cells: item 33."""
    from scipy import stats

    privacy, layout = Privacy(Fraction(1), 1000, 3), PairLayout((2, 2, 2), (0, 1, 2), 2, ("a", "b", "c"))
    keys = [sha256(k.to_bytes(4, "big")).digest() for k in range(300)]
    found = np.array([noise.drawn(privacy, layout, key) for key in keys])
    cut = layout.n_label_cells
    for part, variance in ((found[:, :cut], privacy.label_variance), (found[:, cut:], privacy.pair_variance)):
        assert stats.kstest(part.ravel() / math.sqrt(variance), "norm").pvalue > 0.001
    # The cells of one run are independent.
    apart = np.corrcoef(found.T)[np.triu_indices(layout.n_cells, 1)]
    assert np.abs(apart).max() < 5 / math.sqrt(300)


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
