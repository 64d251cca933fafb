"""What the documents say about the program is what the program says about itself."""

from __future__ import annotations

import re
from pathlib import Path

from fedvalue.cli import exit_codes

ROOT = Path(__file__).resolve().parents[2]


def test_the_table_of_exit_codes_is_the_programs() -> None:
    text = (ROOT / "docs" / "reference.md").read_text()
    rows = dict(re.findall(r"^\| (\d+) \| (.+) \|$", text, flags=re.MULTILINE))
    assert {int(code): meaning for code, meaning in rows.items()} == exit_codes.MEANINGS


def test_local_links_in_the_documents_lead_somewhere() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    broken = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in pages
        for target in re.findall(r"\]\((?!https?:|mailto:|#)([^)#\s]+)", page.read_text())
        if not (page.parent / target).exists()
    ]
    assert not broken
