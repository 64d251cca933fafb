"""align = "intersect": the tables are reduced to their common ids first."""

from __future__ import annotations

import csv
import json
import threading
import time

import numpy as np
import pytest

from tests.support.certificates import check, resigned
from tests.support.processes import until
from tests.support.town import TASK, Town, ended_well, expected, values_of

pytestmark = pytest.mark.network

PARTIES = ("telco", "shop")
ACCEPT = 'align = ["equal", "intersect"]'


def with_other_ids(town: Town) -> np.ndarray:
    """Take 30 samples from telco, 20 from shop, give each strangers; the common rows are returned."""
    n = len(town.codes["label"])
    lacks = {"telco": set(range(30)), "shop": set(range(20, 40))}
    for party, missing in lacks.items():
        path = town.member(party).folder / "table.csv"
        head, *rows = list(csv.reader(path.read_text().splitlines()))
        kept = [row for row in rows if int(row[0][1:]) not in missing]
        kept += [[f"{party}-{k}", "v9"] for k in range(10)]
        with path.open("w", newline="") as file:
            csv.writer(file).writerows([head, *kept])
    return np.array([i for i in range(n) if not any(i in missing for missing in lacks.values())])


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    town = Town(
        tmp_path_factory.mktemp("intersect"), n=200, parties=PARTIES, align="intersect", accept=ACCEPT
    )
    rows = with_other_ids(town)
    town.start()
    ends = town.join()
    yield town, ends, rows
    town.stop()


def test_values_are_those_of_the_common_rows(finished):
    """The centralised values of the joined table, by the naive twin."""
    town, ends, rows = finished
    assert ended_well(ends), ends
    common = {name: column[rows] for name, column in town.codes.items()}
    assert town.result()["n_samples"] == len(rows) == 160
    assert values_of(town.result()) == pytest.approx(town.released(expected(common, PARTIES)), abs=1e-9)


def test_the_columns_of_a_result_are_those_of_the_common_rows(finished):
    """v9 is a value of strangers alone: it has no code once the tables are reduced."""
    town, _, _ = finished
    for name, brought in ((TASK, 200), ("telco", 180)):
        result = json.loads((town.member(name).folder / "result.json").read_bytes())
        for column in result["columns"]:
            assert sum(column["counts"]) == 160
            assert "v9" not in column["categories"]
        assert result["provenance"]["sources"][0]["n_rows"] == brought


def test_the_result_states_the_match_rate_of_every_party(finished):
    town, _, _ = finished
    assert town.result()["details"]["match_rates"] == {
        TASK: pytest.approx(160 / 200), "telco": pytest.approx(160 / 180), "shop": pytest.approx(160 / 190),
    }  # fmt: skip
    own = json.loads((town.member("telco").folder / "result.json").read_bytes())
    assert own["details"]["match_rates"] == {"telco": pytest.approx(160 / 180)}


def test_the_certificate_of_such_a_run_checks_and_a_changed_rate_does_not(finished):
    from fedvalue.errors import VerificationError

    town, _, _ = finished
    data = json.loads((town.member(TASK).folder / "certificate.json").read_bytes())
    check(data)
    data["result"]["details"]["match_rates"]["telco"] = 1.0
    with pytest.raises(VerificationError, match="match rates"):
        check(resigned(data, town.member(TASK).identity))


def test_parties_without_common_ids_end_with_a_reason(tmp_path):
    town = Town(tmp_path, n=100, parties=("telco",), align="intersect", accept=ACCEPT)
    path = town.member("telco").folder / "table.csv"
    path.write_text(path.read_text().replace("P", "Q"))
    town.start()
    try:
        ends = town.join()
        assert {end.code for end in ends.values()} == {"E_GATE"}
    finally:
        town.stop()


def test_a_gate_that_the_common_rows_miss_ends_the_run(tmp_path):
    """Fewer than the agreed number of common samples: nothing is computed."""
    town = Town(tmp_path, n=120, parties=PARTIES, align="intersect", accept=ACCEPT)
    with_other_ids(town)
    town.start()
    try:
        ends = town.join()
        assert {end.code for end in ends.values()} == {"E_GATE"}
    finally:
        town.stop()


def test_a_party_that_never_comes_is_named_and_nobody_else(tmp_path):
    """Keys go to the computation server alone; the other one does not guess who is missing."""
    town = Town(tmp_path, n=100, parties=PARTIES, align="intersect", accept=ACCEPT)
    ahead = [0.0]
    town.start(clock=lambda: time.time() + ahead[0])

    def leap() -> None:
        """Reach the deadline when both have come."""
        until(lambda: town.awaited() == ("shop",), what="two parties")
        ahead[0] = 7200.0  # past the limit of the computation server, not of the other one

    threading.Thread(target=leap, daemon=True).start()
    try:
        ends = town.join(TASK, "telco")
        assert {end.code for end in ends.values()} == {"E_DEADLINE"}
        # A party may hear from the validation server first that the other one has ended the run.
        named = [str(end).partition("missing: ")[2] for end in ends.values()]
        assert "shop" in named, ends
        assert set(named) <= {"shop", ""}, ends
    finally:
        town.stop()
