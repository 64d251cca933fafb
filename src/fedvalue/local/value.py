"""`fedvalue.value`: the valuation of tables in memory or on this machine."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import nullcontext
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from msgspec import structs

from fedvalue.decisions.acceptance import check_party, with_acceptance
from fedvalue.decisions.coding_sensitivity import with_sensitivity
from fedvalue.engines import HERE, Execution, Stop, plain_interrupts
from fedvalue.errors import InputError
from fedvalue.information.contingency import JointCounts
from fedvalue.local.inputs import gathered_inputs, is_source
from fedvalue.local.notebook_progress import in_notebook, notebook_bar
from fedvalue.local.origin import described_source, provenance, with_notes
from fedvalue.tables.coding_settings import CodingSettings
from fedvalue.tables.column_report import CodedColumns
from fedvalue.tables.file_options import AS_DETECTED, FileOptions
from fedvalue.tables.label import leak_warnings, with_leaks
from fedvalue.tables.party_table import PartyTable, label_table, party_table, task_table
from fedvalue.tables.sources import is_file_name, refuse_unknown_columns
from fedvalue.valuation.engine import value_counts
from fedvalue.valuation.own_utility import with_utility
from fedvalue.valuation.settings import ValuationSettings

if TYPE_CHECKING:
    from fedvalue.federated.options import ProtocolOptions
    from fedvalue.tables.coding_settings import Binning
    from fedvalue.typing import Progress
    from fedvalue.valuation.acceptance_test import AcceptanceTest
    from fedvalue.valuation.own_utility import Utility
    from fedvalue.valuation.result import Valuation
    from fedvalue.valuation.settings import Columns, Method


P = ParamSpec("P")
R = TypeVar("R")


def known_arguments(**usual: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Suggest the right name for a misspelled keyword argument, in a TypeError.

    `usual` maps names from other libraries to ours.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        names = list(inspect.signature(function).parameters)

        @wraps(function)
        def checked(*args: P.args, **kwargs: P.kwargs) -> R:
            if args:
                raise TypeError(
                    f"{function.__name__} takes its arguments by name, as in {function.__name__}(label=…, "
                    "parties={…})"
                )
            for name in kwargs:
                if name not in names:
                    close = [usual[name]] if name in usual else difflib.get_close_matches(name, names, n=1)
                    hint = f"did you mean {close[0]}?" if close else f"its arguments are {', '.join(names)}"
                    raise TypeError(f"{function.__name__} has no argument {name!r}; {hint}")
            return function(*args, **kwargs)

        return checked

    return decorate


@known_arguments(
    X="parties", y="label", target="label", labels="label", df="data", frame="data", features="parties",
    n_bins="bins", id="ids", n_samples="n_permutations",
)  # fmt: skip
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
    clean_labels: bool = False,
    file_options: FileOptions | None = None,
    method: Method = "auto",
    n_permutations: int = 5000,
    seed: int = 0,
    precision: float | None = None,
    statistics: bool = True,
    coalitions: bool = True,
    columns: Columns = "features",
    acceptance: AcceptanceTest | None = None,
    utility: Utility | None = None,
    sensitivity: bool = False,
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
        label: One label per sample. An amount is cut into bins, with a note in the result.
        parties: The features of each data party by name: NumPy array, pandas or Polars frame, Arrow table,
            dict of columns, path of a file or database URI. Rows must match the label's: pandas tables are
            put into its order by their index, all others match by position.
        task: The task party's own features, or None.
        data: A table with all columns; then label, task, parties and ids are names of its columns. A party
            may have its own table or file, which is joined by the id column `ids`.
        bins: Bins of a numeric column.
        binning: "quantile" for about equally filled bins, "width" for the paper's bins of equal width.
        label_bins: Bins of a label that is an amount; `bins` when None.
        pca: Replace the numbers of each data party that has more columns by this many principal components.
        categorical: Columns whose numbers are names, such as zip codes: never binned.
        clean_labels: Take labels that differ only in case or blanks for one class. Unlike the option of the
            command it leaves no row out: remove rows without a label from every table first.
        file_options: How to read tables that are files: delimiter, decimal mark, encoding, sheet.
        method: "exact", "sampled", or "auto" to let the predicted cost decide.
        n_permutations: Permutations of the sampled method.
        seed: Of the sampled permutations.
        precision: Stop sampling when the largest standard error is at most this fraction of the total.
        statistics: Compute standard errors, learnable values and interactions.
        coalitions: Keep the values of all coalitions if there are few parties, for selection.
        columns: "features": `learnable` sees a party's columns one by one and in pairs; "joint": one joint
            code per party, as Shapley-CMI does.
        acceptance: The least gain that the data must bring; `details["acceptance"]` then has the verdict.
        utility: Your own utility or estimator: a function from a tuple of party names to the worth of that
            coalition. Its Shapley values replace `learnable`, without intervals, for at most 12 parties.
        sensitivity: Value again with other bins; `details["sensitivity"]` says whether the advice changes.
        time_limit: Seconds after which exact values are replaced by sampled permutations.
        protocol: Run a federated protocol in process, all roles real: "single", "paper", "mirror",
            "gram" or "vpsic", or `Single`, `Paper`, `Mirror`, `Gram` or `Vpsic` with their options.
        ids: For the protocols: one id per sample, or a dict of ids by party, with the task party's under
            "task"; row numbers if None.
        align: For the protocols: "equal" when all parties hold the same ids, in any order, or "intersect"
            to reduce the tables to the common ids first.
        executor: Where the work runs, e.g. `client.get_executor()` of a Dask client.
        progress: Called with progress updates; by default a bar in notebooks.
        stop: Set its `asked` from another thread or a signal handler to end long work early, with the best
            answer so far and its error.

    Returns:
        The values in nats, with all other statistics of each party.

    Raises:
        InputError: A table or a setting is wrong.
    """
    settings = ValuationSettings(
        method=method, n_permutations=n_permutations, seed=seed, precision=precision, time_limit=time_limit,
        statistics=statistics and utility is None, coalitions=coalitions, columns=columns,
        acceptance=acceptance,
        coding=CodingSettings(
            bins=bins, binning=binning, label_bins=label_bins, pca=pca,
            categorical=(categorical,) if isinstance(categorical, str) else tuple(categorical),
            clean_labels=clean_labels,
        ),
    )  # fmt: skip
    check_party(acceptance, parties)
    if not isinstance(file_options, FileOptions | None):
        raise InputError(
            f"file_options must be a fedvalue.FileOptions, as in FileOptions(decimal=','), got "
            f"{file_options!r}"
        )
    if sensitivity and not statistics:
        raise InputError("sensitivity compares advice and needs statistics=True")
    if utility is not None and (sensitivity or acceptance is not None or protocol is not None):
        raise InputError("utility cannot be combined with sensitivity, acceptance or protocol")

    def valued(settings: ValuationSettings) -> Valuation:
        bar = notebook_bar() if progress is None and in_notebook() else nullcontext(progress)
        with bar as report:
            return value_tables(
                label=label, parties=parties, task=task, data=data, settings=settings, protocol=protocol,
                ids=ids, align=align, file_options=file_options or AS_DETECTED,
                execution=Execution(executor, report, stop or Stop()),
            )  # fmt: skip

    valuation = with_acceptance(valued(settings))
    if utility is not None:
        valuation = with_utility(valuation, utility, progress)
    tables = {"": data, "task": task, **parties}
    sources = tuple(
        described_source(str(table), name, file_options or AS_DETECTED)
        for name, table in tables.items()
        if is_source(table) and (data is None or name == "" or is_file_name(str(table)))
    )
    valuation = structs.replace(valuation, provenance=provenance(sources=sources))
    if not sensitivity:
        return valuation
    return with_sensitivity(valuation, lambda coding: valued(structs.replace(settings, coding=coding)))


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
    file_options: FileOptions = AS_DETECTED,
    execution: Execution = HERE,
    coded: Callable[[CodedColumns], None] | None = None,
) -> Valuation:
    """`value` with its settings as one object.

    `coded` is called once the columns are coded, before they are valued.
    """
    if protocol is None and align != "equal":
        raise InputError(
            "align needs a protocol, such as mirror: the rows of plain tables are already aligned"
        )
    coding = settings.coding
    intersect = align == "intersect"  # then the parties' rows are not those of the label
    inputs = gathered_inputs(
        data=data, label=label, task=task, parties=parties, ids=ids, categorical=coding.categorical,
        aligned=not intersect, options=file_options,
    )  # fmt: skip
    y = label_table(inputs.label, coding)
    own = task_table(inputs.task, len(y.codes), structs.replace(coding, pca=None))
    tables = {name: party_table(name, table, coding) for name, table in inputs.parties.items()}
    counts = None if intersect else joint_counts(y, own, tables)
    if own.n_samples != y.n_samples:
        raise InputError(f"the task party has {own.n_samples:,} rows, the label has {y.n_samples:,}")
    everybody = (y, own, *tables.values())
    codings = tuple(column for table in everybody for column in table.columns)
    refuse_unknown_columns(coding.categorical, [column.name for column in codings], "categorical")
    if counts is not None:
        codings = with_leaks(codings, counts)
    warnings = (*y.warnings, *leak_warnings(codings))
    if coded is not None:
        coded(CodedColumns(y.n_samples, codings, warnings))
    notes = [*inputs.notes, *(note for table in everybody for note in table.notes)]
    if protocol is None:
        assert counts is not None
        del y, own, tables, everybody  # the counts stand for their rows
        result = value_counts(counts, settings, execution=execution)
    else:
        if settings.time_limit is not None:
            raise InputError("time_limit cannot be used with a protocol: all servers must do the same work")
        from fedvalue.federated.run import federated_value

        result = federated_value(
            label=y, task=own, parties=list(tables.values()), ids=inputs.ids, align=align,
            protocol=protocol, settings=settings, execution=execution,
        )  # fmt: skip
    return with_notes(structs.replace(result, columns=codings, warnings=warnings), after=notes)


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
