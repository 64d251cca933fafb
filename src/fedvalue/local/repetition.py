"""Repeating the valuation of an earlier result, on the same files or on another."""

from __future__ import annotations

from pathlib import Path

from msgspec import structs

from fedvalue.errors import InputError
from fedvalue.local.origin import source_sha256
from fedvalue.tables.sources import source_files
from fedvalue.valuation.provenance import Request
from fedvalue.valuation.result import Valuation
from fedvalue.valuation.settings import ValuationSettings


def repeated_request(
    earlier: Valuation, path: Path, data: str | None = None
) -> tuple[Request, ValuationSettings]:
    """What an earlier result was asked for.

    Args:
        earlier: The result.
        path: Its file; sources that are not found from here are looked for beside it.
        data: Another file with the label, to be valued in the same way.

    Raises:
        InputError: The result does not say where it comes from, or a file is gone or has changed.
    """
    record = earlier.provenance
    if record is None or record.request is None or earlier.settings is None:
        raise InputError(
            f"{path}: does not say which files it comes from, so it cannot be repeated; results of "
            "`fedvalue value` do"
        )
    request = record.request
    digests = {source.party: source.sha256 for source in record.sources}
    if data is None:
        request = structs.replace(request, source=_unchanged(request.source, digests.get(""), path))
    else:
        request = structs.replace(request, source=data)
    parties = tuple(
        party
        if party.source is None
        else structs.replace(party, source=_unchanged(party.source, digests.get(party.name), path))
        for party in request.parties
    )
    return structs.replace(request, parties=parties), earlier.settings


def _unchanged(source: str, sha256: str | None, result: Path) -> str:
    """Where the source is now, if its content is the same."""
    if sha256 is None:  # a database: nobody knows
        return source
    beside = result.parent / source
    place = source if Path(source).exists() or not beside.exists() else str(beside)
    source_files(place)  # refuses a file that is gone
    if source_sha256(place) != sha256:
        raise InputError(
            f"{place}: has changed since {result} was computed; name a file as DATA to value it in the same "
            "way"
        )
    return place
