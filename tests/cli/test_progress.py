"""Progress never calls the time so far the time left, and compiling is mentioned when it happens."""

from __future__ import annotations

import numba
import pytest

from fedvalue.cli.progress import COMPILING, on_first_compilation, progress_bar, time_text


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
    @numba.njit
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
    @numba.njit
    def triple(x):
        return 3 * x

    with progress_bar("valuing", watch_compiling=True) as progress:
        progress(0.0, 1.0, "work")
        triple(1)
    assert capsys.readouterr().err == f"{COMPILING}\n"
