"""Prices from files as spreadsheets of several countries write them."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest
from pyarrow import parquet

from fedvalue.decisions.price_list import read_prices
from fedvalue.errors import InputError


def test_prices_are_read_with_and_without_a_header(tmp_path):
    file = tmp_path / "prices.csv"
    file.write_text('party,price\ntelco, 12.50\n\n"a, b",3\n')
    assert read_prices(file) == {"telco": Decimal("12.50"), "a, b": Decimal(3)}
    file.write_text("telco,1\n")
    assert read_prices(file) == {"telco": Decimal(1)}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("telco\n5\n", "expected the columns party and price, got telco"),
        ("telco,1,2\n", "expected the columns party and price, got telco, 1, 2"),
        ("party;price\n;\n", "has no prices"),
        ("telco,1\ntelco,2\n", "'telco' has two prices"),
        ("telco,-3\n", "must not be negative"),
        ("telco,much\n", "must be an amount"),
    ],
)
def test_wrong_price_files_are_refused(tmp_path, content, message):
    file = tmp_path / "prices.csv"
    file.write_text(content)
    with pytest.raises(InputError, match=message):
        read_prices(file)


def test_unreadable_price_files_are_refused(tmp_path):
    with pytest.raises(InputError, match="cannot read"):
        read_prices(tmp_path / "missing.csv")
    (tmp_path / "binary.csv").write_bytes(b"\xff\xfe\x00\x01")
    with pytest.raises(InputError, match="expected the columns party and price"):
        read_prices(tmp_path / "binary.csv")


@pytest.mark.parametrize(
    ("content", "encoding"),
    [
        ("party;price\nKöln;25.000,50\nshop;1.000,00\n", "utf-8"),
        ("Party;Price\nKöln;25.000,50\nshop;1.000,00\n", "cp1252"),
        ("party\tprice\nKöln\t€ 25,000.50\nshop\t€ 1,000\n", "utf-16"),
        ('price,note,party\n25000.5,"a, b",Köln\n1000,,shop\n', "utf-8"),
        ('party,price\r\n Köln,25000.50\r\n"shop",1000\r\n', "utf-8-sig"),
    ],
)
def test_prices_are_read_as_spreadsheets_of_any_country_write_them(tmp_path, content, encoding):
    file = tmp_path / "prices.csv"
    file.write_bytes(content.encode(encoding))
    assert read_prices(file) == {"Köln": Decimal("25000.50"), "shop": Decimal(1000)}


def test_prices_come_from_typed_tables_too(tmp_path):
    """1.125 cannot be misread where the table says that it is a number."""
    file = tmp_path / "prices.parquet"
    parquet.write_table(pa.table({"party": ["a", "b"], "price": [1.125, 25000.0]}), file)
    assert read_prices(file) == {"a": Decimal("1.125"), "b": Decimal(25000)}


def test_prices_that_can_be_read_in_two_ways_are_refused(tmp_path):
    """25.000 is 25 thousand in one half of the world and 25 in the other; whole numbers do not settle it."""
    file = tmp_path / "prices.csv"
    file.write_text("party;price\na;500\nb;25.000\n")
    with pytest.raises(InputError, match=r"'25\.000' can be read in two ways; write them like 1200\.50"):
        read_prices(file)
    file.write_text("party;price\na;500\nb;\n")
    with pytest.raises(InputError, match="price of party 'b' must be an amount"):
        read_prices(file)
