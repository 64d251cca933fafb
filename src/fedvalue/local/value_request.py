"""The valuation of files that a command describes: in memory, streamed, on top of a state, or joined by id.

The result carries its provenance, so that the same request can be repeated.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import structs

from fedvalue.errors import InputError
from fedvalue.local.origin import described_source, provenance
from fedvalue.local.party_files import Match, join_by_id
from fedvalue.tables.parts import shown, with_labels
from fedvalue.tables.sources import read_table
from fedvalue.valuation.provenance import Request, SourceFile

if TYPE_CHECKING:
    from fedvalue.engines import Stop
    from fedvalue.local.coded import Coded
    from fedvalue.typing import Progress
    from fedvalue.valuation.result import Valuation
    from fedvalue.valuation.settings import ValuationSettings


def value_request(
    request: Request,
    settings: ValuationSettings,
    *,
    state: Path | None = None,
    command: str = "",
    executor: Executor | None = None,
    progress: Progress | None = None,
    stop: Stop | None = None,
    coded: Callable[[Coded], None] | None = None,
) -> Valuation:
    """Value the files of a request.

    Args:
        request: Files, columns and owners.
        settings: How to value them.
        state: Add the rows to the counts in this file.
        command: The command line, for the provenance.
        executor: Where the work runs.
        progress: Called with progress updates.
        stop: Lets a person end the work early.
        coded: Called once the columns are coded, before they are valued.

    Raises:
        InputError: Options that exclude each other, or wrong data.
    """
    from fedvalue.local.streaming import stream_by_default, value_files

    work: dict[str, Any] = {
        "settings": settings, "executor": executor, "progress": progress, "stop": stop, "coded": coded
    }  # fmt: skip
    if request.protocol_options and request.protocol is None:
        raise InputError(f"{', '.join(sorted(request.protocol_options))}: only with --protocol")
    if not request.one_source:
        if state is not None:
            raise InputError("--state adds the rows of one source: it cannot be used with a file per party")
        return _joined(request, command, work)
    described = described_source(request.source, "", request.options_of())
    streamed = request.protocol is None and stream_by_default(request.source)
    if state is not None or streamed:
        if request.protocol is not None:
            raise InputError("--state keeps plain counts: it cannot be used with --protocol")
        named: dict[str, Any] = {
            "label": request.label, "task": request.task, "options": request.options_of(),
            "parties": {party.name: party.columns for party in request.parties},
        }  # fmt: skip
        if state is not None:
            from fedvalue.local.incremental import value_with_state

            valuation = value_with_state(state, request.source, **named, **work)
        else:
            valuation = value_files(request.source, **named, **work)
        if request.id:
            note = "the source was streamed: its ids were not checked for duplicates"
            notes = [*valuation.details.get("notes", []), note]
            valuation = structs.replace(valuation, details={**valuation.details, "notes": notes})
        return _with_provenance(valuation, request, command, (described,), valuation.n_samples)
    table = read_table(
        request.source, request.columns, text_columns=_texts(request, settings), options=request.options_of()
    )
    n_rows = table.num_rows
    if settings.coding.clean_labels:
        table = with_labels(table, request.label)
    if request.id:
        from fedvalue.tables.party_table import check_ids

        check_ids(table.column(request.id), name=request.id)
    parties = {party.name: table.select(list(party.columns)) for party in request.parties}
    ids = table.column(request.id) if request.id else None
    notes = _left_out(n_rows - table.num_rows)
    valuation = _valued(request, table, parties, ids, work, notes)
    return _with_provenance(valuation, request, command, (described,), n_rows)


def _joined(request: Request, command: str, work: dict[str, Any]) -> Valuation:
    """Value tables of several files, joined by id."""
    if request.id is None:
        raise InputError("files of several parties are joined by id: name its column with --id")
    settings: ValuationSettings = work["settings"]
    texts = _texts(request, settings)
    main = read_table(request.source, request.columns, text_columns=texts, options=request.options_of())
    n_rows = main.num_rows
    if settings.coding.clean_labels:
        main = with_labels(main, request.label)
    theirs: dict[str, tuple[Any, str]] = {}
    described = [structs.replace(described_source(request.source, "", request.options_of()), n_rows=n_rows)]
    for party in request.parties:
        if party.source is None:
            continue
        key = party.id or request.id
        options = request.options_of(party.name)
        wanted = [key, *party.columns]
        theirs[party.name] = (
            read_table(party.source, wanted, text_columns=(*texts, key), options=options), key
        )  # fmt: skip
        described.append(described_source(party.source, party.name, options))
    joined = join_by_id(main, request.id, theirs)
    matches = {match.party: match for match in joined.matches}
    sources = [described[0], *(_matched(source, matches[source.party]) for source in described[1:])]
    parties = {
        party.name: joined.parties.get(party.name)
        if party.source is not None
        else joined.main.select(list(party.columns))
        for party in request.parties
    }
    notes = [*_left_out(n_rows - main.num_rows), *joined.notes]
    valuation = _valued(request, joined.main, parties, joined.ids, work, notes)
    return _with_provenance(valuation, request, command, tuple(sources), None)


def _valued(
    request: Request,
    main: Any,
    parties: dict[str, Any],
    ids: Any,
    work: dict[str, Any],
    notes: list[str] | None = None,
) -> Valuation:
    from fedvalue.federated.options import make_options
    from fedvalue.local.value import value_tables

    protocol = (
        None if request.protocol is None else make_options(request.protocol, **request.protocol_options)
    )
    valuation = value_tables(
        label=main.select([request.label]),
        task=main.select(list(request.task)) if request.task else None,
        parties=parties,
        ids=ids,
        protocol=protocol,
        **work,
    )
    if notes:
        every = [*notes, *valuation.details.get("notes", [])]
        valuation = structs.replace(valuation, details={**valuation.details, "notes": every})
    return valuation


def _left_out(n_rows: int) -> list[str]:
    return [f"{n_rows:,} rows without a label were left out"] if n_rows else []


def _texts(request: Request, settings: ValuationSettings) -> tuple[str, ...]:
    """Columns that are text whatever they spell."""
    return (*settings.coding.categorical, *((request.id,) if request.id else ()))


def _matched(source: SourceFile, match: Match) -> SourceFile:
    return structs.replace(source, n_rows=match.n_rows, n_matched=match.n_matched)


def _with_provenance(
    valuation: Valuation,
    request: Request,
    command: str,
    sources: tuple[SourceFile, ...],
    n_rows: int | None,
) -> Valuation:
    if n_rows is not None:
        sources = tuple(structs.replace(source, n_rows=n_rows) for source in sources)
    public = structs.replace(
        request,
        source=shown(request.source),
        parties=tuple(
            party if party.source is None else structs.replace(party, source=shown(party.source))
            for party in request.parties
        ),
    )
    return structs.replace(valuation, provenance=provenance(command, public, sources))
