"""Ctrl-C: the best answer so far where there is one, and an end at once when pressed again."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from fedvalue.cli import value as command
from fedvalue.cli.progress import interruptible
from tests.cli.here import fedvalue_here

N_PARTIES = 20


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Random codes: exact values take several tasks."""
    rng = np.random.default_rng(5)
    rows = np.c_[rng.integers(0, 2, 600), rng.integers(0, 3, (600, N_PARTIES))]
    path = tmp_path / "table.csv"
    names = ["y", *(f"x{k}" for k in range(N_PARTIES))]
    np.savetxt(path, rows, fmt="%d", delimiter=",", header=",".join(names), comments="")
    return path


def press(monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    """Press Ctrl-C this many times when the first progress arrives."""

    @contextlib.contextmanager
    def bar(what: str, **_: object) -> Iterator[object]:
        left = [signal.SIGINT] * times

        def tell(done: float, total: float, note: str = "") -> None:
            while left:
                signal.raise_signal(left.pop())

        yield tell

    monkeypatch.setattr(command, "progress_bar", bar)


@pytest.mark.parametrize("method", ["exact", "sampled"])
def test_once_gives_the_values_so_far_with_their_error(
    table: Path, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    press(monkeypatch, 1)
    ran = fedvalue_here(
        "value",
        table,
        "--label",
        "y",
        "--each",
        "--method",
        method,
        "--permutations",
        "50000",
        "--no-statistics",
    )
    assert ran.code == 0
    assert "Ctrl-C again leaves at once" in ran.err
    assert "stopped by hand" in ran.out
    assert "sampling error" in ran.out
    assert all(f"x{k}" in ran.out for k in range(N_PARTIES))


@pytest.mark.parametrize("method", ["exact", "sampled"])
def test_twice_leaves_at_once(table: Path, method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    press(monkeypatch, 2)
    ran = fedvalue_here("value", table, "--label", "y", "--each", "--method", method)
    assert ran.code == 130
    assert ran.err.endswith("fedvalue: stopped\n")
    assert ran.out == ""


def test_before_there_is_anything_to_keep_it_leaves_at_once(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr("fedvalue.local.value_request.read_table", interrupted)
    ran = fedvalue_here("value", table, "--label", "y", "--each")
    assert ran.code == 130
    assert ran.err == "fedvalue: stopped\n"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_ctrl_c_that_a_script_ignores_stays_ignored() -> None:
    """As a shell does for a command behind & in a script."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with interruptible() as stop, stop.offered():
            signal.raise_signal(signal.SIGINT)
            assert not stop.asked
    finally:
        signal.signal(signal.SIGINT, before)
