"""Joint counts -> a complete Valuation: the one place where values and statistics meet.

- The plain valuation, the in-process protocols and both servers of a federated run call `value_counts`.
- Its result depends on the counts and the settings alone, neither on the numbers of codes nor on the order of
  items, so that two servers which see different opaque labels agree.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace

from fedvalue import engines
from fedvalue.engines import HERE, Execution, Stop
from fedvalue.errors import InputError
from fedvalue.information.contingency import JointCounts, pack
from fedvalue.valuation.entropies import ROUNDING, alone_and_last, alone_and_last_of, snapped, task_value
from fedvalue.valuation.items import item_table
from fedvalue.valuation.result import JoiningStep, PartyValue, UpliftRow, Valuation, interval_of
from fedvalue.valuation.settings import WORK_LIMIT, ValuationSettings
from fedvalue.valuation.shapley_cmi import shapley_cmi

if TYPE_CHECKING:
    from fedvalue.typing import Floats
    from fedvalue.valuation.entropies import CmiValues
    from fedvalue.valuation.evidence.uplift import Uplift
    from fedvalue.valuation.items import ItemTable
    from fedvalue.valuation.statistics.joint_table_game import JointTableGame

TOLERATED_BIAS = 0.5
"""A Shapley-CMI has an interval while the plug-in bias is at most this part of its standard error: a 95%
interval then still covers in 92% of cases."""

_INFLATED = "too few rows per cell, so memorising inflates it by up to {bias:.2g} nats"


def value_counts(
    counts: JointCounts,
    settings: ValuationSettings | None = None,
    *,
    reproducible: bool = False,
    work_limit: int = WORK_LIMIT,
    execution: Execution = HERE,
) -> Valuation:
    """Values of every data party, with their statistics, in nats.

    Args:
        counts: The joint table.
        settings: What to compute; the defaults when None.
        reproducible: Let only the counts and the settings decide, neither the clock nor the size of this
            machine, so that another machine with the same counts gives the same answer.
        work_limit: Most items times coalitions for which a reproducible "auto" computes exact values.
        execution: Where the work runs, who watches it, and who may stop it.

    Raises:
        InputError: A time limit for a reproducible valuation.
        EngineError: Workers were lost.
    """
    settings = settings or ValuationSettings()
    if settings.time_limit is not None and reproducible:
        raise InputError(f"time_limit cannot bound a reproducible valuation, got {settings.time_limit}")
    with engines.using(execution.executor) as pool:  # the same threads for all steps
        # Nobody may stop what another machine repeats.
        execution = Execution(pool, execution.progress, Stop() if reproducible else execution.stop)
        valuation, plug_in, joint_table = _of_items(counts, settings, reproducible, work_limit, execution)
        if joint_table is None:
            return valuation
        valuation = _with_learnable(
            valuation, counts, plug_in, joint_table, settings, reproducible, execution
        )
    return _with_flags(valuation)


def _of_items(
    counts: JointCounts,
    settings: ValuationSettings,
    reproducible: bool,
    work_limit: int,
    execution: Execution,
) -> tuple[Valuation, Floats | None, JointTableGame | None]:
    """Everything that is computed from the item table, whose memory is free again afterwards.

    Returns:
        (Shapley-CMI and, with statistics, its errors; val of every coalition where it was counted; the
        joint-table game, with statistics).
    """
    from fedvalue.valuation.statistics.joint_table_game import joint_table_game

    items = item_table(counts)
    cmi, reason = shapley_cmi(
        items, settings, reproducible=reproducible, work_limit=work_limit, execution=execution,
    )  # fmt: skip
    valuation = _shapley_values(counts, items, cmi, settings, reason)
    if not settings.statistics:
        return valuation, cmi.game, None
    valuation = _with_cmi_errors(valuation, items, settings, execution)
    return valuation, cmi.game, joint_table_game(items, execution=execution)


def _shapley_values(
    counts: JointCounts, items: ItemTable, cmi: CmiValues, settings: ValuationSettings, reason: str
) -> Valuation:
    """A valuation with Shapley-CMI and what goes with it, without statistics.

    Rounding errors around zero become zero before anything is divided: where label and party are
    independent in the samples, two servers would otherwise find different shares of nothing.
    """
    total = float(snapped(np.array(cmi.total)))
    values = snapped(cmi.values)
    alone, last = alone_and_last(items) if cmi.game is None else alone_and_last_of(cmi.game)
    parties = tuple(
        PartyValue(
            name=name,
            value=float(values[d]),
            share=share_of(float(values[d]), total),
            alone=float(alone[d]),
            last=float(last[d]),
            n_codes=int(items.widths[d]),
            se_sampling=float(cmi.se[d]),
        )
        for d, name in enumerate(counts.names)
    )
    return Valuation(
        parties=parties,
        total=total,
        label_entropy=cmi.label_entropy,
        task_value=task_value(items),
        n_samples=counts.n_samples,
        method=cmi.method,
        n_permutations=cmi.n_permutations,
        seed=None if cmi.method == "exact" else settings.seed,
        bins=settings.coding.bins,
        settings=settings,
        method_reason=reason,
    )


def share_of(value: float, total: float) -> float:
    """Part of a total; 0 where the total is 0 but for rounding: a quotient of rounding errors is anything."""
    return value / total if total > ROUNDING else 0.0


def _with_flags(valuation: Valuation) -> Valuation:
    from fedvalue.valuation.statistics import guard

    parties = tuple(
        replace(party, flags=guard.flags(party, valuation.n_samples)) for party in valuation.parties
    )
    return replace(valuation, parties=parties)


def _with_cmi_errors(
    valuation: Valuation, items: ItemTable, settings: ValuationSettings, execution: Execution
) -> Valuation:
    from fedvalue.valuation.statistics import influence

    se_data = influence.data_errors(items, seed=settings.seed, execution=execution)
    bias = plug_in_bias(items)
    parties = tuple(
        with_cmi_interval(replace(party, se_data=error), bias)
        for party, error in zip(valuation.parties, se_data.tolist(), strict=True)
    )
    return replace(valuation, parties=parties, details={**valuation.details, "plug_in_bias": bias})


def with_cmi_interval(party: PartyValue, bias: float) -> PartyValue:
    """A party with the interval of its Shapley-CMI, or the reason why it has none.

    Args:
        party: With its Shapley-CMI and both errors.
        bias: Of the plug-in total (`plug_in_bias`).
    """
    assert party.value is not None
    assert party.se_data is not None
    error = math.hypot(party.se_sampling or 0.0, party.se_data)
    if bias <= TOLERATED_BIAS * error:
        return replace(party, interval=interval_of(party.value, error), interval_reason=None)
    return replace(party, interval=None, interval_reason=_INFLATED.format(bias=bias))


def plug_in_bias(items: ItemTable) -> float:
    """First-order bias of the plug-in total, in nats: degrees of freedom over 2n (Miller and Madow 1955).

    It bounds the bias of every party's Shapley-CMI, which is an average of differences inside the total.
    """
    given_all = int(pack(list(items.codes)).max()) + 1
    return float((given_all - items.widths[-1]) * (items.n_labels - 1) / (2.0 * items.n_samples))


def _with_learnable(
    valuation: Valuation,
    counts: JointCounts,
    plug_in: Floats | None,
    joint_table: JointTableGame,
    settings: ValuationSettings,
    reproducible: bool,
    execution: Execution,
) -> Valuation:
    from fedvalue.valuation.evidence import ESTIMATOR, ESTIMATOR_VERSION
    from fedvalue.valuation.evidence.evidence_values import EvidenceSettings, evidence_values
    from fedvalue.valuation.evidence.feature_table import FeatureTable
    from fedvalue.valuation.statistics.joint_table_game import plug_in_game

    features = settings.columns == "features" and counts.codebooks is not None
    evidence = evidence_values(
        FeatureTable.from_counts(counts) if features else FeatureTable.from_joint_codes(counts),
        EvidenceSettings(
            seed=settings.seed,
            every_set=settings.coalitions,
            order=settings.coalitions and not reproducible,
        ),
        joint_game=joint_table,
        execution=execution,
    )
    parties = []
    for d, party in enumerate(valuation.parties):
        value = float(evidence.values[d])
        parties.append(
            replace(
                party,
                learnable=value,
                learnable_share=share_of(value, evidence.total),
                learnable_interval=interval_of(value, math.hypot(evidence.se[d], evidence.se_sampling[d])),
                se_learnable=float(evidence.se_sampling[d]),
            )
        )
    games = None
    learned = evidence.every_coalition
    if settings.coalitions and learned is not None:
        if plug_in is None:
            plug_in = plug_in_game(item_table(counts), execution=execution)
        games = {"learnable": tuple(learned.tolist()), "value": tuple(plug_in.tolist())}
    joining = tuple(JoiningStep(party=evidence.parties[k], learnable=value) for k, value in evidence.joining)
    remarks = {"pair_search": evidence.pair_search.remark, "row_sample": evidence.row_sample}
    return replace(
        valuation,
        parties=tuple(parties),
        estimator=f"{ESTIMATOR}/{ESTIMATOR_VERSION}",
        learnable_total=evidence.total,
        learnable_total_interval=interval_of(evidence.total, evidence.se_total),
        interactions=tuple(tuple(row) for row in evidence.interactions.tolist()),
        coalitions=games,
        joining=joining or None,
        uplift=uplift_rows(evidence.uplift),
        details=valuation.details | {name: remark for name, remark in remarks.items() if remark},
    )


def uplift_rows(uplift: Uplift) -> tuple[UpliftRow, ...]:
    """Uplift as it stands in a result: nobody, each party alone, all, all but each party."""
    groups = (
        ("nobody", (uplift.nobody,)), ("alone", uplift.alone),
        ("all", (uplift.everybody,)), ("all_but", uplift.without), ("set", uplift.sets),
    )  # fmt: skip
    return tuple(
        UpliftRow(
            parties=one.parties,
            role=role,
            log_loss=one.log_loss.value,
            accuracy=one.accuracy.value,
            auc=one.auc.value,
            ks=None if one.ks is None else one.ks.value,
            errors_avoided_per_1000=one.errors_avoided,
            log_loss_gain_interval=interval_of(-one.log_loss.gain, one.log_loss.se_gain),
            auc_gain_interval=interval_of(one.auc.gain, one.auc.se_gain),
            ks_gain_interval=None if one.ks is None else interval_of(one.ks.gain, one.ks.se_gain),
            errors_avoided_interval=interval_of(one.errors_avoided, one.se_errors_avoided),
        )
        for role, group in groups
        for one in group
    )
