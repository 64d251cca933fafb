"""`fedvalue datasets`: which data sets are on this machine, and how to get the others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from fedvalue.datasets.catalogue import Entry
    from fedvalue.datasets.locate import Place


def datasets(
    download: Annotated[
        list[str] | None,
        typer.Option(
            help="Fetch a data set into your cache, or all that may be fetched.", metavar="NAME|all"
        ),
    ] = None,
    json_file: Annotated[
        str | None, typer.Option("--json", help="Print the list as JSON (- for stdout).", metavar="FILE")
    ] = None,
) -> None:
    """List the paper's six data sets and the benchmark's other three: where they are, how to get them.

    Looked for in the folder named by FEDVALUE_DATA, in ../shared/data beside a checkout, in your cache,
    then in scikit-learn (Wine, Breast and Digits). Nothing is downloaded unless you ask for it.
    """
    from fedvalue.cli.terminal import say, wrote_json
    from fedvalue.datasets import locate

    for entry in _asked_for(download or []):
        say(f"{entry.name}: {entry.origin}; licence: {entry.licence}")
        say(f"{entry.name}: kept as {locate.download(entry)}")
    status = locate.status()
    if not wrote_json(_as_data(status), json_file, "list"):
        _show(status)


def _asked_for(names: list[str]) -> list[Entry]:
    from fedvalue.datasets import locate
    from fedvalue.datasets.catalogue import CATALOGUE, entry

    if "all" in names:
        return [one for one in CATALOGUE.values() if one.urls and locate.find(one) is None]
    return [entry(name) for name in names]


def _as_data(status: list[tuple[Entry, Place | None]]) -> list[dict[str, Any]]:
    return [
        {
            "name": entry.name, "n_samples": entry.n_samples, "n_features": entry.n_features,
            "n_labels": entry.n_labels, "origin": entry.origin, "licence": entry.licence,
            "found": None if place is None else str(place),
        }
        for entry, place in status
    ]  # fmt: skip


def _show(status: list[tuple[Entry, Place | None]]) -> None:
    from fedvalue.cli.terminal import print_line, print_table
    from fedvalue.datasets.locate import missing_message

    print_table(
        ("data set", "rows", "features", "labels", "found"),
        [
            (
                entry.name, f"{entry.n_samples:,}", str(entry.n_features), str(entry.n_labels),
                "missing" if place is None else str(place),
            )
            for entry, place in status
        ],
        left=(0, 4),
    )  # fmt: skip
    for entry, _ in status:
        print_line(f"{entry.name}: {entry.origin}. Licence: {entry.licence}.")
    for entry, place in status:
        if place is None:
            print_line(missing_message(entry))
