"""What was asked: the question, who takes part, under which agreement, and of which data."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import TYPE_CHECKING

from fedvalue.reports.wording import NAMES_SHOWN, listing

if TYPE_CHECKING:
    from fedvalue.valuation.provenance import Provenance
    from fedvalue.valuation.result import Valuation

LABEL, TASK = "label", "task"
"""Owners in the list of columns that are no data party."""


def label_of(valuation: Valuation) -> str:
    """Name of the label's column; empty where the result does not know it, as with an array."""
    name = next((column.name for column in valuation.columns if column.party == LABEL), "")
    return "" if name == LABEL else name


def asked(valuation: Valuation) -> tuple[tuple[str, str], ...]:
    """The question as terms and their values; what the result does not know is left out."""
    names = [party.name for party in valuation.parties]
    label = label_of(valuation)
    what = f"“{label}”" if label else "the label"
    rows = [
        (
            "Question",
            f"How much better can {what} be predicted with the data of {listing(names, NAMES_SHOWN)}?",
        )
    ]
    coding = next((c.coding for c in valuation.columns if c.party == LABEL and c.coding), "")
    if coding:
        rows.append(("What is predicted", f"{label or 'the label'}: {coding}"))
    own = [column.name for column in valuation.columns if column.party == TASK]
    if own:
        rows.append(
            ("Known already", f"the columns {listing(own, 12)}" if len(own) > 1 else f"the column {own[0]}")
        )
    elif label:
        rows.append(("Known already", "nothing: the task party gave no columns of its own"))
    rows += _agreement(valuation.details.get("agreement"))
    rows.append(("Cases", f"{valuation.n_samples:,}"))
    return (*rows, *_provenance(valuation.provenance))


def _provenance(origin: Provenance | None) -> list[tuple[str, str]]:
    """When it was computed, from which files, with which software."""
    if origin is None:
        return []
    rows = [("Computed", f"{_moment(origin.created)}, with {origin.software}")]
    for source in origin.sources:
        parts = [source.name, source.format]
        if source.n_matched is not None and source.n_rows:
            parts.append(f"{source.n_matched:,} of {source.n_rows:,} rows matched")
        elif source.n_rows is not None:
            parts.append(f"{source.n_rows:,} rows")
        if source.sha256 is not None:
            parts.append(f"SHA-256 {source.sha256[:16]}…")
        rows.append((f"File of {source.party}" if source.party else "File", "; ".join(filter(None, parts))))
    return rows


def _moment(created: str) -> str:
    """A moment as people write it; as it is where it is no ISO time."""
    try:
        return f"{dt.datetime.fromisoformat(created):%d %B %Y, %H:%M} UTC"
    except ValueError:
        return created


def _agreement(found: object) -> list[tuple[str, str]]:
    """The terms of a federated run that a reader asks for first."""
    if not isinstance(found, Mapping):
        return []
    terms = (
        ("Purpose", "purpose"), ("Asked by", "task"), ("Servers", "servers"), ("Agreed on", "agreed"),
        ("Consortium", "consortium"),
    )  # fmt: skip
    return [(term, _text(found[key])) for term, key in terms if found.get(key)]


def _text(item: object) -> str:
    return listing([str(one) for one in item]) if isinstance(item, list | tuple) else str(item)
