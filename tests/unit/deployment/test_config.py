"""Configuration files: every mistake names file and key."""

from __future__ import annotations

from fractions import Fraction

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
    assert config.listen == "0.0.0.0:7101"
    assert config.metrics.listen == "127.0.0.1:9101"
    assert (config.limits.runs, config.limits.retention_days) == (8, 30)
    assert config.accept.protocols == ("mirror", "paper")
    assert config.accept.policies == ("valuation",)
    assert config.accept.research


def test_a_party_configuration_in_full(tmp_path):
    config = read_party_config(written(tmp_path, PARTY))
    assert config.table.source == str(tmp_path / "customers.parquet")
    assert config.table.features == ("a", "b")
    assert config.table.label is None
    assert config.output.result == tmp_path / "out" / "result.json"
    assert config.output.report is None
    assert config.addresses == {"compute": "10.0.0.1:7101"}
    assert config.privacy.epsilon_budget == 3
    assert not config.accept.research


def test_a_party_may_say_how_its_file_is_written(tmp_path):
    text = PARTY.replace("[output]", '[table.file]\ndecimal = ","\nencoding = "cp1252"\n\n[output]')
    config = read_party_config(written(tmp_path, text))
    assert (config.table.file.decimal, config.table.file.encoding) == (",", "cp1252")
    with pytest.raises(ConfigError, match="encoding 'klingon' is not known"):
        read_party_config(written(tmp_path, text.replace("cp1252", "klingon")))


def test_a_budget_is_taken_as_it_is_written(tmp_path):
    config = read_party_config(written(tmp_path, PARTY + "\n[privacy]\nbudget = 0.1\n"))
    assert config.privacy.epsilon_budget == Fraction(1, 10)


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
        ("runs = 8", "runs = 0", r"limits.runs: expected `int` >= 1"),
        ("runs = 8", "runs = 20000", r"limits.runs: expected `int` <= 10000"),
        ("runs = 8", "runs = true", "limits.runs: expected `int`, got `bool`"),
        ("runs = 8", "rans = 8", r"unknown key limits.rans; did you mean runs\?"),
        ("runs = 8", "colour = 8", r"unknown key limits.colour; known keys: retention_days, runs, waiting"),
        (
            '["mirror", "paper"]',
            '["mirror", "psi"]',
            r"chosen from mirror, gram, paper, single",
        ),
        ('["mirror", "paper"]', '"mirror"', r"accept.protocols: expected `array`, got `str`"),
        ("research = true", 'research = "yes"', r"accept.research: expected `bool`, got `str`"),
        ('identity = "identity"', "identity = 7", "identity: expected text for a Path, got 7"),
        ('listen = "127.0.0.1:9101"', 'listen = "9101"', "metrics: listen must be host:port, got '9101'"),
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
        ("[table]", "[tables]", "unknown key tables; did you mean table"),
        ('manifest = "manifest.json"', "", "key manifest is missing"),
        ('id = "customer"', "", r"key table.id is missing"),
        ('features = ["a", "b"]', "features = []", r"table.features: expected `array` of length >= 1"),
        ('features = ["a", "b"]', 'features = [""]', r"table.features\[0\]: expected `str` of length >= 1"),
        ('features = ["a", "b"]', "memory_mib = 0", r"table.memory_mib: expected `int` >= 1"),
        ('result = "out/result.json"', 'restul = "x"', r"unknown key output.restul; did you mean result"),
        ('compute = "10.0.0.1:7101"', 'compute = "x"', "addresses.compute must be host:port, got 'x'"),
    ],
)
def test_mistakes_in_a_party_configuration(tmp_path, before, after, words):
    with pytest.raises(ConfigError, match=words):
        read_party_config(written(tmp_path, PARTY.replace(before, after)))


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"cannot read .*nothing.toml"):
        read_server_config(tmp_path / "nothing.toml")
