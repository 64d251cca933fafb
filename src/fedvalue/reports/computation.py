"""How a result was computed, as terms and their values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fedvalue.valuation.result import Valuation

_NAMES = {
    "pair_search": "Pairs of columns",
    "row_sample": "Rows",
    "policy": "Output policy",
    "certificate": "Certificate digest",
    "certificate_digest": "Certificate digest",
    "manifest": "Manifest digest",
    "manifest_digest": "Manifest digest",
    "q": "Encryption ids per sample (q)",
    "n_r": "Adversarial samples (n_r)",
    "harden": "Added checks",
}

_ELSEWHERE = ("notes", "sensitivity", "state", "changes", "acceptance", "agreement", "plug_in_bias")
"""Details that have their own places."""


def computation(valuation: Valuation) -> tuple[tuple[str, str], ...]:
    """How a result was computed, as terms and their values."""
    rows = []
    if valuation.utility_name is not None:
        rows.append(("Utility", f"{valuation.utility_name}, given by the caller"))
    elif valuation.estimator:
        rows.append(("Learnable values", valuation.estimator.replace("-", " ").replace("/", ", version ")))
    settings = valuation.settings
    if settings is not None and valuation.learnable_total is not None:
        rows.append(
            (
                "Columns",
                "valued one by one and in pairs"
                if settings.columns == "features"
                else "one joint code per party",
            )
        )
    rows.append(("Shapley-CMI", _method(valuation)))
    if settings is not None:
        how = {"quantile": "about equally filled", "width": "of equal width"}[settings.coding.binning]
        rows.append(("Numbers", f"cut into {settings.coding.bins} bins, {how}"))
    elif valuation.bins is not None:
        rows.append(("Numbers", f"cut into {valuation.bins} bins"))
    rows.append(("Protocol", valuation.protocol or "none, plain tables"))
    if valuation.run_id:
        rows.append(("Run", valuation.run_id))
    if valuation.privacy is not None:
        noise = valuation.privacy
        rows.append(
            (
                "Noise",
                f"Gaussian, ±{noise.label_noise:.3g} persons in every count of a code with a label, "
                f"±{noise.pair_noise:.3g} in every count of two codes",
            )
        )
        rows.append(("Epsilon, delta", f"{valuation.privacy.epsilon:g}, {valuation.privacy.delta:g}"))
        rows.append(("Adjacency", valuation.privacy.adjacency))
        rows.append(("Observer", valuation.privacy.observer))
    for key, item in valuation.details.items():
        text = "" if key in _ELSEWHERE else _detail(item)
        if text:
            rows.append((_NAMES.get(key, key.replace("_", " ").capitalize()), text))
    return tuple(rows)


def _method(valuation: Valuation) -> str:
    if valuation.method == "exact":
        method = "exact, over all coalitions"
    elif valuation.n_permutations is None:
        method = f"partly exact, partly sampled, seed {valuation.seed}"
    else:
        method = f"sampled, {valuation.n_permutations:,} permutations, seed {valuation.seed}"
    reason = valuation.method_reason
    return method if not reason or reason == "as asked for" else f"{method} ({reason})"


def _detail(item: object) -> str:
    """A detail as text; lists have no place here."""
    if isinstance(item, bool):
        return "yes" if item else "no"
    if isinstance(item, Mapping):
        numbers = {k: v for k, v in item.items() if isinstance(v, int | float)}
        return ", ".join(f"{str(k).replace('_', ' ')} {_number(v)}" for k, v in numbers.items())
    if isinstance(item, int | float):
        return _number(item)
    return item if isinstance(item, str) else ""


def _number(item: float) -> str:
    return f"{item:,}" if isinstance(item, int) else f"{item:.4g}"
