"""From the outcome of a run to the `Valuation` that a participant may see."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec.structs import replace

from fedvalue.agreement.run_settings import privacy_of
from fedvalue.decisions.acceptance import with_acceptance
from fedvalue.protocol.readiness import ranges_of
from fedvalue.tables.column_report import ColumnCoding
from fedvalue.valuation.provenance import Provenance, SourceFile

if TYPE_CHECKING:
    from fedvalue.agreement.manifest import Manifest
    from fedvalue.protocol.outcome import Outcome
    from fedvalue.protocol.privacy import Privacy
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
    elif outcome.tables is not None:
        from fedvalue.federated.valuation_parts import privacy_statement
        from fedvalue.valuation.low_order.low_order_valuation import value_tables

        valuation = value_tables(outcome.tables, manifest.settings)
        privacy = _privacy(manifest, outcome)
        if privacy is not None:
            valuation = replace(valuation, privacy=privacy_statement(privacy))
    else:
        from fedvalue.federated.valuation_parts import valuation_of

        names = tuple(party.name for party in manifest.data)
        valuation = valuation_of(outcome, names, privacy=_privacy(manifest, outcome))
    return with_acceptance(_described(valuation, manifest, match_rates))


def data_valuation(
    manifest: Manifest, name: str, outcome: Outcome, match_rates: Mapping[str, float] | None = None
) -> Valuation | None:
    """A data party's result: its own numbers and the total.

    None where the task party alone learns something (`mirror` with policy `counts`).
    """
    if outcome.counts is not None or outcome.tables is not None:
        full = task_valuation(manifest, outcome)
        own = replace(
            full, parties=(full[name],), label_entropy=None, task_value=None, interactions=None,
            coalitions=None, joining=None, uplift=None,
            details={key: item for key, item in full.details.items() if key != "acceptance"},
        )  # fmt: skip
        if outcome.counts is not None:
            own = replace(own, learnable_total=None, learnable_total_interval=None)
    elif name in outcome.shares:
        from fedvalue.federated.valuation_parts import valuation_of

        own = valuation_of(outcome, (name,), privacy=_privacy(manifest, outcome))
    else:
        return None
    rates = None if match_rates is None else {name: match_rates[name]}
    return _described(own, manifest, rates)


def with_own_table(valuation: Valuation, columns: tuple[ColumnCoding, ...], origin: Provenance) -> Valuation:
    """A party's result with what it alone knows: how its columns were coded, and where they come from.

    A result with noise gets names and kinds only: bins, counts and digests are exact, and whoever passes the
    result on relies on its promise.
    """
    if valuation.privacy is not None:
        columns = tuple(
            ColumnCoding(party=one.party, name=one.name, kind=one.kind, n_codes=one.n_codes)
            for one in columns
        )
        sources = tuple(
            SourceFile(name=one.name, party=one.party, format=one.format, n_rows=one.n_rows)
            for one in origin.sources
        )
        origin = replace(origin, sources=sources)
    return replace(valuation, columns=columns, provenance=origin)


def _described(
    valuation: Valuation, manifest: Manifest, match_rates: Mapping[str, float] | None
) -> Valuation:
    agreement = {
        "purpose": manifest.purpose,
        "consortium": manifest.consortium,
        "task": manifest.task.name,
        "servers": [server.name for server in manifest.servers],
        "agreed": f"{manifest.created:%Y-%m-%d}",
    }
    details = {**valuation.details, "policy": manifest.policy, "agreement": agreement}
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


def _privacy(manifest: Manifest, outcome: Outcome) -> Privacy | None:
    """The promise about this run, by the sizes that all parties signed."""
    assert outcome.evidence is not None
    roster = outcome.evidence.roster
    ranges = [ranges_of(ready) for ready in roster]
    n_columns = sum(len(one.features) for one in ranges)
    if not n_columns:
        n_columns = len(manifest.data) + any(one.sizes[0] > 1 for one in ranges if len(one.sizes) == 2)
    return privacy_of(manifest, roster[0].rows, n_columns)
