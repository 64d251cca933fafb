"""Results -> pages: `index.html` in the results folder, and the tables of a Markdown page.

Both are built from the `<name>.json` and `<name>.svg` files alone, so they can be rebuilt at any time.

A Markdown page holds pairs of marks, `<!-- begin fig2 -->` and `<!-- end fig2 -->`; the text between them
is made from `fig2.json`. `python -m fedvalue.paper.experiments.pages RESULTS PAGE` rewrites the page, and a
test compares the page in the repository with the results beside it.
"""

from __future__ import annotations

import base64
import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from fedvalue.errors import InputError
from fedvalue.paper.experiments.experiment import NAMES, Numbers, Table, experiment
from fedvalue.paper.experiments.store import write
from fedvalue.reports.html import templates

_MARKED = re.compile(r"(<!-- begin (\w+) -->\n).*?(<!-- end \2 -->)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Section:
    """One experiment on the page."""

    document: Numbers
    tables: list[Table]
    image: str


def write_index(folder: Path) -> Path:
    """Write `index.html` from the experiments that the folder holds, and return its path."""
    sections = []
    for name in NAMES:
        if (folder / f"{name}.json").is_file():
            document = _document(name, folder)
            drawing = base64.b64encode((folder / f"{name}.svg").read_bytes()).decode()
            tables = experiment(name).tables(document["numbers"])
            sections.append(Section(document, tables, f"data:image/svg+xml;base64,{drawing}"))
    write(folder / "index.html", render(sections))
    return folder / "index.html"


def render(sections: list[Section]) -> str:
    """The page as text."""
    verdicts = [section.document["verdict"] for section in sections]
    counts = {
        word: verdicts.count(word) for word in ("reproduced", "partly", "not reproduced") if word in verdicts
    }
    page = templates("fedvalue.paper.experiments").get_template("index.html.j2")
    return page.render(sections=sections, counts=counts)


def filled(page: str, folder: Path) -> str:
    """The Markdown page with everything between marks rebuilt from the results in a folder.

    Raises:
        InputError: A mark names no experiment, or its results are missing.
    """
    return _MARKED.sub(lambda match: match[1] + _content(match[2], folder) + match[3], page)


def _content(name: str, folder: Path) -> str:
    if name == "overview":
        rows = []
        for document in (_document(other, folder) for other in NAMES):
            words = (document[key] for key in ("title", "claim", "verdict"))
            rows.append((*words, f"{document['cpu_seconds']:,.0f}"))
        return _markdown(Table(("experiment", "the paper's claim", "verdict", "CPU seconds"), tuple(rows)))
    if name not in NAMES:
        raise InputError(f"the page marks {name!r}, which is not an experiment")
    document = _document(name, folder)
    tables = "\n".join(map(_markdown, experiment(name).tables(document["numbers"])))
    return f"**{document['verdict'].capitalize()}.** {document['measured']}\n\n{tables}"


def _document(name: str, folder: Path) -> Numbers:
    try:
        document: Numbers = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(
            f"no results of {name} in {folder}; `fedvalue reproduce {name} --out {folder}` makes them"
        ) from error
    return document


def _markdown(table: Table) -> str:
    def line(cells: tuple[str, ...]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"

    caption = f"{table.caption}:\n\n" if table.caption else ""
    rule = "|" + " --- |" * len(table.header) + "\n"
    return caption + line(table.header) + rule + "".join(map(line, table.rows))


def main(folder: str, page: str) -> None:
    """Rewrite the Markdown page."""
    path = Path(page)
    path.write_text(filled(path.read_text(encoding="utf-8"), Path(folder)), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
