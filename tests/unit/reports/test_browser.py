"""The report in a real browser: its parts, no error, no request, readable by everybody."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from msgspec.structs import replace

from fedvalue.errors import InputError
from fedvalue.reports import html
from fedvalue.valuation.result import ColumnCoding
from tests.support.processes import PATIENCE
from tests.unit.reports.worlds import four_parties

pytestmark = pytest.mark.browser

CONTRAST = """() => {
  const parse = c => {
    const m = c.match(/[\\d.]+/g).map(Number), scale = c.startsWith('color(srgb') ? 255 : 1;
    return [m[0] * scale, m[1] * scale, m[2] * scale, m[3] ?? 1];
  };
  const over = (a, b) => [0, 1, 2].map(k => a[k] * a[3] + b[k] * (1 - a[3])).concat(1);
  const linear = v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
  const luminance = c => .2126 * linear(c[0]/255) + .7152 * linear(c[1]/255) + .0722 * linear(c[2]/255);
  const behind = e => {
    const stack = [];
    for (; e; e = e.parentElement) {
      const colour = parse(getComputedStyle(e).backgroundColor);
      stack.push(colour);
      if (colour[3] === 1) break;
    }
    return stack.reverse().reduce((below, c) => over(c, below), [255, 255, 255, 1]);
  };
  const out = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const text = walker.currentNode.textContent.trim(), e = walker.currentNode.parentElement;
    if (!text || !e.getClientRects().length) continue;
    const style = getComputedStyle(e), svg = e instanceof SVGElement;
    const back = behind(svg ? e.closest('figure') : e);
    const front = over(parse(svg ? style.fill : style.color), back);
    const [a, b] = [luminance(front), luminance(back)];
    const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    if (ratio < 4.5) out.push([text, ratio]);
  }
  return out;
}"""
"""Texts whose contrast with what is behind them is below 4.5 (WCAG 2.2, AA)."""


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    program = shutil.which("chromium") or shutil.which("chromium-browser")
    with sync_playwright() as play:
        chromium = play.chromium.launch(
            executable_path=program,
            args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"],
            timeout=1000 * PATIENCE,
        )
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """Every part of the report, with a long name that must not widen the page."""
    long = "a_party_with_a_very_long_name_without_any_space_in_it_at_all"
    result = four_parties()
    parties = (*result.parties[:3], replace(result.parties[3], name=long, flags=("memorised",)))
    columns = (ColumnCoding(party=long, name=long, kind="number", n_codes=5, coding="0 | 1 | 2 | 3 | more"),)
    result = replace(result, parties=parties, columns=columns, warnings=("The label is rare.",))
    prices = {"telco": 1200, "shop": 400, "insurer": 500, long: 10}
    return html.write(result, tmp_path_factory.mktemp("report") / "r.html", prices=prices, budget=1500)


@pytest.fixture(params=["desktop", "phone", "dark"])
def page(request, browser, report):
    size = {"width": 390, "height": 844} if request.param == "phone" else {"width": 1200, "height": 900}
    scheme = "dark" if request.param == "dark" else "light"
    page = browser.new_page(viewport=size, color_scheme=scheme)
    page.set_default_timeout(1000 * PATIENCE)
    page.seen = []
    page.on("console", lambda message: page.seen.append(f"console: {message.text}"))
    page.on("pageerror", lambda error: page.seen.append(f"error: {error}"))
    page.on("request", lambda sent: page.seen.append(sent.url))
    page.goto(report.as_uri())
    yield page
    page.close()


def test_page_shows_its_parts_and_asks_nobody_for_anything(page, report):
    page.wait_for_load_state("networkidle")
    for title in (
        "With a budget of 1,500, invite", "Whom to invite", "Best value for the money",
        "What each party is worth", "Worth knowing", "What a model would gain", "Which parties overlap",
        "What was asked",
        "How it was computed, and what was protected", "How each column was read", "In plain words",
    ):  # fmt: skip
        assert page.get_by_role("heading", name=title).is_visible()
    assert page.locator(".row:not(.scale) rect.step").count() == 4
    assert page.locator(".values rect.solid").count() == 4
    assert page.locator("figure.curve path.line").bounding_box()["width"] > 100
    assert page.seen == [report.as_uri()]


def test_nothing_sticks_out_of_the_window(page):
    """No sideways scrolling, neither of the page nor of anything on it."""
    wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert wide <= 0
    right = page.evaluate(
        "Math.max(...[...document.querySelectorAll('main *')].filter(e => !e.closest('thead, .hidden'))"
        ".map(e => e.getBoundingClientRect().right))"
    )
    assert right <= page.viewport_size["width"]


def test_every_text_has_enough_contrast(page):
    assert page.evaluate(CONTRAST) == []
    page.evaluate("document.querySelector('.about').style.color = '#777'")
    assert len(page.evaluate(CONTRAST)) == 1, "the check must see a text that is too pale"


def test_keyboard_reaches_the_skip_link(page):
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    assert page.locator(".skip").bounding_box()["x"] >= 0


def test_landmarks_and_names_are_there_for_screen_readers(page):
    for role in ("banner", "main", "contentinfo"):
        assert page.get_by_role(role).count() == 1
    assert page.locator("table").count() == 4
    for picture in page.get_by_role("img").all():
        assert picture.get_attribute("aria-label")


def test_page_prints_in_light_colours(browser, report, tmp_path):
    page = browser.new_page(color_scheme="dark")
    page.set_default_timeout(1000 * PATIENCE)
    page.goto(report.as_uri())
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    page.pdf(path=tmp_path / "r.pdf", format="A4", print_background=True)
    assert (tmp_path / "r.pdf").read_bytes().startswith(b"%PDF")
    page.close()


@pytest.mark.skipif(shutil.which("pdftotext") is None, reason="pdftotext (poppler-utils) is not installed")
def test_the_report_is_a_pdf_with_its_sentences(report, tmp_path):
    """Printed by the browser of this machine: real pages with real text, not a picture."""
    result = four_parties()
    path = html.write(result, tmp_path / "r.pdf")
    assert path.read_bytes().startswith(b"%PDF")
    words = subprocess.run(["pdftotext", path, "-"], capture_output=True, text=True, check=True).stdout
    text = " ".join(words.split())
    assert "Invite insurer, shop and telco: together they avoid 46 of 190 wrong decisions" in text
    assert "In plain words" in text
    assert [p.name for p in tmp_path.iterdir()] == ["r.pdf"]


def test_without_a_browser_the_message_says_what_to_do(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match=r"needs Chromium, Chrome or Edge.* write an \.html file"):
        html.write(four_parties(), tmp_path / "r.pdf")
    assert list(tmp_path.iterdir()) == []


def test_a_browser_that_prints_nothing_is_named(monkeypatch, tmp_path):
    fake = tmp_path / "chromium"
    fake.write_text("#!/bin/sh\nexit 1\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    with pytest.raises(InputError, match="chromium printed nothing"):
        html.write(four_parties(), tmp_path / "r.pdf")
