"""Parties whose tables are larger than the memory that they are given, over real sockets."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from fedvalue.deployment.parties import streamed_input
from fedvalue.deployment.parties.scratch import ScratchError
from fedvalue.deployment.parties.spooled_samples import SpooledHashed
from fedvalue.errors import EngineError
from tests.network.test_recovery import Cast, check_good_end
from tests.support.town import TASK, Town, ended_well, values_of

pytestmark = pytest.mark.network

N = 9000  # 1 MiB holds 8,700 rows of one feature


def tight(town: Town) -> Town:
    """Every party may keep a MiB of rows in memory."""
    for party in (TASK, *town.parties):
        config = town.member(party).folder / "party.toml"
        text = config.read_text().replace('source = "table.csv"', 'source = "table.csv"\nmemory_mib = 1')
        config.write_text(text)
    return town


def test_a_run_over_tables_on_disk_gives_the_centralised_values(tmp_path, monkeypatch):
    """All parties stream; their state folders hold the journal and the logs at the end, nothing else."""
    seen = []
    read = streamed_input.read_streamed

    def noted(*arguments: Any) -> Any:
        seen.append(arguments)
        return read(*arguments)

    monkeypatch.setattr(streamed_input, "read_streamed", noted)
    town = tight(Town(tmp_path, n=N, parties=("telco",), chunk_bytes=1 << 12))
    town.start()
    try:
        ends = town.join()
    finally:
        town.stop()
    assert ended_well(ends), ends
    assert len(seen) == 2
    assert values_of(town.result()) == pytest.approx(town.values, abs=1e-9)
    for party in (TASK, "telco"):
        kinds = {
            path.name.split("-")[0].split(".")[0] for path in (town.member(party).folder / "state").iterdir()
        }
        assert kinds == {"party", "audit", "receipts", "ledger"}


def test_a_full_disk_stops_a_party_and_not_the_run(tmp_path, monkeypatch):
    """E_STORAGE while the upload is prepared: nobody is told, and the same command goes on."""
    parts, full = SpooledHashed.parts, [True]

    def deal(samples: SpooledHashed, *how: Any, **more: Any) -> Any:
        if samples._n_columns == 1 and full:  # the data party; the task party has a label too
            full.clear()
            raise ScratchError("cannot use the folder: No space left on device", code="E_STORAGE")
        return parts(samples, *how, **more)

    monkeypatch.setattr(SpooledHashed, "parts", deal)
    town = tight(Town(tmp_path, n=N, parties=("telco",)))
    town.start()
    try:
        with ThreadPoolExecutor(1) as pool:
            task = pool.submit(town.join, TASK)
            first = town.join("telco")["telco"]
            assert isinstance(first, EngineError)
            assert first.code == "E_STORAGE"
            assert ended_well(town.join("telco"))
            assert ended_well(task.result())
    finally:
        town.stop()
    assert values_of(town.result()) == pytest.approx(town.values, abs=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("who", "when", "k"), [("telco", "after", 6), ("telco", "before", 8), (TASK, "after", 7)]
)
def test_a_party_on_disk_that_is_killed_goes_on_with_the_same_bytes(tmp_path, who, when, k):
    """Kill -9 around its uploads: started again it reads its table anew and the servers see no other byte."""
    cast = Cast(tight(Town(tmp_path, n=N, parties=("telco",), chunk_bytes=1 << 12)))
    try:
        cast.start(*(name for name in ("compute", "validate", *cast.parties) if name != who))
        cast.start(who, crash=(when, k))
        check_good_end(cast, cast.finish())
    finally:
        cast.stop()
