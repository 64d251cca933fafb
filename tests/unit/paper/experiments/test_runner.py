"""Running, stopping, continuing and refusing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from fedvalue.datasets import locate
from fedvalue.errors import EngineError, InputError
from fedvalue.paper.experiments import pages, runner
from fedvalue.paper.experiments.runner import reproduce
from tests.support.processes import PATIENCE, until
from tests.unit.paper.experiments import toy


@pytest.fixture(autouse=True)
def no_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """The page asks the real experiment for its tables; the toy has other numbers."""
    monkeypatch.setattr(runner, "write_index", lambda folder: None)


def test_results_are_written_and_a_second_run_computes_nothing(tmp_path: Path) -> None:
    trace, out = tmp_path / "trace", tmp_path / "out"
    (document,) = reproduce([toy.Toy(trace)], profile="quick", out=out, workers=0)
    assert document["numbers"] == {"total": 14}
    assert document["verdict"] == "reproduced"
    assert json.loads((out / "table1.json").read_text()) == document
    assert (out / "table1.svg").read_text().startswith("<?xml")
    assert sorted(toy.calls(trace)) == [0, 1, 2, 3]
    (again,) = reproduce([toy.Toy(trace)], profile="quick", out=out, workers=0)
    assert again["numbers"] == document["numbers"]
    assert len(toy.calls(trace)) == 4


def test_the_document_says_how_it_was_made(tmp_path: Path) -> None:
    (document,) = reproduce([toy.Toy(tmp_path / "t")], profile="paper", out=tmp_path / "o", seed=7, workers=0)
    assert document["schema"] == "fedvalue.experiment/1"
    assert (document["profile"], document["seed"]) == ("paper", 7)
    assert {"fedvalue", "python", "numpy", "numba", "scikit-learn"} <= set(document["versions"])
    assert document["settings"]["square/3"]["x"] == 3


def test_processes_give_the_same_numbers(tmp_path: Path) -> None:
    (document,) = reproduce([toy.Toy(tmp_path / "t")], profile="quick", out=tmp_path / "o", workers=2)
    assert document["numbers"] == {"total": 14}
    stored = [json.loads(path.read_text()) for path in (tmp_path / "o/units").iterdir()]
    assert os.getpid() not in {record["result"]["pid"] for record in stored}


def test_a_wrong_number_in_a_stored_piece_changes_the_verdict(tmp_path: Path) -> None:
    out = tmp_path / "out"
    reproduce([toy.Toy(tmp_path / "t")], profile="quick", out=out, workers=0)
    path = out / "units/square.3.json"
    record = json.loads(path.read_text())
    record["result"]["square"] = 10
    path.write_text(json.dumps(record))
    (document,) = reproduce([toy.Toy(tmp_path / "t")], profile="quick", out=out, workers=0)
    assert document["verdict"] == "not reproduced"


def test_a_piece_with_other_settings_is_computed_again(tmp_path: Path) -> None:
    out, trace = tmp_path / "out", tmp_path / "t"
    reproduce([toy.Toy(trace)], profile="quick", out=out, workers=0)
    reproduce([toy.Toy(trace, seconds=0.001)], profile="quick", out=out, workers=0)
    assert len(toy.calls(trace)) == 8


@pytest.mark.parametrize("workers", [0, 1])
def test_a_failed_piece_is_named_and_finished_ones_are_kept(tmp_path: Path, workers: int) -> None:
    out, trace = tmp_path / "out", tmp_path / "t"
    broken = toy.Toy(trace, {3: toy.fail})
    with pytest.raises(InputError, match="square/3: 3 cannot be squared"):
        reproduce([broken], profile="quick", out=out, workers=workers)
    assert not (out / "table1.json").exists()
    reproduce([toy.Toy(trace)], profile="quick", out=out, workers=0)
    assert sorted(toy.calls(trace)) == [0, 1, 2, 3]


def test_a_worker_that_dies_is_an_engine_error(tmp_path: Path) -> None:
    broken = toy.Toy(tmp_path / "t", {0: toy.die})
    with pytest.raises(EngineError, match="a worker process died"):
        reproduce([broken], profile="quick", out=tmp_path / "o", workers=1)


def test_progress_rises_to_the_predicted_total(tmp_path: Path) -> None:
    reported: list[tuple[float, float]] = []

    def progress(done: float, total: float, note: str = "") -> None:
        reported.append((done, total))

    reproduce([toy.Toy(tmp_path / "t")], profile="quick", out=tmp_path / "o", workers=0, progress=progress)
    assert reported == [(0, 4), (1, 4), (2, 4), (3, 4), (4, 4)]


def assert_gone(pid: int) -> None:
    def gone() -> bool:
        try:
            return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return True

    until(gone, what=f"the end of process {pid}")


SCRIPT = """
import sys
from pathlib import Path
from fedvalue.paper.experiments import runner
from tests.unit.paper.experiments import toy
runner.write_index = lambda folder: None
if __name__ == "__main__":
    trace, out = Path(sys.argv[1]), Path(sys.argv[2])
    experiment = toy.Toy(trace, n=12)
    runner.reproduce([experiment], profile="quick", out=out, workers=int(sys.argv[3]))
