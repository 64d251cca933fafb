"""From the outcome of a run to the `Valuation` that a participant may see."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec.structs import replace

from fedvalue.agreement.run_settings import privacy_of

if TYPE_CHECKING:
    from fedvalue.agreement.manifest import Manifest
    from fedvalue.protocol.outcome import Outcome
    from fedvalue.valuation.result import Valuation


def task_valuation(
    manifest: Manifest, outcome: Outcome, match_rates: Mapping[str, float] | None = None
) -> Valuation:
    """The task party's result: all values.

    Args:
        manifest: The agreement.
        outcome: What the protocol gave the task party.
        match_rates: Part of each party's samples that all parties have, if the run aligned them.
    """
    if outcome.counts is not None:
        from fedvalue.valuation.engine import value_counts

        valuation = value_counts(outcome.counts, manifest.settings)
    else:
        from fedvalue.federated.valuation_parts import valuation_of

        names = tuple(party.name for party in manifest.data)
        valuation = valuation_of(outcome, names, privacy=privacy_of(manifest, _n_samples(outcome)))
    return _described(valuation, manifest, match_rates)


def data_valuation(
    manifest: Manifest, name: str, outcome: Outcome, match_rates: Mapping[str, float] | None = None
) -> Valuation | None:
    """A data party's result: its own numbers and the total.

    None where the task party alone learns something (`mirror` with policy `counts`).
    """
    if outcome.counts is not None:
        full = task_valuation(manifest, outcome)
        own = replace(
            full, parties=(full[name],), label_entropy=None, learnable_total=None,
            learnable_total_interval=None, interactions=None, coalitions=None, uplift=None,
        )  # fmt: skip
    elif name in outcome.shares:
        from fedvalue.federated.valuation_parts import valuation_of

        own = valuation_of(outcome, (name,), privacy=privacy_of(manifest, _n_samples(outcome)))
    else:
        return None
    rates = None if match_rates is None else {name: match_rates[name]}
    return _described(own, manifest, rates)


def _described(
    valuation: Valuation, manifest: Manifest, match_rates: Mapping[str, float] | None
) -> Valuation:
    details = {**valuation.details, "policy": manifest.policy}
    if match_rates is not None:
        details["match_rates"] = dict(match_rates)
    return replace(
        valuation,
        bins=manifest.settings.coding.bins,
        settings=manifest.settings,
        protocol=manifest.protocol,
        run_id=manifest.run_id.hex(),
        details=details,
    )


def _n_samples(outcome: Outcome) -> int:
    """Samples of the run, as both servers say."""
    return int(outcome.public["n_samples"])
