"""An out folder belongs to one version, seed and profile."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fedvalue.errors import InputError
from fedvalue.paper.experiments.experiment import Unit, unit_seed
from fedvalue.paper.experiments.store import Store


def unit(**settings: object) -> Unit:
    return Unit("a/b", dict, dict(settings))


def test_a_kept_piece_comes_back(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "new/folder", seed=1, profile="quick")
    assert store.unit(unit(x=(1, 2))) is None
    store.keep(unit(x=(1, 2)), {"y": 0.1}, 2.0)
    again = Store.open(tmp_path / "new/folder", seed=1, profile="quick")
    record = again.unit(unit(x=(1, 2)))
    assert record is not None
    assert record["result"] == {"y": 0.1}
    assert again.unit(unit(x=(1, 3))) is None


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"seed": 2}, r"seed 1 \(now 2\)"),
        ({"profile": "paper"}, r"profile 'quick' \(now 'paper'\)"),
    ],
)
def test_another_seed_or_profile_is_refused_with_what_helps(
    tmp_path: Path, changes: dict[str, object], words: str
) -> None:
    Store.open(tmp_path, seed=1, profile="quick")
    with pytest.raises(InputError, match=words + r".*`--out OTHER` keeps both, `--fresh`") as caught:
        Store.open(tmp_path, **{"seed": 1, "profile": "quick", **changes})  # type: ignore[arg-type]
    assert caught.value.code == "E_OUT"


def test_another_version_is_refused(tmp_path: Path) -> None:
    Store.open(tmp_path, seed=1, profile="quick")
    run = json.loads((tmp_path / "run.json").read_text())
    (tmp_path / "run.json").write_text(json.dumps({**run, "version": "0.0.1"}))
    with pytest.raises(InputError, match=r"version '0\.0\.1'"):
        Store.open(tmp_path, seed=1, profile="quick")


def test_fresh_removes_results_and_nothing_else(tmp_path: Path) -> None:
    store = Store.open(tmp_path, seed=1, profile="quick")
    store.keep(unit(), {}, 0.0)
    (tmp_path / "fig2.json").write_text("{}")
    (tmp_path / "thesis.tex").write_text("mine")
    store = Store.open(tmp_path, seed=2, profile="quick", fresh=True)
    assert store.unit(unit()) is None
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run.json", "thesis.tex"]


def test_a_folder_with_other_files_is_not_ours(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    for fresh in (False, True):
        with pytest.raises(InputError, match="is not empty and holds no results"):
            Store.open(tmp_path, seed=1, profile="quick", fresh=fresh)


def test_a_damaged_piece_is_named(tmp_path: Path) -> None:
    store = Store.open(tmp_path, seed=1, profile="quick")
    store.keep(unit(), {}, 0.0)
    (tmp_path / "units/a.b.json").write_text('{"settings":')
    with pytest.raises(InputError, match=r"a\.b\.json is damaged .* remove it"):
        store.unit(unit())


def test_a_file_in_the_way_is_an_input_error(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("a file")
    with pytest.raises(InputError, match="cannot use"):
        Store.open(tmp_path / "out", seed=1, profile="quick")


def test_not_a_number_is_never_stored(tmp_path: Path) -> None:
    store = Store.open(tmp_path, seed=1, profile="quick")
    with pytest.raises(ValueError, match="JSON"):
        store.keep(unit(), {"y": float("nan")}, 0.0)


def test_unit_seeds_differ_and_stay() -> None:
    assert unit_seed(0, "repeat/wine/00") == unit_seed(0, "repeat/wine/00")
    assert len({unit_seed(s, f"repeat/wine/{k:02d}") for s in range(10) for k in range(50)}) == 500
