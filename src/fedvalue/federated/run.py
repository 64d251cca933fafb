"""A whole federated valuation in this process: every role real, all messages on the (local) wire."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from fedvalue.crypto.ids import PackedIds, canonical_ids
from fedvalue.engines import HERE, Execution
from fedvalue.errors import InputError
from fedvalue.federated.cast import CodeColumn, CodedTables, expected_settings, make_cast, make_terms
from fedvalue.federated.in_process import InProcessTransport, Tap
from fedvalue.federated.options import Gram, Mirror, ProtocolOptions, Vpsic, options_of
from fedvalue.federated.valuation_parts import privacy_statement, valuation_of
from fedvalue.federated.valuers import make_valuer
from fedvalue.federated.vpsic_run import most_bytes, vpsic_counts
from fedvalue.protocol.gram.gram_layout import GramLayout, upload_bytes
from fedvalue.protocol.mirror.codebooks import codebook_bytes
from fedvalue.protocol.mirror.row_layout import RowLayout
from fedvalue.protocol.settings import Align, ColumnView, ProtocolName, RunTerms
from fedvalue.protocol.tokens.queries import check_budget
from fedvalue.valuation.engine import value_counts
from fedvalue.valuation.low_order.low_order_valuation import value_tables
from fedvalue.valuation.settings import ValuationSettings

if TYPE_CHECKING:
    from fedvalue.valuation.result import Valuation

TASK_IDS = "task"
"""The key of the task party's ids, where every party has its own."""


def federated_value(
    *,
    label: CodeColumn,
    parties: Sequence[CodeColumn],
    task: CodeColumn | None = None,
    ids: Any = None,
    align: str = "equal",
    protocol: str | ProtocolOptions = "mirror",
    settings: ValuationSettings | None = None,
    execution: Execution = HERE,
    threads: int | None = None,
    tap: Tap | None = None,
) -> Valuation:
    """Run a protocol among all roles in this process and value the data parties.

    Args:
        label: Codes of Y.
        parties: Codes of the data parties.
        task: Codes of X_t, or None.
        ids: One id per sample, the same for all parties, or a dict of them by party, with the task
            party's under "task"; row numbers when None.
        align: "equal": all parties prove that they hold the same ids. "intersect": they reduce their tables
            to the common ids first.
        protocol: "single", "paper", "mirror", "gram", "vpsic", or one of them with options.
        settings: What to compute. Under policy `valuation` the servers draw permutations of columns in an
            order that they do not know, so sampled values differ from those of the plain computation
            within the sampling error; exact ones do not differ.
        execution: Where the work runs, and its progress callback.
        threads: Number of roles that work at a time; the machine's cores by default.
        tap: Sees every envelope's bytes.

    Raises:
        InputError: A table, an id or a setting is wrong, or the run is too large.
        VerificationError: A check failed; nothing is released.
    """
    tables = CodedTables(label, parties, task)
    settings = settings or ValuationSettings()
    options = options_of(protocol)
    if isinstance(options, Vpsic):
        return _vpsic_value(tables, options, settings, ids=ids, align=align, execution=execution)
    terms = make_terms(tables, options, align=align, columns=_view(tables, options, settings))
    cost = _announce(terms, tables, execution)
    valuer = make_valuer(settings, execution=execution)
    cast = make_cast(terms, tables, ids=_packed(ids, terms), valuer=valuer)
    InProcessTransport(threads=threads or os.cpu_count() or 1, tap=tap).run(cast.everyone())
    outcome = cast.task.outcome
    assert outcome is not None  # the transport raises unless every role is done
    run = cast.task.settings
    if outcome.tables is not None:
        result = value_tables(outcome.tables, settings, execution=execution)
        if run.privacy is not None:
            result = replace(result, privacy=privacy_statement(run.privacy))
    elif outcome.counts is None:
        result = valuation_of(outcome, run.parties, privacy=run.privacy, settings=settings)
    else:
        result = value_counts(outcome.counts, settings, execution=execution)
    details = {**result.details, "cost": cost}
    if terms.align is Align.INTERSECT:
        assert outcome.evidence is not None
        details["match_rate"] = {ready.party: ready.rows / ready.brought for ready in outcome.evidence.roster}
    return replace(
        result,
        bins=settings.coding.bins,
        protocol=run.protocol.value,
        run_id=run.run_id.hex(),
        details=details,
    )


