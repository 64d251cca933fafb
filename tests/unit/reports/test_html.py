"""The page is one file that loads nothing, escapes strangers' names and holds every part."""

from __future__ import annotations

import itertools
import re
import stat
from html.parser import HTMLParser

import pytest
from msgspec.structs import replace

from fedvalue.errors import InputError
from fedvalue.reports import html
from fedvalue.valuation.engine import value_counts
from fedvalue.valuation.result import ColumnCoding
from fedvalue.valuation.settings import ValuationSettings
from tests.statistics.tables import informative_and_not
from tests.unit.decisions.results import result_of_values
from tests.unit.reports.worlds import four_parties

VOID = {"meta", "link"}
PARTS = ("invite", "values", "facts", "overlap", "how", "glossary")


@pytest.fixture(scope="module")
def result():
    return value_counts(informative_and_not(300), ValuationSettings(coalitions=True))


@pytest.fixture(scope="module")
def page(result):
    return html.render(result)


class Reader(HTMLParser):
    """Collects tags and checks that they close in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open, self.tags, self.headings = [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def read(page):
    reader = Reader()
    reader.feed(page)
    assert reader.open == []
    return reader


def test_page_is_well_formed_and_has_all_parts(page):
    ids = {attributes.get("id") for _, attributes in read(page).tags}
    assert set(PARTS) <= ids


def test_page_loads_nothing_and_runs_nothing(page):
    """No script, no address to load from, and a policy that forbids both."""
    for tag, attributes in read(page).tags:
        assert tag not in {"script", "iframe", "object", "embed", "img", "form"}
        assert not any(name.startswith("on") for name in attributes)
        for name in ("src", "href", "action", "data", "poster"):
            assert attributes.get(name, "#").startswith(("#", "data:,"))
    assert not re.search(r"url\(|@import|https?:", page)
    assert "default-src 'none'" in page


def test_headings_follow_each_other(page):
    headings = read(page).headings
    assert headings[0] == 1
    assert headings.count(1) == 1
    assert all(b <= a + 1 for a, b in itertools.pairwise(headings))


def test_tables_have_headers_and_pictures_have_words(page):
    reader = read(page)
    for tag, attributes in reader.tags:
        if tag == "th":
            assert attributes["scope"] in {"col", "row"}
        if attributes.get("role") == "img":
            assert attributes["aria-label"]
    assert ("html", {"lang": "en"}) in reader.tags
    assert {"main", "header", "footer"} <= {tag for tag, _ in reader.tags}


def test_names_of_strangers_are_escaped():
    name = '<script>alert("x")</script>&\'"'
    page = html.render(result_of_values([1.0, 2.0], names=[name, "b"]))
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert "<script" not in html.notebook(result_of_values([1.0, 2.0], names=[name, "b"]))


def test_same_result_gives_the_same_page(result, page):
    assert html.render(result) == page


def test_every_part_has_its_place():
    """Uplift, columns, prices and sensitivity where the result has them."""
    column = ColumnCoding(party="shop", name="spend", kind="number", n_codes=5)
    details = {"sensitivity": {"sentence": "It depends.", "runs": []}}
    result = replace(four_parties(), columns=(column,), details=details)
    prices = dict.fromkeys(result.values, 3)
    page = html.render(result, prices=prices, budget=6)
    ids = {attributes.get("id") for _, attributes in read(page).tags}
    assert {"gains", "columns", "prices", "sensitivity"} <= ids


def test_single_party_and_empty_values_have_a_page():
    for values in ([0.4], [0.0, 0.0]):
        read(html.render(result_of_values(values)))


def test_file_appears_whole_and_readable(tmp_path, result):
    path = html.write(result, tmp_path / "report.html")
    assert path.read_text(encoding="utf-8") == html.render(result)
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]
    plain = tmp_path / "plain"
    plain.touch()
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)


def test_place_that_cannot_be_written_is_refused(tmp_path, result):
    with pytest.raises(InputError, match="cannot write"):
        html.write(result, tmp_path / "missing" / "report.html")


def test_result_writes_its_own_report_and_shows_in_notebooks(tmp_path, result):
    assert result.to_html(tmp_path / "r.html").is_file()
    card = result._repr_html_()
    assert "strong" in card
    read(card)
