"""The preview of noise: it uses public sizes only, and says what a run of these sizes then gives."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from fedvalue.agreement.term_choices import EPSILONS, PublicSizes, privacy_preview
from fedvalue.cli.manifest import preview_text
from fedvalue.crypto import keys
from fedvalue.errors import InputError
from fedvalue.information.pair_tables import tables_of_columns
from fedvalue.protocol.noisy_release import noisy_tables
from fedvalue.protocol.privacy import GRAM_SHARES, Privacy
from fedvalue.valuation.low_order.low_order_valuation import value_tables
from tests.support.consortium import manifest

SIZES = PublicSizes(n_samples=5000, parties=("telco", "shop"), n_columns=2)


def test_less_epsilon_means_wider_intervals_and_a_smaller_factor() -> None:
    rows = privacy_preview(SIZES)
    assert [row.epsilon for row in rows] == [None, *reversed(EPSILONS)]
    assert {float(e) for e in EPSILONS} == {0.1, 0.5, 1.0, 3.0}
    widths = [row.half_width for row in rows]
    assert widths == sorted(widths)
    assert widths[-1] > 2 * widths[0]
    assert [row.factor for row in rows] == sorted((row.factor for row in rows), reverse=True)
    assert rows[1].factor == pytest.approx(20.0855, abs=1e-3)


def test_the_width_is_that_of_a_real_run_of_these_sizes() -> None:
    """Persons drawn one by one, noise drawn as servers draw it: the width differs by less than a third."""
    rng = np.random.default_rng(5)
    label = rng.integers(0, 2, SIZES.n_samples)
    likely = np.where(np.arange(5)[:, None] % 2 == np.arange(2), 1.8, 1.0)  # codes by label
    laws = (likely / likely.sum(axis=0)).T
    columns = [
        np.where(label == 0, *(rng.choice(5, SIZES.n_samples, p=law) for law in laws)) for _ in range(4)
    ]
    exact = tables_of_columns(SIZES.layout, columns, label)
    privacy = Privacy(Fraction(1, 2), SIZES.n_samples, 4)
    valuation = value_tables(noisy_tables(exact, privacy, keys.digest(b"a test")))
    half = np.mean([(p.learnable_interval[1] - p.learnable_interval[0]) / 2 for p in valuation.parties])
    (expected,) = [row.half_width for row in privacy_preview(SIZES) if row.epsilon == Fraction(1, 2)]
    assert expected == pytest.approx(half, rel=0.33)


def test_the_text_names_the_sizes_what_exact_values_reveal_and_the_tokens_of_paper() -> None:
    rows = privacy_preview(SIZES)
    text = preview_text(manifest(n_samples=5000), SIZES, rows)
    for words in ("5,000 samples, 2 data parties with 2 columns of 5 codes", "no noise", "± ", "exact_runs"):
        assert words in text
    assert "tokens" not in text
    assert "gets multiples of 0.007 nats and learns at most 24 bits from one exact run" in " ".join(
        text.split()
    )
    paper = preview_text(manifest(n_samples=5000, protocol="paper", policy="counts"), SIZES, rows)
    assert "coalition by coalition, as agreed: " in paper
    assert "grand coalition alone: " in paper


def test_noise_of_three_servers_widens_the_intervals() -> None:
    """Three draws, of which one (pairs) or two (label) are enough: more noise, seen at an epsilon of 1/2.

    At 3 it does not show in either, and at 0.1 both drown.
    """
    alone, three = privacy_preview(SIZES), privacy_preview(SIZES, GRAM_SHARES)
    assert three[0] == alone[0]
    assert all(wide.half_width >= row.half_width for row, wide in zip(alone, three, strict=True))
    (half,) = (k for k, row in enumerate(alone) if row.epsilon == Fraction(1, 2))
    assert three[half].half_width > 1.1 * alone[half].half_width


def test_a_run_that_cannot_answer_is_advised_against() -> None:
    few = PublicSizes(n_samples=200, parties=("a", "b"), n_columns=4)
    text = " ".join(preview_text(manifest(n_samples=200), few, privacy_preview(few)).split())
    assert "do not run with noise at this size. Even with an epsilon of 3" in text
    many = PublicSizes(n_samples=1_000_000, parties=("a", "b"), n_columns=1)
    text = " ".join(preview_text(manifest(n_samples=1_000_000), many, privacy_preview(many)).split())
    assert "every epsilon shown here can answer" in text


@pytest.mark.parametrize("wrong", [{"n_columns": 0}, {"n_codes": 1}, {"n_labels": 1}, {"n_samples": 0}])
def test_sizes_without_sense_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(InputError, match="must be at least"):
        PublicSizes(**({"n_samples": 100, "parties": ("a",)} | wrong))  # type: ignore[arg-type]
