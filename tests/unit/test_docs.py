"""What the documents say about the program is what the program says about itself."""

from __future__ import annotations

import re
from pathlib import Path

from fedvalue.agreement.explanation import _PROTOCOLS
from fedvalue.cli import exit_codes
from fedvalue.reports.wording import PROTECTION

ROOT = Path(__file__).resolve().parents[2]


def test_the_table_of_exit_codes_is_the_programs() -> None:
    text = (ROOT / "docs" / "reference.md").read_text()
    rows = dict(re.findall(r"^\| (\d+) \| (.+) \|$", text, flags=re.MULTILINE))
    assert {int(code): meaning for code, meaning in rows.items()} == exit_codes.MEANINGS


REFUTED = (
    "rows stay home",
    "rows stay at home",
    "columns cannot be assigned",
    "neither ids nor what a code means",
    "neither ids nor the meaning of values",
    "a lie of a single server is detected",
    "half of what would reveal a table",
    "every combination of the task party's attributes",
    "combination of the task party's features, with fewer than",
    "the attack mostly fails",
)
"""Sentences that a review showed to be false, in lower case."""


def test_no_page_and_no_report_repeats_what_a_review_refuted() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "integrations").rglob("*.md")]
    texts = {str(page.relative_to(ROOT)): page.read_text() for page in pages}
    texts |= {f"a report of {protocol}": text for protocol, text in PROTECTION.items()}
    said = [
        f"{where}: {sentence}"
        for where, text in texts.items()
        for sentence in REFUTED
        if sentence in " ".join(text.lower().split())
    ]
    assert not said


def test_a_report_says_what_servers_see_as_the_agreement_does() -> None:
    agreed = _PROTOCOLS["mirror"].lower()
    for words in (
        "every row of the joint table under secret names",
        "may guess what most columns and codes mean",
        "if a single server cheats and the parties are honest, the comparison detects",
    ):
        assert words in agreed
        assert words in PROTECTION["mirror"].lower()


def test_local_links_in_the_documents_lead_somewhere() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    broken = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in pages
        for target in re.findall(r"\]\((?!https?:|mailto:|#)([^)#\s]+)", page.read_text())
        if not (page.parent / target).exists()
    ]
    assert not broken
