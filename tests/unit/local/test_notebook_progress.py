"""A bar appears in notebooks alone, after a moment, and without markup of others."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from fedvalue.local import notebook_progress
from fedvalue.local.notebook_progress import bar_html, in_notebook, notebook_bar


def test_a_plain_process_is_no_notebook(monkeypatch):
    """Nor is IPython on a terminal."""
    assert not in_notebook()
    kernel = type("ZMQInteractiveShell", (), {})()
    terminal = type("TerminalInteractiveShell", (), {})()
    for shell, answer in ((kernel, True), (terminal, False), (None, False)):
        monkeypatch.setitem(
            __import__("sys").modules, "IPython", SimpleNamespace(get_ipython=lambda s=shell: s)
        )
        assert in_notebook() is answer


def test_the_bar_shows_its_share_and_note_without_markup():
    """Also where the total is not known yet."""
    assert bar_html(1, 4, "<b>") == '<progress value="0.250" max="1"></progress> 25% &lt;b&gt;'
    assert "0%" in bar_html(0, 0)


def test_short_work_shows_no_bar_and_long_work_removes_it(monkeypatch):
    """Displayed once, then updated."""
    pytest.importorskip("IPython")
    shown: list[str] = []
    handle = SimpleNamespace(update=lambda html: shown.append(html.data))

    def display(html, **_):
        shown.append(html.data)
        return handle

    monkeypatch.setattr("IPython.display.display", display)
    clock = iter([0.0, 0.9, 0.0, 2.0, 2.1, 3.0])
    monkeypatch.setattr(notebook_progress.time, "monotonic", lambda: next(clock))
    with notebook_bar() as report:
        report(1, 2)
    assert shown == []
    with notebook_bar() as report:
        report(1, 4, "counting")
        report(2, 4)
        report(3, 4)
    assert [text[:24] for text in shown] == ['<progress value="0.250" ', '<progress value="0.750" ', ""]
