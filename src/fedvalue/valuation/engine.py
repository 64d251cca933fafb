"""Joint counts -> a complete Valuation: the one place where values and statistics meet.

The plain valuation, the in-process protocols and both servers of a federated run call this same
function. It is deterministic given the counts and the settings and does not depend on how codes
are numbered or items ordered, so that two servers which see different opaque labels agree.
"""

from __future__ import annotations

import math
from concurrent.futures import Executor
from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace

from fedvalue.errors import InputError
from fedvalue.information.contingency import JointCounts, pack
from fedvalue.information.entropy import conditional_entropy
from fedvalue.valuation.result import Z95, PartyValue, UpliftRow, Valuation, cmi_interval
from fedvalue.valuation.settings import ValuationSettings

if TYPE_CHECKING:
    from fedvalue.engines import Stop
    from fedvalue.typing import Codes, Floats, Progress
    from fedvalue.valuation.evidence.uplift import Uplift

AFFORDABLE_SECONDS = 60.0
"""`method="auto"` takes the exact walk when it is predicted to need no more than this."""

AFFORDABLE_VISITS = 2.0**36
"""The same for a reproducible valuation, as items times coalitions: minutes at the very worst, since the
walk prunes most of them."""

TOLERATED_BIAS = 0.5
"""A Shapley-CMI has an interval while the plug-in bias is at most this part of its standard error: a 95%
interval then still covers in 92% of cases."""

_INFLATED = "too few rows per cell: memorising inflates this Shapley-CMI by up to {bias:.2g} nats"

AUTO_PRECISION = 0.001
"""Where `method="auto"` samples, it stops when every standard error is at most this part of the total."""


def value_counts(
    counts: JointCounts,
    settings: ValuationSettings | None = None,
    *,
    reproducible: bool = False,
    executor: Executor | None = None,
    progress: Progress | None = None,
    stop: Stop | None = None,
) -> Valuation:
    """Values of every data party, with their statistics, in nats.

    Args:
        counts: The joint table.
        settings: What to compute; the defaults when None.
        reproducible: Let only the counts and the settings decide, neither the clock nor the size of this
            machine, so that another machine with the same counts gives the same answer.
        executor: Where the work runs; threads of this machine when None.
        progress: Called with progress updates.
        stop: Lets a person end a walk or the sampling early, with the best answer so far.

    Raises:
        InputError: A time limit for a reproducible valuation.
        EngineError: Workers were lost.
    """
    settings = settings or ValuationSettings()
    if settings.time_limit is not None and reproducible:
        raise InputError(f"time_limit cannot bound a reproducible valuation, got {settings.time_limit}")
    assert stop is None or not reproducible, "nobody may stop what another machine repeats"
    valuation = _shapley_cmi(counts, settings, reproducible, executor, progress, stop)
    if not settings.statistics:
        return valuation
    return _with_statistics(valuation, counts, settings, executor, progress, stop)


def _shapley_cmi(
    counts: JointCounts,
    settings: ValuationSettings,
    reproducible: bool,
    executor: Executor | None,
    progress: Progress | None,
    stop: Stop | None,
) -> Valuation:
    chosen, reason, predicted_work = _choose(counts, settings, reproducible)
    permutations: int | None = None
    if chosen == "exact":
        from fedvalue.valuation.walk.exact import WalkOptions, exact_values

        exact = exact_values(
            counts, executor=executor, progress=progress, stop=stop, predicted_work=predicted_work,
            options=WalkOptions(time_limit=settings.time_limit, seed=settings.seed),
        )  # fmt: skip
        values, errors, total, label_entropy = exact.values, exact.se, exact.total, exact.label_entropy
        if not exact.complete:
            chosen = "sampled"
            by_hand = stop is not None and stop.asked
            when = "by hand" if by_hand else f"after {settings.time_limit:g} s"
            reason = f"the exact walk was stopped {when} and the rest of it was sampled"
    else:
        from fedvalue.valuation.permutations.sampling import sampled_values

        auto = settings.method == "auto" and settings.precision is None
        sampled = sampled_values(
            counts, n_permutations=settings.n_permutations, seed=settings.seed,
            precision=AUTO_PRECISION if auto else settings.precision,
            executor=executor, progress=progress, stop=stop,
        )  # fmt: skip
        if stop is not None and stop.asked:
            reason += "; stopped by hand"
        values, errors, permutations = sampled.values, sampled.se, sampled.n_permutations
        total, label_entropy = sampled.total, sampled.label_entropy
    alone, last = alone_and_last(counts)
    parties = tuple(
        PartyValue(
            name=name,
            value=float(values[d]),
            share=float(values[d] / total) if total > 0 else 0.0,
            alone=float(alone[d]),
            last=float(last[d]),
            n_codes=len(np.unique(counts.parties[:, d])),
            se_sampling=float(errors[d]),
        )
        for d, name in enumerate(counts.names)
    )
    return Valuation(
        parties=parties,
        total=float(total),
        label_entropy=float(label_entropy),
        n_samples=counts.n_samples,
        method=chosen,
        n_permutations=permutations,
        seed=None if chosen == "exact" else settings.seed,
        bins=settings.coding.bins,
        settings=settings,
        method_reason=reason,
    )


