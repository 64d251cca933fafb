"""`fedvalue.value`: the valuation that a notebook or the command asks for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any

from msgspec import structs

from fedvalue.engines import plain_interrupts
from fedvalue.errors import InputError
from fedvalue.information.contingency import JointCounts
from fedvalue.local.inputs import gathered_inputs
from fedvalue.tables.coding_settings import CodingSettings
from fedvalue.tables.label import leak_warnings
from fedvalue.tables.party_table import PartyTable, label_table, party_table, task_table
from fedvalue.valuation.engine import value_counts
from fedvalue.valuation.settings import ValuationSettings

if TYPE_CHECKING:
    from fedvalue.engines import Stop
    from fedvalue.federated.options import ProtocolOptions
    from fedvalue.tables.coding_settings import Binning
    from fedvalue.typing import Progress
    from fedvalue.valuation.result import Valuation
    from fedvalue.valuation.settings import Columns, Method


@plain_interrupts()
def value(
    *,
    label: Any,
    parties: Mapping[str, Any],
    task: Any = None,
    data: Any = None,
    bins: int = 5,
    binning: Binning = "quantile",
    label_bins: int | None = None,
    pca: int | None = None,
    categorical: Sequence[str] = (),
    method: Method = "auto",
    n_permutations: int = 5000,
    seed: int = 0,
    precision: float | None = None,
    statistics: bool = True,
    coalitions: bool = True,
    columns: Columns = "features",
    time_limit: float | None = None,
    protocol: str | ProtocolOptions | None = None,
    ids: Any = None,
    align: str = "equal",
    executor: Executor | None = None,
    progress: Progress | None = None,
    stop: Stop | None = None,
) -> Valuation:
    """What each data party's data is worth for predicting `label`, given what the task party has.

    Args:
        label: One label per sample. An amount is cut into bins, and the result says so.
        parties: The features of each data party by its name; NumPy array, pandas or Polars frame,
            Arrow table, dict of columns, path of a file or database URI. Rows are those of the label: pandas
            tables are put into its order by their index, all others match by position.
        task: The task party's own features, or None.
        data: A table that holds all columns; then label, task, parties and ids are names of its columns.
        bins: Bins of a numeric column.
        binning: "quantile" for about equally filled bins, "width" for the paper's bins of equal width.
        label_bins: Bins of a label that is an amount; `bins` when None.
        pca: Replace the numbers of each data party that has more columns by this many principal components.
        categorical: Columns whose numbers are names, such as zip codes: never binned.
        method: "exact", "sampled", or "auto" to let the predicted cost decide.
        n_permutations: Permutations of the sampled method.
        seed: Of the sampled permutations.
        precision: Stop sampling when the largest standard error is at most this fraction of the total.
        statistics: Whether to compute standard errors, learnable values and interactions.
        coalitions: Whether to keep all coalitions' values where there are few parties, for selection.
        columns: "features": `learnable` sees a party's columns one by one and in pairs; "joint": one joint
            code per party, as Shapley-CMI does.
        time_limit: Seconds after which an exact walk gives way to sampled permutations, with their error.
        protocol: Run a federated protocol in process, all roles real: "single", "paper" or "mirror", or
            `Single`, `Paper` or `Mirror` with their options.
        ids: For the protocols: one id per sample, or a dict of them by party, with the task party's under
            "task"; row numbers when None.
        align: For the protocols: "equal" when all parties hold the same ids, in any order, or "intersect"
            to reduce the tables to the common ids first.
        executor: Where the work runs, e.g. `client.get_executor()` of a Dask client.
        progress: Called with progress updates.
        stop: Set its `asked` from another thread or a signal handler to end long work early, with the best
            answer so far and its error.

    Returns:
        The values in nats, with everything else that was computed about each party.

    Raises:
        InputError: A table or a setting is wrong.
    """
    settings = ValuationSettings(
        method=method, n_permutations=n_permutations, seed=seed, precision=precision, time_limit=time_limit,
        statistics=statistics, coalitions=coalitions, columns=columns,
        coding=CodingSettings(
            bins=bins, binning=binning, label_bins=label_bins, pca=pca, categorical=tuple(categorical)
        ),
    )  # fmt: skip
    return value_tables(
        label=label, parties=parties, task=task, data=data, settings=settings, protocol=protocol, ids=ids,
        align=align, executor=executor, progress=progress, stop=stop,
    )  # fmt: skip


def value_tables(
    *,
    label: Any,
    parties: Mapping[str, Any],
    task: Any,
    settings: ValuationSettings,
    data: Any = None,
    protocol: str | ProtocolOptions | None = None,
    ids: Any = None,
    align: str = "equal",
    executor: Executor | None = None,
    progress: Progress | None = None,
    stop: Stop | None = None,
) -> Valuation:
    """`value` with its settings as one object."""
    if protocol is None and align != "equal":
        raise InputError("align needs a protocol (single, paper, mirror): rows of plain tables are aligned")
    coding = settings.coding
    intersect = align == "intersect"  # then the parties' rows are not those of the label
    inputs = gathered_inputs(
        data=data, label=label, task=task, parties=parties, ids=ids, categorical=coding.categorical,
        aligned=not intersect,
    )  # fmt: skip
    y = label_table(inputs.label, coding)
    own = task_table(inputs.task, len(y.codes), structs.replace(coding, pca=None))
    tables = {name: party_table(name, table, coding) for name, table in inputs.parties.items()}
    counts = None if intersect else joint_counts(y, own, tables)
    if own.n_samples != y.n_samples:
        raise InputError(f"the task party has {own.n_samples:,} rows, the label has {y.n_samples:,}")
    if protocol is None:
        assert counts is not None
        result = value_counts(counts, settings, executor=executor, progress=progress, stop=stop)
    else:
        if settings.time_limit is not None:
            raise InputError("time_limit: only without a protocol, for two servers must do the same work")
        from fedvalue.federated.run import federated_value

        result = federated_value(
            label=y, task=own, parties=list(tables.values()), ids=inputs.ids, align=align, protocol=protocol,
            settings=settings, executor=executor, progress=progress,
        )  # fmt: skip
    everybody = (y, own, *tables.values())
    notes = [note for table in everybody for note in table.notes]
    return structs.replace(
        result,
        columns=tuple(column for table in everybody for column in table.columns),
        warnings=(*y.warnings, *(() if counts is None else leak_warnings(counts))),
        details={**result.details, **({"notes": notes} if notes else {})},
    )


def joint_counts(label: PartyTable, task: PartyTable, parties: Mapping[str, PartyTable]) -> JointCounts:
    """The joint counts of aligned party tables."""
    return JointCounts.from_columns(
        label=label.codes,
        task=task.codes,
        parties={name: table.codes for name, table in parties.items()},
        n_codes=[table.n_codes for table in parties.values()],
        codebooks=[table.codebook for table in parties.values() if table.codebook is not None],
        task_codebook=task.codebook,
    )