"""


@pytest.mark.parametrize(("how", "workers"), [(signal.SIGKILL, 1), (signal.SIGINT, 0)])
def test_a_killed_run_continues_where_it_was(tmp_path: Path, how: signal.Signals, workers: int) -> None:
    """Only the piece that was being computed is computed again, and no worker is left behind."""
    trace, out, script = tmp_path / "t", tmp_path / "out", tmp_path / "run.py"
    script.write_text(SCRIPT)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "STOP_AT": "4"}
    process = subprocess.Popen(
        [sys.executable, str(script), str(trace), str(out), str(workers)],
        env=environment,
        stderr=subprocess.DEVNULL,
    )

    def finished() -> set[str]:
        return {path.name for path in (out / "units").glob("[!.]*")}

    until(
        lambda: len(toy.calls(trace)) == 4 and len(finished()) == 3,
        what="three pieces stored and the call that does not end",
    )
    process.send_signal(how)
    process.wait(PATIENCE)
    stored = [json.loads(path.read_text()) for path in (out / "units").glob("square*")]
    for pid in {record["result"]["pid"] for record in stored}:
        assert_gone(pid)
    started = toy.calls(trace)
    assert len(started) == 4
    kept = finished()
    assert len(kept) == 3
    before = {name: (out / "units" / name).stat().st_mtime_ns for name in kept}
    (document,) = reproduce([toy.Toy(trace, n=12)], profile="quick", out=out, workers=0)
    assert document["verdict"] == "reproduced"
    assert len(toy.calls(trace)) == len(started) + 12 - len(kept)
    assert before == {name: (out / "units" / name).stat().st_mtime_ns for name in kept}


def test_unknown_profile_and_negative_seed_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="profile must be one of quick, paper, got 'fast'"):
        reproduce([], profile="fast", out=tmp_path / "o")
    with pytest.raises(InputError, match="seed must not be negative, got -1"):
        reproduce([], profile="quick", out=tmp_path / "o", seed=-1)


def test_missing_data_sets_are_named_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locate, "find", lambda entry: None)
    with pytest.raises(InputError, match=r"--download wine.*kaggle"):
        reproduce([toy.NeedyToy(tmp_path / "t")], profile="quick", out=tmp_path / "o")
    assert not (tmp_path / "o").exists()


def test_a_missing_data_set_is_left_out_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The toy's pieces 0 to 3 read wine, music, wine, music; music is not there."""
    monkeypatch.setattr(locate, "find", lambda entry: None if entry.name == "music" else tmp_path)
    (document,) = reproduce([toy.NeedyToy(tmp_path / "t")], profile="quick", out=tmp_path / "o", workers=0)
    assert document["numbers"] == {"total": 4}
    assert document["data"] == ["wine"]
    assert "kaggle" in document["missing"]["music"]
    assert document["verdict"] == "partly"
    assert document["measured"] == "On 1 of 2 data sets (not on this machine: Music): 0 + 4."


def test_page_shows_each_experiment_and_loads_nothing_from_elsewhere() -> None:
    section = pages.Section(
        {
            "name": "table1", "title": "Table 1. A <toy>", "claim": "a claim", "measured": "0 < 1",
            "verdict": "partly", "profile": "quick", "seed": 0, "date": "2026-11-16",
            "versions": {"fedvalue": "1"}, "notes": ["a note"], "cpu_seconds": 1.0,
        },
        [],
        "data:image/svg+xml;base64,AAAA",
    )  # fmt: skip
    text = pages.render([section])
    assert "0 &lt; 1" in text
    assert "<toy>" not in text
    assert '<span class="verdict partly">partly</span>' in text
    assert "1 partly." in text
    assert "http" not in text.replace("http-equiv", "")
    assert "prefers-color-scheme: dark" in text
    assert "No experiment has been run" in pages.render([])