def alone_and_last(counts: JointCounts) -> tuple[Floats, Floats]:
    """val({d}) and val(all) - val(all without d) for every party d.

    Packed prefixes and suffixes give each "all without d" from two columns instead of p - 1.
    """
    p = counts.n_parties
    columns = [counts.parties[:, d] for d in range(p)]
    prefix: list[Codes] = [pack([counts.task])]
    for column in columns:
        prefix.append(pack([prefix[-1], column]))
    suffix: list[Codes] = [np.zeros_like(counts.task)]
    for column in reversed(columns):
        suffix.append(pack([suffix[-1], column]))

    def h(*given: Codes) -> float:
        return conditional_entropy(counts.label, given, counts.count)

    nobody, everybody = h(prefix[0]), h(prefix[p])
    alone = np.array([nobody - h(prefix[0], column) for column in columns])
    last = np.array([h(prefix[d], suffix[p - 1 - d]) - everybody for d in range(p)])
    # Neither can be negative; a difference of entropies can, by rounding.
    return np.maximum(alone, 0.0), np.maximum(last, 0.0)


def _choose(
    counts: JointCounts, settings: ValuationSettings, reproducible: bool
) -> tuple[str, str, float | None]:
    """The method, the reason for it, and the predicted work of an exact walk where it was predicted."""
    method, time_limit = settings.method, settings.time_limit
    if reproducible:
        return (*_choose_by_size(counts, method), None)
    if method == "sampled":
        return method, "as asked for", None
    from fedvalue.valuation.walk.prediction import predict_walk

    prediction = predict_walk(counts)
    if method == "exact":
        return method, "as asked for", prediction.work
    took = f"the exact walk is predicted to take {_about(prediction.seconds)}"
    if time_limit is not None or prediction.seconds <= AFFORDABLE_SECONDS:
        return "exact", took, prediction.work
    return "sampled", f"{took}, more than the {AFFORDABLE_SECONDS:.0f} s that auto allows", None


def _choose_by_size(counts: JointCounts, method: str) -> tuple[str, str]:
    """The method by sizes that every holder of these counts sees alike."""
    if method != "auto":
        return method, "as asked for"
    visits = counts.n_items * 2.0**counts.n_parties
    if visits <= AFFORDABLE_VISITS:
        return "exact", f"at most {visits:.2g} visits of items, few enough for the exact walk"
    return "sampled", f"up to {visits:.2g} visits of items, too many for the exact walk"


def _about(seconds: float) -> str:
    if seconds < 1:
        return "less than a second"
    for size, unit in ((86400 * 365.0, "years"), (86400.0, "days"), (3600.0, "hours"), (60.0, "minutes")):
        if seconds >= 2 * size:
            return f"about {seconds / size:,.0f} {unit}"
    return f"about {seconds:.0f} s"


def _with_statistics(
    valuation: Valuation,
    counts: JointCounts,
    settings: ValuationSettings,
    executor: Executor | None,
    progress: Progress | None,
    stop: Stop | None,
) -> Valuation:
    """The valuation with error bars of Shapley-CMI, and everything that the learnable game says."""
    from fedvalue.valuation.statistics import guard

    valuation = _with_cmi_errors(valuation, counts, settings)
    valuation = _with_learnable(valuation, counts, settings, executor, progress, stop)
    return replace(
        valuation,
        parties=tuple(
            replace(party, flags=guard.flags(party, counts.n_samples)) for party in valuation.parties
        ),
    )