def _vpsic_value(
    tables: CodedTables,
    options: Vpsic,
    settings: ValuationSettings,
    *,
    ids: Any,
    align: str,
    execution: Execution,
) -> Valuation:
    """`vpsic` has no servers to agree with: the task party values the counts that it accepted."""
    if align != Align.EQUAL or isinstance(ids, Mapping):
        raise InputError(
            "protocol 'vpsic' needs the same ids at every party: align=\"equal\", one list of ids"
        )
    packed = PackedIds.of_rows(len(tables.label.codes)) if ids is None else canonical_ids(ids)
    n_bytes = most_bytes(tables, options.settings)
    execution.report(0.0, 1.0, f"uploads of at most {n_bytes:,} bytes")
    counts = vpsic_counts(tables, options.settings, ids=packed)
    settings = replace(settings, columns="joint")  # the server counts a party's rows by one joint code
    result = value_counts(counts, settings, execution=execution)
    return replace(
        result,
        bins=settings.coding.bins,
        protocol="vpsic",
        details={**result.details, "cost": {"n_bytes": n_bytes}},
    )


def _view(tables: CodedTables, protocol: ProtocolOptions, settings: ValuationSettings) -> ColumnView:
    """Codebooks travel only where they are used: by the learnable value."""
    low_order = isinstance(protocol, Gram) or (isinstance(protocol, Mirror) and protocol.epsilon is not None)
    books = any(table.codebook is not None for table in (*tables.parties, tables.task_column))
    wanted = settings.columns == "features" and (settings.statistics or low_order)
    return ColumnView.FEATURES if wanted and books else ColumnView.JOINT


def _packed(ids: Any, terms: RunTerms) -> PackedIds | dict[str, PackedIds]:
    if ids is None:
        return PackedIds.of_rows(terms.max_samples)
    if not isinstance(ids, Mapping):
        return canonical_ids(ids)
    keys = {name: TASK_IDS if name == terms.task else name for name in terms.everybody}
    if set(ids) != set(keys.values()) or TASK_IDS in terms.parties:
        raise InputError(
            f"ids by party: expected {', '.join(map(repr, keys.values()))}, got {', '.join(map(repr, ids))}"
        )
    return {name: canonical_ids(ids[key]) for name, key in keys.items()}


def _announce(terms: RunTerms, tables: CodedTables, execution: Execution) -> dict[str, int]:
    """Report the largest cost of the run before it starts.

    Raises:
        InputError: More tokens than `max_tokens` (E_BUDGET).
    """
    settings = expected_settings(terms, tables)
    if terms.protocol in (ProtocolName.MIRROR, ProtocolName.GRAM):
        if terms.protocol is ProtocolName.GRAM:
            n_bytes = upload_bytes(GramLayout.of(settings))
        else:
            row_bytes = RowLayout.of([size for _, size in settings.sizes()]).row_bytes
            n_bytes = row_bytes * settings.n_samples * len(settings.everybody) * len(settings.servers)
            n_bytes += codebook_bytes(settings)
        cost, note = {"n_bytes": n_bytes}, f"uploads of {n_bytes:,} bytes"
    else:
        expected = check_budget(settings)
        cost = {key: getattr(expected, key) for key in ("n_queries", "n_tokens", "n_bytes")}
        note = f"{expected.n_queries:,} queries, {expected.n_tokens:,} tokens, {expected.n_bytes:,} bytes"
    execution.report(0.0, 1.0, note)
    return cost
