"""Run experiments: units over the cores, then summary, verdict, drawing and page.

Units that measure time run one by one in this process, after the others, so that nothing runs beside
them.
"""

from __future__ import annotations

import datetime
import json
import os
import platform
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from fedvalue.datasets import locate
from fedvalue.engines import ProcessEngine, map_in_order, n_cores
from fedvalue.errors import FedValueError, InputError
from fedvalue.paper.experiments.drawing import styled, svg
from fedvalue.paper.experiments.experiment import PROFILES, Experiment, Numbers, Unit, Verdict
from fedvalue.paper.experiments.pages import write_index
from fedvalue.paper.experiments.store import Store, write
from fedvalue.paper.extras import require_extra, versions

if TYPE_CHECKING:
    from fedvalue.typing import Progress

SCHEMA = "fedvalue.experiment/1"


def reproduce(
    experiments: Sequence[Experiment],
    *,
    profile: str,
    out: Path,
    seed: int = 0,
    workers: int | None = None,
    fresh: bool = False,
    progress: Progress | None = None,
) -> list[Numbers]:
    """Run experiments and write their results; finished units of an earlier run are kept.

    Args:
        experiments: The experiments to run.
        profile: "quick" or "paper".
        out: The folder to write to.
        seed: Seeds everything random.
        workers: Processes; the number of cores when None, this process alone when 0.
        fresh: Discard earlier results in `out`.
        progress: Called with the part of the predicted work that is done.

    Returns:
        The contents of each `<name>.json`, in the order of `experiments`.

    A data set that is not on this machine is left out: the experiment runs on the others, and its document
    and its verdict say so.

    Raises:
        InputError: A missing extra, an experiment without any of its data sets, or an out folder that belongs
            to another run.
        EngineError: A piece of work failed.
    """
    if profile not in PROFILES:
        raise InputError(f"profile must be one of {', '.join(PROFILES)}, got {profile!r}")
    if seed < 0:
        raise InputError(f"seed must not be negative, got {seed}")
    absent = check_needs(experiments)
    store = Store.open(out, seed=seed, profile=profile, fresh=fresh)
    plan = {
        experiment.name: [unit for unit in experiment.units(profile, seed) if unit.data_set not in absent]
        for experiment in experiments
    }
    records = _run_units(store, list({u.key: u for units in plan.values() for u in units}.values()),
                         workers=workers, progress=progress)  # fmt: skip
    written = []
    for experiment in experiments:
        mine = {unit.key: records[unit.key] for unit in plan[experiment.name]}
        written.append(_finish(experiment, mine, store, absent))
    write_index(store.folder)
    return written


def check_needs(experiments: Sequence[Experiment]) -> dict[str, str]:
    """The missing data sets, each with the way to get it; refuses before any work starts.

    Raises:
        InputError: The extra `paper` is missing, or every data set of an experiment; the message says how to
            get them.
    """
    if any(experiment.models for experiment in experiments):
        require_extra("paper")
    absent = locate.missing({name for experiment in experiments for name in experiment.data})
    for experiment in experiments:
        if experiment.data and not set(experiment.data) - set(absent):
            raise InputError("; ".join(absent[name] for name in experiment.data), code="E_DATASET")
    return absent


def _run_units(
    store: Store, units: Sequence[Unit], *, workers: int | None, progress: Progress | None
) -> dict[str, Numbers]:
    records = {unit.key: record for unit in units if (record := store.unit(unit)) is not None}
    todo = [unit for unit in units if unit.key not in records]
    total, done = sum(unit.cost for unit in todo), 0.0
    if progress is not None:
        progress(0.0, max(total, 1e-9), f"{len(records)} of {len(units)} pieces already done")
    together = sorted((unit for unit in todo if not unit.alone), key=lambda unit: -unit.cost)
    alone = [unit for unit in todo if unit.alone]
    workers = n_cores() if workers is None else workers
    with ExitStack() as stack:
        results: Iterable[tuple[Numbers, float]] = map(_call, together)
        if workers and together:
            pool = stack.enter_context(ProcessEngine(min(workers, len(together))))
            results = map_in_order(pool, _call, ((unit,) for unit in together))
        for unit, (result, cpu_seconds) in zip(
            [*together, *alone], chain(results, map(_call, alone)), strict=True
        ):
            records[unit.key] = store.keep(unit, result, cpu_seconds)
            done += unit.cost
            if progress is not None:
                progress(done, total, unit.key)
    return records


def _call(unit: Unit) -> tuple[Numbers, float]:
    start = time.process_time()
    try:
        result = unit.call(**unit.settings)
    except FedValueError as error:
        raise type(error)(f"{unit.key}: {error}", code=error.code) from error
    return result, time.process_time() - start


def _finish(
    experiment: Experiment, records: dict[str, Numbers], store: Store, absent: Mapping[str, str]
) -> Numbers:
    numbers = experiment.summarise({key: record["result"] for key, record in records.items()})
    missing = {name: absent[name] for name in experiment.data if name in absent}
    verdict = without(experiment.judge(numbers), tuple(missing), len(experiment.data))
    document: Numbers = {
        "schema": SCHEMA,
        "name": experiment.name,
        "title": experiment.title,
        "claim": experiment.claim,
        "measured": verdict.measured,
        "verdict": verdict.verdict,
        "profile": store.profile,
        "seed": store.seed,
        "date": datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
        "versions": versions("paper"),
        "machine": {"cores": os.cpu_count(), "processor": platform.machine()},
        "data": [name for name in experiment.data if name not in missing],
        "missing": missing,
        "notes": list(experiment.notes),
        "cpu_seconds": round(sum(record["cpu_seconds"] for record in records.values()), 1),
        "settings": {key: record["settings"] for key, record in records.items()},
        "numbers": numbers,
    }
    with styled():
        figure = experiment.draw(numbers)
    write(store.folder / f"{experiment.name}.svg", svg(figure, salt=experiment.name))
    text = json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False)
    write(store.folder / f"{experiment.name}.json", text + "\n")
    return document


def without(verdict: Verdict, missing: Sequence[str], n_data_sets: int) -> Verdict:
    """The verdict when some data sets were missing: at most "partly", and it names them."""
    if not missing:
        return verdict
    word = "partly" if verdict.verdict == "reproduced" else verdict.verdict
    names = ", ".join(name.capitalize() for name in missing)
    text = f"On {n_data_sets - len(missing)} of {n_data_sets} data sets (not on this machine: {names}): "
    return Verdict(word, text + verdict.measured)
