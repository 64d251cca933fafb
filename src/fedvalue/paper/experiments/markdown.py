"""Keep the tables of a Markdown page equal to the results they come from.

A page holds pairs of marks, `<!-- begin fig2 -->` and `<!-- end fig2 -->`; what stands between them is
made from `fig2.json`. `python -m fedvalue.paper.experiments.markdown RESULTS PAGE` rewrites the page, and a
test compares the page in the repository with the results beside it.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from fedvalue.errors import InputError
from fedvalue.paper.experiments.base import Numbers, Table
from fedvalue.paper.experiments.registry import NAMES, experiment

_MARKED = re.compile(r"(<!-- begin (\w+) -->\n).*?(<!-- end \2 -->)", re.DOTALL)


def filled(page: str, folder: Path) -> str:
    """The page with everything between marks rebuilt from the results in a folder.

    Raises:
        InputError: A mark names no experiment, or its results are missing.
    """
    return _MARKED.sub(lambda match: match[1] + _content(match[2], folder) + match[3], page)


def _content(name: str, folder: Path) -> str:
    if name == "overview":
        return _table(_overview([_document(other, folder) for other in NAMES]))
    if name not in NAMES:
        raise InputError(f"the page has a mark {name!r}, which is no experiment")
    document = _document(name, folder)
    tables = experiment(name).tables(document["numbers"])
    return f"**{document['verdict'].capitalize()}.** {document['measured']}\n\n" + "\n".join(
        map(_table, tables)
    )


def _document(name: str, folder: Path) -> Numbers:
    try:
        found: Numbers = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(
            f"no results of {name} in {folder}; `fedvalue reproduce {name} --out {folder}` makes them"
        ) from error
    return found


def _overview(documents: list[Numbers]) -> Table:
    rows = [
        (document["title"], document["claim"], document["verdict"], f"{document['cpu_seconds']:,.0f}")
        for document in documents
    ]
    return Table(("experiment", "the paper's claim", "verdict", "CPU seconds"), tuple(rows))


def _table(table: Table) -> str:
    def line(cells: tuple[str, ...]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"

    caption = f"{table.caption}:\n\n" if table.caption else ""
    rule = "|" + " --- |" * len(table.header) + "\n"
    return caption + line(table.header) + rule + "".join(map(line, table.rows))


def main(folder: str, page: str) -> None:
    """Rewrite the page."""
    path = Path(page)
    path.write_text(filled(path.read_text(encoding="utf-8"), Path(folder)), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