def _with_cmi_errors(valuation: Valuation, counts: JointCounts, settings: ValuationSettings) -> Valuation:
    from fedvalue.valuation.statistics import influence

    se_data = influence.data_errors(counts, seed=settings.seed)
    bias = plug_in_bias(counts)
    parties = []
    for party, error in zip(valuation.parties, se_data.tolist(), strict=True):
        trusted = bias <= TOLERATED_BIAS * math.hypot(error, party.se_sampling or 0.0)
        parties.append(
            replace(
                party,
                se_data=error,
                interval=cmi_interval(party.value, party.se_sampling, error) if trusted else None,
                interval_reason=None if trusted else _INFLATED.format(bias=bias),
            )
        )
    return replace(valuation, parties=tuple(parties))


def plug_in_bias(counts: JointCounts) -> float:
    """First-order bias of the plug-in total, in nats: degrees of freedom over 2n (Miller and Madow 1955).

    It bounds the bias of every party's Shapley-CMI, which is an average of differences inside the total.
    """
    n_labels = len(np.unique(counts.label))
    given_task = len(np.unique(counts.task))
    given_all = int(pack([counts.task, *counts.parties.T]).max()) + 1
    return (given_all - given_task) * (n_labels - 1) / (2.0 * counts.n_samples)


def _with_learnable(
    valuation: Valuation,
    counts: JointCounts,
    settings: ValuationSettings,
    executor: Executor | None,
    progress: Progress | None,
    stop: Stop | None,
) -> Valuation:
    from fedvalue.valuation.evidence.evidence_values import EvidenceSettings, evidence_values
    from fedvalue.valuation.evidence.feature_table import FeatureTable
    from fedvalue.valuation.statistics import learnable

    features = settings.columns == "features" and counts.codebooks is not None
    table = FeatureTable.from_counts(counts) if features else FeatureTable.from_joint_codes(counts)
    found = evidence_values(
        table,
        EvidenceSettings(seed=settings.seed),
        joint_game=learnable.learnable_game(counts),
        executor=executor,
        progress=progress,
        stop=stop,
    )
    parties = []
    for d, party in enumerate(valuation.parties):
        value = float(found.values[d])
        parties.append(
            replace(
                party,
                learnable=value,
                learnable_share=value / found.total if found.total > 0 else 0.0,
                learnable_interval=_interval(value, math.hypot(found.se[d], found.se_sampling[d])),
                se_learnable=float(found.se_sampling[d]),
            )
        )
    games = None
    learned = found.every_coalition
    if settings.coalitions and learned is not None:
        plug_in, _ = learnable.coalition_games(counts)
        games = {"learnable": tuple(learned.tolist()), "value": tuple(plug_in.tolist())}
    left_out = found.pair_search.remark
    return replace(
        valuation,
        parties=tuple(parties),
        estimator=f"{found.estimator}/{found.version}",
        learnable_total=found.total,
        learnable_total_interval=_interval(found.total, found.se_total),
        interactions=tuple(tuple(row) for row in found.interactions.tolist()),
        coalitions=games,
        uplift=_uplift_rows(found.uplift),
        details={**valuation.details, **({"pair_search": left_out} if left_out else {})},
    )


def _uplift_rows(uplift: Uplift) -> tuple[UpliftRow, ...]:
    groups = (
        ("nobody", (uplift.nobody,)), ("alone", uplift.alone),
        ("all", (uplift.everybody,)), ("all_but", uplift.without),
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
            log_loss_gain_interval=_interval(-one.log_loss.gain, one.log_loss.se_gain),
            auc_gain_interval=_interval(one.auc.gain, one.auc.se_gain),
            errors_avoided_interval=_interval(one.errors_avoided, one.se_errors_avoided),
        )
        for role, group in groups
        for one in group
    )


def _interval(value: float, error: float) -> tuple[float, float]:
    return value - Z95 * error, value + Z95 * error
