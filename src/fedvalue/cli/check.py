"""`fedvalue check`: how files are read."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedvalue.cli import exit_codes
from fedvalue.cli import shared_options as options
from fedvalue.cli.kernels import load_arrow
from fedvalue.cli.progress import progress_bar
from fedvalue.cli.terminal import print_line, print_table, refuse_unwritable, wrote_json

if TYPE_CHECKING:
    from fedvalue.local.check import FileCheck
    from fedvalue.tables.column_report import ColumnCoding

WIDE = 110
"""Terminals at least this wide show the bins and categories."""


@options.takes("reading", options.file_options)
@options.takes("coding", options.coding_options)
def check(
    files: Annotated[
        list[str],
        typer.Argument(help="CSV, Excel, Parquet or Arrow files, folders or database URIs.", metavar="FILE"),
    ],
    reading: Any,
    coding: Any,
    label: options.Label = None,
    id_column: Annotated[
        str | None, typer.Option("--id", help="Column with the sample ids.", metavar="COL")
    ] = None,
    clean_labels: options.CleanLabels = False,
    json_file: options.JsonFile = None,
) -> None:
    """Show how each column is read: type, bins, missing values, and what looks wrong.

    Nothing is valued. Exits with code 3 if a valuation would refuse a file.

    Example: fedvalue check loans.csv telco.csv --label default --id customer
    """
    refuse_unwritable(json_file)
    load_arrow()
    import msgspec
    from msgspec.structs import replace

    from fedvalue.local.check import check_sources

    coding = replace(coding, clean_labels=clean_labels)
    with progress_bar("checking") as progress:
        report = check_sources(
            files, label=label, ids=id_column, coding=coding, options=reading, progress=progress
        )
    if not wrote_json(msgspec.to_builtins(report), json_file, "check"):
        for k, file in enumerate(report.files):
            if k:
                print_line("")
            _show(file, id_column, report.files[0].n_rows)
    if any(file.problems for file in report.files):
        raise typer.Exit(exit_codes.INPUT)


def _show(file: FileCheck, ids: str | None, n_first: int) -> None:
    """Print how one file was read."""
    from fedvalue.local.check import label_text
    from fedvalue.tables.column_report import counted

    sure = [f"{what} {how}" for what, how in file.confidence.items() if how != "certain"]
    size = f"{counted(file.n_rows, 'row')}, {counted(len(file.columns), 'column')}"
    print_line(f"{file.name}: {size}; {file.format}")
    if sure:
        print_line(f"confidence: {', '.join(sure)}")
    if file.n_matched is not None and n_first:
        share = file.n_matched / n_first
        print_line(f"id {ids!r}: {file.n_matched:,} of the {n_first:,} ids of the first file ({share:.1%})")
    for column in file.columns:
        if column.party == "label":
            print_line(f"label {column.name!r}: {label_text(column)}")
    if file.columns:
        headings = ["column", "type", "missing", "distinct", "codes", "largest", "bins or categories"]
        rows = [_row(column, file.n_rows) for column in file.columns]
        if shutil.get_terminal_size().columns < WIDE:  # the JSON always has the bins
            headings, rows = headings[:-1], [row[:-1] for row in rows]
        print_table(headings, rows, left=(0, 1, 6))
    remarks = [
        *(f"refused: {problem}" for problem in file.problems),
        *(f"warning: {warning}" for warning in file.warnings),
        *(f"warning: {column.name}: {text}" for column in file.columns for text in column.warnings),
        *(f"note: {note}" for note in file.notes),
    ]
    for remark in remarks:
        print_line(remark)
    way = "in batches" if file.streamed else "into memory"
    print_line(f"a valuation reads it {way}")


def _row(column: ColumnCoding, n_rows: int) -> list[str]:
    distinct = "many" if column.n_distinct is None else f"{column.n_distinct:,}"
    missing = f"{column.n_missing / n_rows:.1%}" if column.n_missing else ""
    return [
        column.name, column.kind, missing, distinct, str(column.n_codes), f"{column.largest:.1%}",
        column.coding,
    ]  # fmt: skip
