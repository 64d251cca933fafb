"""From joint counts to the servers' answer, and from a party's outcome to its result.

The numbers are the valuation layer's; here they meet the manifest's parameters and become the
files that people keep.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

from msgspec.structs import asdict, replace

from fedvalue.agreement.run_settings import privacy_of
from fedvalue.tables.coding_settings import CodingSettings
from fedvalue.valuation.settings import ValuationSettings

if TYPE_CHECKING:
    from fedvalue.agreement.manifest import Manifest
    from fedvalue.protocol.outcome import Outcome
    from fedvalue.valuation.result import Valuation
    from fedvalue.valuation.settings import Method

SHARE_SCHEMA = "fedvalue.share/1"


def task_valuation(manifest: Manifest, outcome: Outcome) -> Valuation:
    """The task party's result: all values."""
    if outcome.counts is not None:
        from fedvalue.valuation.engine import value_counts

        found = value_counts(outcome.counts, valuation_settings(manifest))
    else:
        from fedvalue.federated.valuers import valuation_of

        names = tuple(party.name for party in manifest.data)
        found = valuation_of(outcome, names, privacy=privacy_of(manifest, _n_samples(outcome)))
    return replace(
        found,
        bins=manifest.bins,
        protocol=manifest.protocol,
        run_id=manifest.run_id.hex(),
        details={**found.details, "policy": manifest.policy},
    )


def data_share(manifest: Manifest, name: str, outcome: Outcome) -> dict[str, Any]:
    """A data party's result: its own numbers and the total (nothing under mirror with policy counts)."""
    if outcome.counts is not None:
        full = task_valuation(manifest, outcome)
        own = {key: value for key, value in asdict(full[name]).items() if key != "name"}
        public = {"total": full.total, "n_samples": full.n_samples, "method": full.method}
    else:
        own, public = dict(outcome.shares.get(name, {})), dict(outcome.public)
    privacy = None if manifest.epsilon is None else privacy_of(manifest, _n_samples(outcome))
    if privacy is not None:
        from fedvalue.federated.valuers import privacy_statement

        own = {"value": own["value"], "noise_scale": privacy.scale}
        public["privacy"] = asdict(privacy_statement(privacy))
    return {
        "schema": SHARE_SCHEMA,
        "unit": "nats",
        "run_id": manifest.run_id.hex(),
        "protocol": manifest.protocol,
        "party": name,
        **{key: value for key, value in (own | public).items() if value is not None},
    }


def _n_samples(outcome: Outcome) -> int:
    """Samples of the run, as both servers say."""
    return int(outcome.public["n_samples"])


def json_bytes(data: dict[str, Any]) -> bytes:
    """A result as the bytes that are stored, written and compared."""
    return (json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode()


def valuation_settings(manifest: Manifest) -> ValuationSettings:
    """The manifest's parameters of the valuation."""
    return ValuationSettings(
        method=cast("Method", manifest.method), n_permutations=manifest.n_permutations, seed=manifest.seed,
        coalitions=False,
        coding=CodingSettings(bins=manifest.bins, binning="width"),
    )  # fmt: skip
