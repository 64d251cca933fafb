"""From joint counts to the servers' answer, and from a party's outcome to its result.

The numbers are the valuation layer's; here they meet the manifest's parameters and become the
files that people keep.
"""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from fedvalue.agreement.run_settings import check_cells, privacy_of

if TYPE_CHECKING:
    from fedvalue.agreement.manifest import Manifest
    from fedvalue.information.contingency import JointCounts
    from fedvalue.protocol.outcome import Answer, Outcome, Valuer
    from fedvalue.protocol.settings import Settings
    from fedvalue.typing import Codes
    from fedvalue.valuation.result import Valuation

SHARE_SCHEMA = "fedvalue.share/1"


def valuer_of(manifest: Manifest, settings: Settings) -> Valuer:
    """What both servers do with the counts, by the manifest's parameters.

    They refuse a label or an X_t that singles out a few samples (VerificationError E_GATE): only they
    see these marginals without trusting the task party.
    """
    from fedvalue.federated.valuers import make_noisy_valuer, make_valuer

    if manifest.epsilon is not None:
        return make_noisy_valuer(settings, **_engine(manifest))
    honest = make_valuer(**_engine(manifest))

    def gated(counts: JointCounts) -> Answer:
        check_cells(manifest, _marginal(counts.task, counts.count), _marginal(counts.label, counts.count))
        return honest(counts)

    return gated


def _marginal(codes: Codes, count: Codes) -> list[int]:
    """Number of samples by code."""
    import numpy as np

    totals = np.zeros(int(codes.max()) + 1, dtype=np.int64)
    np.add.at(totals, codes, count)
    return [int(total) for total in totals]


def task_valuation(manifest: Manifest, outcome: Outcome) -> Valuation:
    """The task party's result: all values."""
    if outcome.counts is not None:
        from fedvalue.valuation.engine import value_counts

        found = value_counts(outcome.counts, **_engine(manifest))
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


def _engine(manifest: Manifest) -> dict[str, Any]:
    return {
        "method": manifest.method,
        "n_permutations": manifest.n_permutations,
        "seed": manifest.seed,
    }
