"""Joint counts -> a complete Valuation: the one place where values and statistics meet.

The plain valuation, the in-process protocols and both servers of a federated run call this same
function. It is deterministic given the counts and the settings and does not depend on how codes
are numbered or items ordered, so that two servers which see different opaque labels agree.
"""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import replace
from numbers import Integral, Real
from typing import TYPE_CHECKING

import numpy as np

from fedvalue.errors import InputError
from fedvalue.information.contingency import JointCounts, pack
from fedvalue.information.entropy import conditional_entropy
from fedvalue.valuation.result import PartyValue, Valuation

if TYPE_CHECKING:
    from fedvalue.engines import Stop
    from fedvalue.typing import Codes, Floats, Progress

METHODS = ("auto", "exact", "sampled")
AFFORDABLE_SECONDS = 60.0
"""`method="auto"` takes the exact walk when it is predicted to need no more than this."""

AFFORDABLE_VISITS = 2.0**36
"""The same for a reproducible valuation, as items times coalitions: minutes at the very worst, since the
walk prunes most of them."""

AUTO_PRECISION = 0.001
"""Where `method="auto"` samples, it stops when every standard error is at most this part of the total."""


def value_counts(
    counts: JointCounts,
    *,
    method: str = "auto",
    n_permutations: int = 5000,
    seed: int = 0,
    precision: float | None = None,
    statistics: bool = True,
    coalitions: bool = False,
    time_limit: float | None = None,
    reproducible: bool = False,
    executor: Executor | None = None,
    progress: Progress | None = None,
    stop: Stop | None = None,
) -> Valuation:
    """Shapley-CMI of every data party, with its statistics, in nats.

    Args:
        counts: The joint table.
        method: "exact", "sampled", or "auto": exact when the walk is predicted to be affordable.
        n_permutations: Permutations of the sampled method (an upper bound when `precision` is set).
        seed: Of the sampled permutations.
        precision: Stop sampling when the largest standard error is at most this fraction of the total.
        statistics: Whether to compute `se_data`, `learnable` and interactions too.
        coalitions: Whether to keep the values of all coalitions, where there are few enough.
        time_limit: Seconds after which the exact walk samples what is left of it; no limit when None.
        reproducible: Let nothing but the counts and the settings decide, neither the clock nor the
            size of this machine, so that another machine with the same counts gives the same answer.
        executor: Where the work runs; threads of this machine when None.
        progress: Told how far the work has come.
        stop: Lets a person end a walk or the sampling early, with the best answer so far.

    Raises:
        InputError: A setting is out of range.
        EngineError: Workers were lost.
    """
    check_settings(
        method=method, n_permutations=n_permutations, seed=seed, precision=precision, time_limit=time_limit
    )
    if time_limit is not None and reproducible:
        raise InputError(f"time_limit cannot bound a reproducible valuation, got {time_limit}")
    assert stop is None or not reproducible, "nobody may stop what another machine repeats"
    n_permutations, seed = int(n_permutations), int(seed)  # a NumPy integer would not go into JSON
    chosen, reason, predicted_work = _choose(counts, method, time_limit, reproducible)
    permutations: int | None = None
    if chosen == "exact":
        from fedvalue.valuation.walk.exact import WalkOptions, exact_values

        exact = exact_values(
            counts, executor=executor, progress=progress, stop=stop, predicted_work=predicted_work,
            options=WalkOptions(time_limit=time_limit, seed=seed),
        )  # fmt: skip
        values, errors, total, label_entropy = exact.values, exact.se, exact.total, exact.label_entropy
        if not exact.complete:
            chosen = "sampled"
            by_hand = stop is not None and stop.asked
            when = "by hand" if by_hand else f"after {time_limit:g} s"
            reason = f"the exact walk was stopped {when} and the rest of it was sampled"
    else:
        from fedvalue.valuation.permutations.sampling import sampled_values

        if method == "auto" and precision is None:
            precision = AUTO_PRECISION
        sampled = sampled_values(
            counts, n_permutations=n_permutations, seed=seed, precision=precision,
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
    valuation = Valuation(
        parties=parties,
        total=float(total),
        label_entropy=float(label_entropy),
        n_samples=counts.n_samples,
        method=chosen,
        n_permutations=permutations,
        seed=None if chosen == "exact" else seed,
        method_reason=reason,
    )
    return _with_statistics(valuation, counts, seed, coalitions, progress) if statistics else valuation


def check_settings(
    *,
    method: object = "auto",
    n_permutations: object = 5000,
    seed: object = 0,
    precision: object = None,
    time_limit: object = None,
    **_others: object,
) -> None:
    """Refuse settings that no valuation can have; those that cannot be wrong are not looked at.

    Raises:
        InputError: Naming the setting, what it must be and what came.
    """
    if method not in METHODS:
        raise InputError(f"method must be one of {', '.join(METHODS)}, got {method!r}")
    if _whole("n_permutations", n_permutations) < 2:
        raise InputError(f"n_permutations must be at least 2, got {n_permutations}")
    if _whole("seed", seed) < 0:
        raise InputError(f"seed must not be negative, got {seed}")
    if precision is not None and not (isinstance(precision, Real) and 0 < float(precision) < 1):
        raise InputError(f"precision is a fraction of the total between 0 and 1, got {precision!r}")
    if time_limit is None:
        return
    if not (isinstance(time_limit, Real) and float(time_limit) > 0):
        raise InputError(f"time_limit must be a positive number of seconds, got {time_limit!r}")
    if method == "sampled":
        raise InputError("time_limit bounds an exact walk: it cannot be used with the method 'sampled'")


def _whole(name: str, number: object) -> int:
    if not isinstance(number, Integral):
        raise InputError(f"{name} must be a whole number, got {number!r}")
    return int(number)


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
    counts: JointCounts, method: str, time_limit: float | None, reproducible: bool
) -> tuple[str, str, float | None]:
    """The method, the reason for it, and the predicted work of an exact walk where it was predicted."""
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
    valuation: Valuation, counts: JointCounts, seed: int, coalitions: bool, progress: Progress | None
) -> Valuation:
    from fedvalue.valuation.statistics import guard, influence, interaction, learnable

    def tell(done: float, note: str) -> None:
        if progress is not None:
            progress(done, 3.0, note)

    tell(0.0, "standard errors")
    se_data = influence.data_errors(counts, seed=seed)
    tell(1.0, "learnable values")
    learned = learnable.learnable_values(counts, seed=seed)
    parties = tuple(
        replace(
            party,
            se_data=float(se_data[d]),
            learnable=float(learned.values[d]),
            se_learnable=float(learned.se[d]),
        )
        for d, party in enumerate(valuation.parties)
    )
    tell(2.0, "interactions")
    pairs = interaction.interactions(counts, seed=seed)
    remark = {"learnable_search": learned.remark} if learned.remark else {}
    return replace(
        valuation,
        details={**valuation.details, **remark},
        parties=tuple(replace(party, flags=guard.flags(party, counts.n_samples)) for party in parties),
        learnable_total=float(learned.total),
        interactions=tuple(tuple(float(x) for x in row) for row in pairs),
        coalitions=learnable.coalition_tables(counts) if coalitions else None,
    )
