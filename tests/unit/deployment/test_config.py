"""Configuration files: every mistake names file and key."""

from __future__ import annotations

import pytest

from fedvalue.deployment.config import read_party_config, read_server_config
from fedvalue.errors import ConfigError

SERVER = """
identity = "identity"
peers = "peers"
state = "/var/lib/fedvalue"
listen = "0.0.0.0:7101"

[metrics]
listen = "127.0.0.1:9101"

[limits]
runs = 8

[accept]
protocols = ["mirror", "paper"]
research = true
"""

PARTY = """
identity = "identity"
peers = "peers"
state = "state"
manifest = "manifest.json"

[table]
source = "customers.parquet"
id = "customer"
features = ["a", "b"]

[output]
result = "out/result.json"

[addresses]
compute = "10.0.0.1:7101"
"""


def written(tmp_path, text):
    path = tmp_path / "config.toml"
    path.write_text(text)
    return path


def test_a_server_configuration_in_full(tmp_path):
    config = read_server_config(written(tmp_path, SERVER))
    assert config.identity == tmp_path / "identity"
    assert str(config.state) == "/var/lib/fedvalue"
    assert (config.listen, config.metrics, config.max_runs, config.retention_days) == (
        "0.0.0.0:7101", "127.0.0.1:9101", 8, 30,
    )  # fmt: skip
    assert config.terms.protocols == ("mirror", "paper")
    assert config.terms.policies == ("valuation",)
    assert config.terms.research


def test_a_party_configuration_in_full(tmp_path):
    config = read_party_config(written(tmp_path, PARTY))
    assert config.table.source == tmp_path / "customers.parquet"
    assert config.table.features == ("a", "b")
    assert config.table.label is None
    assert config.result == tmp_path / "out" / "result.json"
    assert config.report is None
    assert config.addresses == {"compute": "10.0.0.1:7101"}
    assert not config.terms.research


def test_a_database_uri_stays_as_it_is_and_out_of_repr(tmp_path):
    text = PARTY.replace("customers.parquet", "postgresql://me:pass@host/base#t")
    config = read_party_config(written(tmp_path, text))
    assert config.table.source == "postgresql://me:pass@host/base#t"
    assert "pass" not in repr(config)


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ('listen = "0.0.0.0:7101"', "", "key listen is missing"),
        ('listen = "0.0.0.0:7101"', 'listen = "7101"', "listen must be host:port, got '7101'"),
        ('listen = "0.0.0.0:7101"', 'listen = "h:99999"', "listen must be host:port"),
        ("runs = 8", "runs = 0", r"limits.runs must be an integer in 1 .. 10000, got 0"),
        ("runs = 8", "runs = true", "limits.runs must be an integer"),
        ("runs = 8", "rans = 8", r"unknown key limits.rans"),
        ('["mirror", "paper"]', '["mirror", "psi"]', r"accept.protocols must be some of"),
        ('["mirror", "paper"]', '"mirror"', r"accept.protocols must be a list"),
        ("research = true", 'research = "yes"', r"accept.research must be true or false"),
        ('identity = "identity"', "identity = 7", "identity must be text, got 7"),
        ("[limits]", "[limits", "is not TOML"),
    ],
)
def test_mistakes_in_a_server_configuration(tmp_path, before, after, words):
    path = written(tmp_path, SERVER.replace(before, after))
    with pytest.raises(ConfigError, match=words) as caught:
        read_server_config(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("[table]", "[tables]", "key table is missing"),
        ('id = "customer"', "", r"key table.id is missing"),
        ('features = ["a", "b"]', "features = []", r"table.features must be a list"),
        ('features = ["a", "b"]', 'binning = "log"', r"table.binning must be one of width, quantile"),
        ('features = ["a", "b"]', "pca = -1", r"table.pca must be an integer"),
        ('result = "out/result.json"', 'restul = "x"', r"unknown key output.restul"),
    ],
)
def test_mistakes_in_a_party_configuration(tmp_path, before, after, words):
    with pytest.raises(ConfigError, match=words):
        read_party_config(written(tmp_path, PARTY.replace(before, after)))


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"cannot read .*nothing.toml"):
        read_server_config(tmp_path / "nothing.toml")
