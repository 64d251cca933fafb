"""A result as a spreadsheet: an Excel workbook of four sheets, or a CSV file of the values.

Names of parties and columns come from others. They are written as text, never as a formula.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedvalue.errors import InputError
from fedvalue.untrusted_text import without_formula

if TYPE_CHECKING:
    from fedvalue.valuation.result import Valuation

Rows = list[dict[str, Any]]


def write(valuation: Valuation, path: str | Path) -> Path:
    """Write a result as `.xlsx` or `.csv`.

    Raises:
        InputError: Another kind of file, or one that cannot be written.
    """
    path = Path(path)
    try:
        if path.suffix.lower() == ".csv":
            _write_csv(valuation.to_rows(), path)
        elif path.suffix.lower() == ".xlsx":
            _write_workbook(_sheets(valuation), path)
        else:
            raise InputError(f"{path}: a table is written as .xlsx or .csv")
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}") from error
    return path


def _sheets(valuation: Valuation) -> dict[str, Rows]:
    columns = [
        {
            "party": column.party, "column": column.name, "type": column.kind, "codes": column.n_codes,
            "missing": column.n_missing, "largest": column.largest, "bins or categories": column.coding,
            "warnings": "; ".join(column.warnings),
        }
        for column in valuation.columns
    ]  # fmt: skip
    uplift = [
        {
            "parties": ", ".join(row.parties) or "nobody", "role": row.role, "log loss": row.log_loss,
            "accuracy": row.accuracy, "auc": row.auc, "ks": row.ks,
            "errors avoided per 1,000": row.errors_avoided_per_1000,
            **_ends("log loss lower by", row.log_loss_gain_interval),
            **_ends("auc higher by", row.auc_gain_interval),
            **_ends("ks higher by", row.ks_gain_interval),
            **_ends("errors avoided per 1,000", row.errors_avoided_interval),
        }
        for row in valuation.uplift or ()
    ]  # fmt: skip
    return {
        "values": valuation.to_rows(), "uplift": uplift, "columns": columns, "origin": _origin(valuation)
    }  # fmt: skip


def _ends(what: str, interval: tuple[float, float] | None) -> dict[str, Any]:
    """The ends of a 95% interval of a difference to nobody."""
    low, high = interval or (None, None)
    return {f"{what}, 95% from": low, f"{what}, 95% to": high}


def _origin(valuation: Valuation) -> Rows:
    record = valuation.provenance
    low, high = valuation.learnable_total_interval or (None, None)
    facts: list[tuple[str, Any]] = [
        ("rows", valuation.n_samples), ("estimator", valuation.estimator),
        ("learnable value of all parties", valuation.learnable_total), ("its 95% interval from", low),
        ("to", high), ("Shapley-CMI of all parties", valuation.total),
    ]  # fmt: skip
    if record is not None:
        facts += [("software", record.software), ("computed", record.created), ("command", record.command)]
        for source in record.sources:
            facts += [("file", source.name), ("its SHA-256", source.sha256)]
    return [{"what": what, "value": fact} for what, fact in facts if fact not in (None, "")]


def _write_csv(rows: Rows, path: Path) -> None:
    with path.open("w", encoding="utf-8-sig", newline="") as file:  # Excel needs the mark to see UTF-8
        table = csv.writer(file)
        table.writerow(rows[0] if rows else [])
        for row in rows:
            table.writerow(
                [without_formula(item) if isinstance(item, str) else item for item in row.values()]
            )


def _write_workbook(sheets: dict[str, Rows], path: Path) -> None:
    try:
        import openpyxl
        from openpyxl.styles import Font
    except ImportError as error:
        raise InputError(
            "writing Excel files needs the extra [excel]: pip install 'fedvalue[excel]'"
        ) from error
    book = openpyxl.Workbook()
    book.remove(book.active)
    for title, rows in sheets.items():
        if not rows:
            continue
        sheet = book.create_sheet(title)
        for k, line in enumerate([list(rows[0]), *(list(row.values()) for row in rows)], start=1):
            for j, item in enumerate(line, start=1):
                cell = sheet.cell(row=k, column=j, value=_printable(item))
                cell.font = Font(bold=k == 1)
                if isinstance(item, str):
                    cell.data_type = "s"
        sheet.freeze_panes = "A2"
    book.save(path)


def _printable(item: Any) -> Any:
    """A workbook may not hold control characters."""
    if not isinstance(item, str):
        return item
    return "".join(letter if letter >= " " or letter in "\t\n" else "?" for letter in item)
