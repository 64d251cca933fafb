"""The report of values with noise: what is promised, and intervals that include the noise."""

from __future__ import annotations

from fractions import Fraction

from fedvalue.decisions.payout import payout
from fedvalue.federated.valuation_parts import valuation_of
from fedvalue.protocol.outcome import Outcome
from fedvalue.protocol.privacy import Privacy
from fedvalue.reports import html, wording
from fedvalue.reports.view import view
from fedvalue.valuation.result import Valuation

NAMES = ("telco", "shop", "insurer")


def noisy(*values: float, half: float = 0.02) -> Valuation:
    total = sum(values)
    outcome = Outcome(
        public={
            "n_samples": 10_000, "method": "exact", "estimator": "low-order-evidence/1",
            "learnable_total": total, "learnable_total_interval": [total - half, total + half],
        },
        shares={
            name: {"learnable": value, "learnable_interval": [value - half, value + half]}
            for name, value in zip(NAMES, values, strict=True)
        },
    )  # fmt: skip
    privacy = Privacy(Fraction(1), 10_000, len(NAMES))
    return valuation_of(outcome, NAMES, privacy=privacy, protocol="mirror", run_id="ab" * 32)


def test_the_report_states_epsilon_delta_adjacency_observer_and_noise():
    result = noisy(0.2, 0.1, -0.01)
    assert result.privacy is not None
    how = dict(view(result).how)
    assert how["Epsilon, delta"] == "1, 1e-06"
    assert "Shapley-CMI" not in how  # noise leaves none
    assert f"±{result.privacy.label_noise:.3g} persons" in how["Noise"]
    assert "one person" in how["Adjacency"]
    assert "not the servers" in how["Observer"]
    page = html.render(result)
    noises = [f"±{noise:.3g}" for noise in (result.privacy.label_noise, result.privacy.pair_noise)]
    assert noises[0] != noises[1]
    assert (
        f"Noise of {noises[0]} persons was added to every count of a code with a label, and of {noises[1]} "
        "to every count of two codes."
    ) in wording.noise(result.privacy)
    assert "Differentially private with epsilon 1 and delta 1e-06, for two tables" in page
    assert "not the servers" in page


def test_learnable_values_lead_and_shapley_cmi_is_absent():
    shown = view(noisy(0.2, 0.1, -0.01))
    assert [row.cmi for row in shown.parties] == ["", "", ""]
    assert shown.parties[0].share == "69%"


def test_shares_of_a_pot_go_by_learnable_values():
    found = payout(noisy(0.2, 0.199, 0.0), 100)
    assert [share.rank for share in found.shares] == [1, 1, 3]


def test_plots_draw_what_there_is():
    import matplotlib as mpl

    mpl.use("Agg")
    assert noisy(0.2, 0.1, -0.01).plot.values() is not None
