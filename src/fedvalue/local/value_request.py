"""The valuation of the files in a request: in memory, streamed, added to a state, or joined by id.

The result contains its provenance, so that the same request can be repeated.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import structs

from fedvalue.engines import HERE, Execution
from fedvalue.errors import InputError
from fedvalue.local.origin import described_source, provenance, with_notes, with_sources
from fedvalue.local.party_files import join_by_id
from fedvalue.tables.parts import shown, with_labels
from fedvalue.tables.party_table import check_ids
from fedvalue.tables.sources import read_table, reading_notes, refuse_unknown_columns
from fedvalue.valuation.provenance import Request, SourceFile

if TYPE_CHECKING:
    from fedvalue.tables.column_report import CodedColumns
    from fedvalue.valuation.result import Valuation
    from fedvalue.valuation.settings import ValuationSettings


def value_request(
    request: Request,
    settings: ValuationSettings,
    *,
    state: Path | None = None,
    command: str = "",
    execution: Execution = HERE,
    coded: Callable[[CodedColumns], None] | None = None,
) -> Valuation:
    """Value the files of a request.

    With `state`, the rows are added to the counts in that file. The `command` line goes into the provenance.
    `coded` is called once the columns are coded, before they are valued.

    Raises:
        InputError: Options that exclude each other, or wrong data.
    """
    from fedvalue.local.streaming import stream_by_default, value_files

    if request.protocol_options and request.protocol is None:
        raise InputError(f"{', '.join(sorted(request.protocol_options))}: only with --protocol")
    if state is not None and not request.one_source:
        raise InputError("--state adds the rows of one source: it cannot be used with a file per party")
    if state is not None and request.protocol is not None:
        raise InputError("--state keeps plain counts: it cannot be used with --protocol")
    if not request.one_source and request.id is None:
        raise InputError("files of several parties are joined by id: name its column with --id")
    named = [
        *request.columns,
        *(column for party in request.parties if party.source for column in party.columns),
    ]
    refuse_unknown_columns(settings.coding.categorical, named, "--categorical")
    plain = request.one_source and request.protocol is None
    if state is not None or (plain and stream_by_default(request.source)):
        source = described_source(request.source, "", request.options_of())
        valuation = value_files(
            request.source,
            label=request.label,
            task=request.task,
            parties={party.name: party.columns for party in request.parties},
            settings=settings,
            options=request.options_of(),
            state=state,
            execution=execution,
            coded=coded,
        )
        sources = [structs.replace(source, n_rows=valuation.n_samples)]
        valuation = with_notes(valuation, before=reading_notes(request.source, request.options_of()))
        if request.id:
            note = "the source was streamed: its ids were not checked for duplicates"
            valuation = with_notes(valuation, after=(note,))
    else:
        valuation, sources = _in_memory(request, settings, execution, coded)
    public = with_sources(request, shown(request.source), lambda source, _: shown(source))  # no passwords
    return structs.replace(valuation, provenance=provenance(command, public, tuple(sources)))


def _in_memory(
    request: Request,
    settings: ValuationSettings,
    execution: Execution,
    coded: Callable[[CodedColumns], None] | None,
) -> tuple[Valuation, list[SourceFile]]:
    """Read the files, join those of parties by id, and value the tables."""
    from fedvalue.local.value import value_tables

    # Columns that stay text even where all values are numbers or dates.
    texts = (*settings.coding.categorical, *((request.id,) if request.id else ()))
    source = described_source(request.source, "", request.options_of())
    main = read_table(request.source, request.columns, text_columns=texts, options=request.options_of())
    sources = [structs.replace(source, n_rows=main.num_rows)]
    notes = reading_notes(request.source, request.options_of())
    if settings.coding.clean_labels:
        n_rows = main.num_rows
        main = with_labels(main, request.label)
        if main.num_rows < n_rows:
            notes.append(f"{n_rows - main.num_rows:,} rows without a label were left out")
    own_files: dict[str, tuple[Any, str]] = {}
    for party in request.parties:
        if party.source is None or request.id is None:
            continue
        options, key = request.options_of(party.name), party.id or request.id
        sources.append(described_source(party.source, party.name, options))
        notes += reading_notes(party.source, options)
        table = read_table(party.source, [key, *party.columns], text_columns=(*texts, key), options=options)
        own_files[party.name] = (table, key)
    ids = main.column(request.id) if request.id else None
    parties: dict[str, Any] = {}
    if own_files and request.id is not None:
        joined = join_by_id(main, request.id, own_files)
        main, parties, ids = joined.main, joined.parties, joined.ids
        notes += joined.notes
        sources[1:] = [
            structs.replace(source, n_rows=match.n_rows, n_matched=match.n_matched)
            for source, match in zip(sources[1:], joined.matches, strict=True)
        ]
    elif request.id:
        check_ids(ids, name=request.id)
    protocol = None
    if request.protocol is not None:
        from fedvalue.federated.options import make_options  # loads the compiler

        protocol = make_options(request.protocol, **request.protocol_options)
    valuation = value_tables(
        label=main.select([request.label]),
        task=main.select(list(request.task)) if request.task else None,
        parties={
            party.name: parties[party.name] if party.name in parties else main.select(list(party.columns))
            for party in request.parties
        },
        ids=ids,
        protocol=protocol,
        settings=settings,
        execution=execution,
        coded=coded,
    )
    return with_notes(valuation, before=notes), sources
