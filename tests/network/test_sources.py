"""Tables from CSV, Parquet, Arrow and PostgreSQL in one run: the centralised values to 1e-9."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.feather as pf
import pyarrow.parquet as pq
import pytest

from tests.support.town import TASK, Town, ended_well, values_of

PARTIES = ("telco", "shop", "insurer", "utility")


def table_of(town: Town, party: str) -> pa.Table:
    return pc.read_csv(town.member(party).folder / "table.csv")


def source(town: Town, party: str, value: str) -> None:
    config = town.member(party).folder / "party.toml"
    config.write_text(config.read_text().replace('source = "table.csv"', f'source = "{value}"'))


@pytest.mark.network
@pytest.mark.postgres
def test_a_run_with_four_kinds_of_sources_gives_the_centralised_values(tmp_path, postgres):
    """Done when: PostgreSQL, Parquet, Arrow and CSV parties mixed."""
    town = Town(tmp_path, n=150, parties=PARTIES)
    pq.write_table(table_of(town, "telco"), town.member("telco").folder / "table.parquet")
    source(town, "telco", "table.parquet")
    pf.write_feather(
        table_of(town, "shop"), town.member("shop").folder / "table.arrow", compression="uncompressed"
    )
    source(town, "shop", "table.arrow")
    postgres.store("customers", table_of(town, "insurer"))
    source(town, "insurer", f"{postgres.uri}#select id, x from customers")
    postgres.store("bank_table", table_of(town, TASK))
    source(town, TASK, f"{postgres.uri}#bank_table")
    town.start()
    try:
        ends = town.join()
    finally:
        town.stop()
    assert ended_well(ends), ends
    assert values_of(town.result()) == pytest.approx(town.values, abs=1e-9)


@pytest.mark.network
@pytest.mark.postgres
def test_a_database_that_refuses_is_reported_without_its_password(tmp_path, postgres):
    town = Town(tmp_path, n=100, parties=("telco",))
    source(town, "telco", f"{postgres.uri.replace(postgres.password, 'wrong-secret')}#customers")
    end = town.join("telco")["telco"]
    assert end.code == "E_INPUT"
    assert "wrong-secret" not in str(end)
    assert postgres.password not in str(end)
