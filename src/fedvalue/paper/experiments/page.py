"""The results folder -> `index.html`, one self-contained page.

The page is made from the `<name>.json` and `<name>.svg` files alone, so it can be made again at any
time, and shows every experiment that has been run into the folder.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedvalue.paper.experiments.base import Numbers, Table
from fedvalue.paper.experiments.registry import NAMES, experiment
from fedvalue.paper.experiments.store import write

if TYPE_CHECKING:
    from jinja2 import Template


@dataclass(frozen=True, slots=True)
class Section:
    """What the page shows of one experiment."""

    document: Numbers
    tables: list[Table]
    image: str


def write_index(folder: Path) -> Path:
    """Write `index.html` from what the folder holds, and return its path."""
    path = folder / "index.html"
    write(path, render(sections(folder)))
    return path


def sections(folder: Path) -> list[Section]:
    """The experiments that the folder holds, in the paper's order."""
    found = []
    for name in NAMES:
        file = folder / f"{name}.json"
        if file.is_file():
            document = json.loads(file.read_text(encoding="utf-8"))
            drawing = (folder / f"{name}.svg").read_bytes()
            image = "data:image/svg+xml;base64," + base64.b64encode(drawing).decode()
            found.append(Section(document, experiment(name).tables(document["numbers"]), image))
    return found


def render(found: list[Section]) -> str:
    """The page as text."""
    first: dict[str, Any] = found[0].document if found else {}
    verdicts = [section.document["verdict"] for section in found]
    counts = {
        word: verdicts.count(word) for word in ("reproduced", "partly", "not reproduced") if word in verdicts
    }
    return _template().render(sections=found, first=first, counts=counts)


@cache
def _template() -> Template:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("fedvalue.paper.experiments", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("index.html.j2")
