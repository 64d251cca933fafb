"""Progress never calls the time so far the time left, and compiling is mentioned when it happens."""

from __future__ import annotations

import pytest

import fedvalue.compiled
from fedvalue.cli.progress import COMPILING, SlowLines, progress_bar, time_text
from fedvalue.compile_notice import on_first_compilation


@pytest.mark.parametrize(
    ("elapsed", "remaining", "percentage", "text"),
    [
        (27.0, None, 0.0, "0:27 so far"),
        (27.0, 0.0, 0.0, "0:27 so far"),
        (27.0, 63.0, 30.0, "1:03 left"),
        (27.0, 7265.0, 1.0, "2:01:05 left"),
        (None, None, 0.0, "0:00 so far"),
    ],
)
def test_time_is_called_what_it_is(elapsed, remaining, percentage, text):
    assert time_text(elapsed, remaining, percentage) == text


def test_compiling_is_announced_once_and_a_compiled_function_is_not():
    @fedvalue.compiled.njit
    def double(x):
        return 2 * x

    told = []
    with on_first_compilation(lambda: told.append("compiling")):
        double(1)
        double(1.5)
    assert told == ["compiling"]
    with on_first_compilation(lambda: told.append("again")):
        double(2)
    assert told == ["compiling"]


def test_where_there_is_no_terminal_compiling_is_a_line(capsys):
    @fedvalue.compiled.njit
    def triple(x):
        return 3 * x

    with progress_bar("valuing", watch_compiling=True) as progress:
        progress(0.0, 1.0, "work")
        triple(1)
    assert capsys.readouterr().err == f"{COMPILING}\n"


def test_slow_work_without_a_terminal_says_so_ever_more_rarely_with_the_time_left(capsys):
    """Half of the work in 40 s: 40 s are left. A new stage starts its own estimate."""
    now = [0.0]
    lines = SlowLines("valuing", clock=lambda: now[0])
    for seconds, done in ((10.0, 10), (29.0, 30), (40.0, 50), (50.0, 60), (70.0, 5), (80.0, 20)):
        now[0] = seconds
        lines.report(float(done), 100.0, "learnable values")
    assert capsys.readouterr().err.splitlines() == [
        "valuing: learnable values, 50%, 0:40 left",
        "valuing: learnable values, 5%, 1:10 so far",
    ]


def test_quick_work_without_a_terminal_says_nothing(capsys):
    with progress_bar("valuing") as progress:
        progress(1.0, 2.0, "work")
        progress(2.0, 2.0, "work")
    assert capsys.readouterr().err == ""
