"""From the outcome of a run to the `Valuation` that a participant may see."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from fedvalue.agreement.run_settings import terms_of
from fedvalue.decisions.acceptance import with_acceptance
from fedvalue.decisions.own_share import OWN_SHARE
from fedvalue.protocol.readiness import settings_of
from fedvalue.tables.column_report import ColumnCoding
from fedvalue.valuation.provenance import Provenance, SourceFile
from fedvalue.valuation.statistics import guard

if TYPE_CHECKING:
    from fractions import Fraction

    from fedvalue.agreement.manifest import Manifest
    from fedvalue.protocol.outcome import Outcome
    from fedvalue.protocol.privacy import Privacy
    from fedvalue.valuation.result import Valuation


def task_valuation(manifest: Manifest, outcome: Outcome) -> Valuation:
    """The task party's result: all values."""
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
    return with_acceptance(_described(valuation, manifest, match_rates(manifest, outcome)))


def data_valuation(manifest: Manifest, name: str, outcome: Outcome) -> Valuation | None:
    """A data party's result: its own numbers and the total.

    None where only the task party gets a result (`mirror` with policy `counts`).
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
        own = _on_steps(own, terms_of(manifest).share_step(own.n_samples))
    else:
        return None
    own = replace(own, details={**own.details, OWN_SHARE: True})
    rates = match_rates(manifest, outcome)
    return _described(own, manifest, None if rates is None else {name: rates[name]})


def _on_steps(own: Valuation, step: Fraction | None) -> Valuation:
    """A data party's result that names the step of its random rounding.

    A value of a step or less may come from any value around it, so nothing is derived from it: no share, and
    not that there is nothing to be learned.
    """
    if step is None:
        return own
    size = float(step)
    (party,) = own.parties
    if party.value is not None and own.total is not None and min(party.value, own.total) <= size:
        party = replace(party, share=None)
    learnable, total = party.learnable, own.learnable_total
    if learnable is not None and total is not None:
        if min(learnable, total) <= size:
            party = replace(party, learnable_share=None)
        if learnable <= size:
            kept = (flag for flag in party.flags if flag not in (guard.MEMORISED, guard.NO_SIGNAL))
            party = replace(party, flags=(*kept, guard.BELOW_STEP))
    note = (
        f"The numbers of a data party are rounded at random to multiples of {size:g} nats, so that they do "
        "not show single labels; the intervals include it. The task party's numbers are finer."
    )
    details = {**own.details, "share_step": size, "notes": [*own.details.get("notes", ()), note]}
    return replace(own, parties=(party,), details=details)


def match_rates(manifest: Manifest, outcome: Outcome) -> dict[str, float] | None:
    """Part of each party's samples that all parties have; None if the run did not align them."""
    if manifest.align != "intersect":
        return None
    assert outcome.evidence is not None
    return {ready.party: ready.rows / ready.brought for ready in outcome.evidence.roster}


def with_own_table(
    valuation: Valuation,
    columns: tuple[ColumnCoding, ...],
    origin: Provenance,
    warnings: tuple[str, ...] = (),
) -> Valuation:
    """A party's result with what only this party knows: its columns, their origin, and warnings on the label.

    A result with noise gets names and kinds only: bins, counts, warnings and digests are exact, and whoever
    passes the result on relies on its promise.
    """
    if valuation.privacy is not None:
        columns = tuple(
            ColumnCoding(party=column.party, name=column.name, kind=column.kind, n_codes=column.n_codes)
            for column in columns
        )
        sources = tuple(
            SourceFile(name=file.name, party=file.party, format=file.format, n_rows=file.n_rows)
            for file in origin.sources
        )
        origin, warnings = replace(origin, sources=sources), ()
    warnings = (*valuation.warnings, *warnings)
    return replace(valuation, columns=columns, provenance=origin, warnings=warnings)


def _described(valuation: Valuation, manifest: Manifest, rates: dict[str, float] | None) -> Valuation:
    agreement = {
        "purpose": manifest.purpose,
        "consortium": manifest.consortium,
        "task": manifest.task.name,
        "servers": [server.name for server in manifest.servers],
        "agreed": f"{manifest.created:%Y-%m-%d}",
    }
    details = {**valuation.details, "policy": manifest.policy, "agreement": agreement}
    if rates is not None:
        details["match_rates"] = rates
    return replace(
        valuation,
        bins=manifest.settings.coding.bins,
        settings=manifest.settings,
        protocol=manifest.protocol,
        run_id=manifest.run_id.hex(),
        details=details,
    )


def _privacy(manifest: Manifest, outcome: Outcome) -> Privacy | None:
    """The privacy promise of this run, from the sizes that all parties signed."""
    assert outcome.evidence is not None
    readies = {ready.party: ready for ready in outcome.evidence.roster}
    return settings_of(terms_of(manifest), readies).privacy
