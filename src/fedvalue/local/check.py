"""How FedValue reads files, before anything is valued: `fedvalue check`.

One pass over each file, in batches. Columns whose first batches suggested a wrong reading are read once more.
Leaks of the label are searched in a sample of rows spread over the file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fedvalue.documents import Document
from fedvalue.engines import Execution
from fedvalue.errors import InputError
from fedvalue.local.streaming import stream_by_default
from fedvalue.tables.coding_settings import CodingSettings
from fedvalue.tables.column_coder import ColumnCoder
from fedvalue.tables.column_report import ColumnCoding, counted, fit_feature
from fedvalue.tables.file_options import AS_DETECTED, FileOptions
from fedvalue.tables.label import (
    errors_left,
    fit_label,
    label_warnings,
    leak_warnings,
    merged_spellings,
    with_errors_left,
)
from fedvalue.tables.parts import shown, with_labels
from fedvalue.tables.party_stream import one_batch
from fedvalue.tables.sources import open_parts, refuse_unknown_columns, source_bytes
from fedvalue.tables.streamed_columns import ColumnLook, new_looks

if TYPE_CHECKING:
    from fedvalue.tables.column_report import CodedColumns
    from fedvalue.typing import Progress
    from fedvalue.valuation.provenance import Request

SCHEMA = "fedvalue.check/1"

MANY_NAMES = 100_000
"""A column with more distinct texts, most of them unique, is an id; counting them all would fill memory."""

SAMPLE_ROWS = 20_000


class FileCheck(Document, frozen=True, kw_only=True, omit_defaults=True):
    """How one file was read.

    Args:
        name: The file, without a password.
        format: Its format and dialect, as in "CSV, utf-8, comma".
        confidence: Of encoding, delimiter and decimal mark of a CSV file.
        size: In bytes.
        columns: How each column would be coded.
        problems: Reasons for a valuation to refuse the file, one sentence each.
        n_matched: Ids that are also in the first file.
        streamed: A valuation reads it in batches.
    """

    name: str
    format: str
    confidence: dict[str, str] = msgspec.field(default_factory=dict)
    size: int | None = None
    n_rows: int
    columns: tuple[ColumnCoding, ...] = ()
    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    n_matched: int | None = None
    streamed: bool = False


class Check(Document, frozen=True, kw_only=True, omit_defaults=True, tag_field="schema", tag=SCHEMA):
    """How files were read."""

    files: tuple[FileCheck, ...]


def check_sources(
    sources: Sequence[str],
    *,
    label: str | None = None,
    ids: str | None = None,
    coding: CodingSettings | None = None,
    options: FileOptions = AS_DETECTED,
    progress: Progress | None = None,
) -> Check:
    """Check files, folders or database URIs.

    `label` and `ids` are columns of some of the files; `coding` is how columns would be coded.

    Raises:
        InputError: A file cannot be read at all, or no file has the label or the id.
    """
    looks = [_FileLook(source, label, ids, coding or CodingSettings(), options) for source in sources]
    for wanted in (label, ids):
        if wanted is not None and not any(wanted in look.names for look in looks):
            refuse_unknown_columns([wanted], looks[0].names, shown(sources[0]))
    if coding is not None:
        names = [name for look in looks for name in look.names]
        refuse_unknown_columns(coding.categorical, names, "--categorical")
    execution = Execution(progress=progress)
    for k, look in enumerate(looks):
        look.read(partial(execution.report, k, len(looks)))
    first = looks[0].id_set()
    return Check(files=tuple(look.report(first if k else None) for k, look in enumerate(looks)))


class _FileLook:
    """One pass over a file."""

    def __init__(
        self, source: str, label: str | None, ids: str | None, coding: CodingSettings, options: FileOptions
    ) -> None:
        self._source, self._coding = source, coding
        self._parts = open_parts(source, options=options, text_columns=() if ids is None else (ids,))
        self.names = tuple(self._parts[0].schema.names)
        self._label = label if label in self.names else None
        self._id = ids if ids in self.names else None
        names = [name for name in self.names if name != self._id]
        self._looks = {look.name: look for look in new_looks(names, coding, self._label)}
        self._problems: dict[str, str] = {}
        self._ids: list[Any] = []
        self._sample = _Sample()
        self._unique: dict[str, int] = {}
        self._n_rows = 0

    def read(self, report: Callable[[str], None]) -> None:
        """Make the pass, and another over columns that need one."""
        self._pass(self._looks, report, first=True)
        self._problems = {name: look.problem for name, look in self._looks.items() if look.problem}
        unsettled = {
            name: look.again()
            for name, look in self._looks.items()
            if not look.settled and name not in self._unique
        }
        if unsettled:
            self._pass(unsettled, report, first=False)
            self._looks |= unsettled

    def _pass(self, looks: Mapping[str, ColumnLook], report: Callable[[str], None], *, first: bool) -> None:
        wanted = [*looks, *([self._id] if first and self._id else [])]
        for part in self._parts:
            file_looks = {name: look.at(part) for name, look in looks.items()}
            for batch in part.selected(wanted).batches():
                if first:
                    self._n_rows += batch.num_rows
                    self._sample.add(batch)
                    if self._id:
                        self._ids.append(batch.column(self._id))
                    report(f"{shown(self._source)}, {self._n_rows:,} rows")
                for name, look in file_looks.items():
                    if name not in self._unique:
                        look.add(batch.column(name))
                        self._stop_at_ids(look)
            for name, look in file_looks.items():
                if name not in self._unique:
                    looks[name].merge(look)

    def _stop_at_ids(self, look: ColumnLook) -> None:
        n_names = len(look.summary.categories)
        if n_names > MANY_NAMES and n_names > look.summary.n_present / 2:
            self._unique[look.name] = n_names
            look.summary.categories.clear()

    def id_set(self) -> Any | None:
        """The ids of the file, if it has any."""
        return pa.chunked_array(self._ids).unique() if self._ids else None

    def report(self, first_ids: Any | None) -> FileCheck:
        """The findings."""
        problems = [f"column {name!r}: {problem}" for name, problem in self._problems.items()]
        if self._n_rows == 0:
            problems.append("the file has no rows")
        part = self._parts[0]
        notes = [] if part.dialect is None else list(part.dialect.notes)
        warnings: list[str] = []
        codings: list[ColumnCoding] = []
        coders: dict[str, ColumnCoder] = {}
        for name, look in self._looks.items():
            if name in self._unique:
                codings.append(_unique_column(name, self._unique[name]))
                continue
            summary = look.summary
            if name == self._label and self._coding.clean_labels and summary.n_missing:
                notes.append(f"a valuation leaves out {summary.n_missing:,} rows without a label")
                summary.n_samples, summary.n_missing = summary.n_present, 0
            try:
                if name == self._label:
                    coder, coding = fit_label(summary, self._coding)
                    warnings += label_warnings(coding, summary)
                else:
                    coder, coding = fit_feature("", summary, self._coding)
            except InputError as error:
                problems.append(str(error))
                continue
            coders[name] = coder
            codings.append(coding)
        if self._label in coders:
            if coders[self._label].n_codes < 2:
                problems.append(f"label {self._label!r}: all rows have the same label")
            warnings += self._leaks(coders, codings)
        n_matched = None
        if self._id is not None:
            problems += self._id_problems()
            ids = self.id_set()
            if first_ids is not None and ids is not None:
                n_matched = pc.sum(pc.is_in(ids, value_set=first_ids.cast(ids.type))).as_py() or 0
                if not n_matched and self._n_rows and len(first_ids):
                    problems.append(f"id {self._id!r}: none of its ids is in the first file")
        return FileCheck(
            name=shown(self._source),
            format=part.description,
            confidence={} if part.dialect is None else dict(part.dialect.confidence),
            size=source_bytes(self._source),
            n_rows=self._n_rows,
            columns=tuple(codings),
            problems=tuple(problems),
            warnings=tuple(warnings),
            notes=tuple(notes),
            n_matched=n_matched,
            streamed=stream_by_default(self._source),
        )

    def _id_problems(self) -> list[str]:
        ids = pa.chunked_array(self._ids, type=pa.string())
        present = ids.filter(pc.not_equal(pc.utf8_trim_whitespace(ids), ""))
        n_missing, n_repeated = len(ids) - len(present), len(present) - len(present.unique())
        problems = {"have no id": n_missing, "repeat an id; keep one row per id": n_repeated}
        return [f"id {self._id!r}: {n:,} rows {problem}" for problem, n in problems.items() if n]

    def _leaks(self, coders: Mapping[str, ColumnCoder], codings: Sequence[ColumnCoding]) -> Sequence[str]:
        """Warnings about columns that give the label away in the sample."""
        batch = self._sample.rows()
        if batch is None or self._label is None:
            return []
        if self._coding.clean_labels:
            batch = with_labels(batch, self._label)
        codes = {name: self._looks[name].streamed(coder).codes(batch) for name, coder in coders.items()}
        label = merged_spellings(codes.pop(self._label), coders[self._label].categories)
        if not label.any():
            return []
        rows = np.ones(len(label), dtype=np.int64)
        return leak_warnings(
            with_errors_left(coding, errors_left(codes[coding.name], label, rows))
            for coding in codings
            if coding.name in codes
        )


class _Sample:
    """Some rows of each batch, spread evenly over the file."""

    def __init__(self) -> None:
        self._kept: list[Any] = []
        self._every = 1
        self._seen = 0

    def add(self, batch: Any) -> None:
        if self._seen % self._every == 0:
            # A slice would keep the whole batch in memory.
            self._kept.append(batch.take(pa.array(np.arange(min(batch.num_rows, 2_000)))))
        self._seen += 1
        if sum(rows.num_rows for rows in self._kept) > 2 * SAMPLE_ROWS:
            self._kept = self._kept[::2]
            self._every *= 2

    def rows(self) -> Any | None:
        return one_batch(self._kept) if self._kept else None


def _unique_column(name: str, n_names: int) -> ColumnCoding:
    return ColumnCoding(
        party="",
        name=name,
        kind="category",
        n_codes=1,
        warnings=(f"looks like an id: more than {n_names:,} different values; leave it out",),
    )


def summary_lines(coded: CodedColumns, request: Request) -> list[str]:
    """A few lines about coded columns, to print before a valuation."""
    label, *features = coded.columns
    kinds: dict[str, int] = {}
    for column in features:
        kinds[column.kind] = kinds.get(column.kind, 0) + 1
    listed = ", ".join(counted(n, kind) for kind, n in kinds.items())
    lines = [
        f"{shown(request.source)}: {coded.n_samples:,} rows; label {label.name!r}: {label_text(label)}",
        f"{counted(len(features), 'column')}: {listed}",
        *coded.warnings[:3],
    ]
    n_warned = sum(bool(column.warnings) for column in coded.columns)
    if n_warned:
        lines.append(f"warnings about {counted(n_warned, 'column')}: see `fedvalue check`")
    return lines


def label_text(label: ColumnCoding) -> str:
    """Classes with their balance, or the bins of an amount."""
    total = sum(label.counts) or 1
    if label.kind == "amount":
        return f"an amount in {label.n_codes} bins: {label.coding}"
    pairs = sorted(zip(label.categories, label.counts, strict=False), key=lambda pair: -pair[1])
    shares = ", ".join(f"{name} {count / total:.1%}" for name, count in pairs[:5])
    more = f" and {label.n_codes - 5} more" if label.n_codes > 5 else ""
    return f"{label.n_codes} classes: {shares}{more}"
