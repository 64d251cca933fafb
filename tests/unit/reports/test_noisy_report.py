"""The report of values with noise: what is promised, what is absent, and no claim that noise cannot carry."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from fedvalue.decisions.payout import payout
from fedvalue.errors import InputError
from fedvalue.federated.valuation_parts import valuation_of
from fedvalue.protocol.outcome import Outcome
from fedvalue.protocol.privacy import Privacy
from fedvalue.reports import html
from fedvalue.reports.view import view
from fedvalue.valuation.result import Valuation

NAMES = ("telco", "shop", "insurer")


def noisy(*values: float, n_samples: int = 10_000, epsilon: int = 1) -> Valuation:
    how = {"method": "exact", "n_permutations": None, "seed": None}
    outcome = Outcome(
        public={"total": sum(values), "n_samples": n_samples, **how},
        shares={name: {"value": value} for name, value in zip(NAMES, values, strict=True)},
    )
    privacy = Privacy(Fraction(epsilon), n_samples, len(NAMES))
    return valuation_of(outcome, NAMES, privacy=privacy, protocol="mirror", run_id="ab" * 32)


def test_the_report_states_epsilon_delta_adjacency_observer_and_scale():
    result = noisy(0.2, 0.1, -0.01)
    shown = view(result)
    assert result.privacy is not None
    how = dict(shown.how)
    assert how["Epsilon, delta"] == "1, 0"
    assert how["Noise on every value"] == f"Laplace, scale {result.privacy.noise_scale:.6g} nats"
    assert "one person" in how["Adjacency"]
    assert "not the servers" in how["Observer"]
    page = html.render(result)
    assert "Differentially private with epsilon 1 and delta 0, for two tables" in page
    assert "not the servers" in page


def test_what_was_not_released_is_called_so_and_has_no_column():
    for row in view(noisy(0.2, 0.1, -0.01)).parties:
        assert (row.share, row.cmi) == ("", "")
    page, card = html.render(noisy(0.2, 0.1, -0.01)), html.notebook(noisy(0.2, 0.1, -0.01))
    for word in ("Learnable value", "Share", "share", "learnable"):
        assert f">{word}</th>" not in page
        assert f">{word}</th>" not in card
    assert "are not released" in page
    shown = view(noisy(0.2, 0.1, -0.01))
    assert (shown.overlap, shown.waterfall, shown.gains) == (None, None, ())


def test_the_interval_is_that_of_the_noise():
    """95% of a Laplace distribution lie within ln 20 scales."""
    result = noisy(0.2, 0.1, -0.01)
    assert result.privacy is not None
    low, high = result["telco"].interval or (0.0, 0.0)
    half = math.log(20) * result.privacy.noise_scale
    assert (low, high) == pytest.approx((0.2 - half, 0.2 + half))


def test_the_decision_names_parties_only_where_they_stand_out():
    clear = view(noisy(0.2, 0.1, -0.01))
    assert clear.decision == "Every value carries the agreed noise; telco and shop stand out from it."
    assert clear.more == ("Nothing can be said about insurer.",)
    few = view(noisy(0.2, 0.1, -0.01, n_samples=100))
    assert few.decision == "Every value carries the agreed noise, and no party stands out from it."


def test_shares_of_a_pot_go_by_noisy_values_and_ties_by_the_noise():
    found = payout(noisy(0.2, 0.199, 0.0), 100, by="shapley-cmi")
    assert [share.rank for share in found.shares] == [1, 1, 3]
    with pytest.raises(InputError, match="no learnable value"):
        payout(noisy(0.2, 0.1, 0.0), 100)


def test_noise_without_its_privacy_statement_is_refused():
    data = noisy(0.2, 0.1, 0.0).to_dict()
    del data["privacy"]
    with pytest.raises(InputError, match="belong together"):
        Valuation.from_dict(data)


def test_plots_draw_what_there_is():
    import matplotlib as mpl

    mpl.use("Agg")
    result = noisy(0.2, 0.1, -0.01)
    assert result.plot.values() is not None
    with pytest.raises(InputError, match="no shares"):
        result.plot.shares()
