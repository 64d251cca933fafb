"""Servers and parties run from Python, as a program that embeds them would."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import fedvalue
from fedvalue.agreement.run_settings import terms_of
from fedvalue.errors import ConfigError
from tests.support.processes import PATIENCE
from tests.support.town import TASK, Town

pytestmark = pytest.mark.network


def test_two_servers_and_three_parties_in_one_program(tmp_path):
    """By paths of their files; the values are the centralised ones, and the process keeps its umask."""
    town = Town(tmp_path, n=120)
    before = os.umask(0o022)
    os.umask(before)
    stop, stages = threading.Event(), []
    with ThreadPoolExecutor(4) as pool:
        servers = [
            pool.submit(fedvalue.serve, town.member(name).folder / "server.toml", stop=stop)
            for name in ("compute", "validate")
        ]
        try:
            joined = [
                pool.submit(fedvalue.join, str(town.member(name).folder / "party.toml"))
                for name in town.parties
            ]
            valuation = fedvalue.run(
                town.member(TASK).folder / "party.toml", report=lambda stage, words: stages.append(stage)
            )
            own = [future.result(PATIENCE) for future in joined]
        finally:
            stop.set()
        for server in servers:
            server.result(PATIENCE)
    assert valuation.values == pytest.approx(town.values, abs=1e-9)
    assert [list(one.learnable) for one in own] == [[name] for name in town.parties]
    step = float(terms_of(town.consortium.signed.manifest).share_step(valuation.n_samples))
    for one in own:  # rounded at random
        for name, value in one.learnable.items():
            assert value == pytest.approx(valuation.learnable[name], abs=step)
    assert "uploading" in stages
    after = os.umask(before)
    os.umask(after)
    assert after == before
    written = [
        path for name in town.consortium.members for path in (town.member(name).folder / "state").rglob("*")
    ]
    assert written
    assert all(path.stat().st_mode & 0o077 == 0 for path in written)  # private without a umask


def test_a_party_of_another_role_is_refused(tmp_path):
    town = Town(tmp_path, n=100)
    with pytest.raises(ConfigError, match="has role 'task', not 'data'"):
        fedvalue.join(town.member(TASK).folder / "party.toml")
