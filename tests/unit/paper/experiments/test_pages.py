"""The page's tables come from the results."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fedvalue.errors import InputError
from fedvalue.paper.experiments.experiment import NAMES, experiment
from fedvalue.paper.experiments.pages import filled, main

ROOT = Path(__file__).resolve().parents[4]


def results(folder: Path, samples: int) -> None:
    sizes = {"features": 13, "labels": 3, "samples": samples}
    document = {
        "title": "Table 1", "claim": "c", "verdict": "partly", "measured": "So many.", "cpu_seconds": 1.0,
        "numbers": {"datasets": {"wine": {"measured": {**sizes, "sha256": "ab" * 32}, "paper": sizes}}},
    }  # fmt: skip
    (folder / "table1.json").write_text(json.dumps(document))


PAGE = "before\n<!-- begin table1 -->\nold\n<!-- end table1 -->\nafter\n"


def test_text_between_marks_is_rebuilt_and_the_rest_stays(tmp_path: Path) -> None:
    results(tmp_path, 178)
    page = filled(PAGE, tmp_path)
    assert page.startswith("before\n<!-- begin table1 -->\n**Partly.** So many.\n")
    assert "| Wine | 13 | 3 | 178 | abababababab |" in page
    assert page.endswith("<!-- end table1 -->\nafter\n")
    assert filled(page, tmp_path) == page
    results(tmp_path, 179)
    assert "| 179 |" in filled(page, tmp_path)


def test_missing_results_and_unknown_marks_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no results of table1 in .*; `fedvalue reproduce table1 --out"):
        filled(PAGE, tmp_path)
    with pytest.raises(InputError, match="'table9', which is not an experiment"):
        filled(PAGE.replace("table1", "table9"), tmp_path)


def test_main_rewrites_the_file(tmp_path: Path) -> None:
    results(tmp_path, 178)
    (tmp_path / "page.md").write_text(PAGE)
    main(str(tmp_path), str(tmp_path / "page.md"))
    assert "| 178 |" in (tmp_path / "page.md").read_text()


def test_the_page_in_the_repository_is_made_from_the_results_beside_it() -> None:
    page = (ROOT / "docs/reproduction.md").read_text(encoding="utf-8")
    assert filled(page, ROOT / "docs/reproduction") == page


@pytest.mark.parametrize("name", NAMES)
def test_verdicts_in_the_repository_follow_from_their_numbers(name: str) -> None:
    document = json.loads((ROOT / f"docs/reproduction/{name}.json").read_text(encoding="utf-8"))
    verdict = experiment(name).judge(document["numbers"])
    assert (verdict.verdict, verdict.measured) == (document["verdict"], document["measured"])
