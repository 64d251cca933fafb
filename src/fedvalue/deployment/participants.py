"""Run a server or a party from Python, as `fedvalue serve`, `run` and `join` do.

These functions do not change the process. The commands also switch off core dumps, make new files private and
handle signals (`fedvalue.deployment.process`); a program that runs a participant may do the same.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

from fedvalue.deployment.config import PartyConfig, ServerConfig, read_party_config, read_server_config

if TYPE_CHECKING:
    from fedvalue.deployment.parties.party_run import Report
    from fedvalue.valuation.result import Valuation


def serve(config: ServerConfig | str | Path, *, stop: threading.Event | None = None) -> None:
    """Run a computation or validation server until `stop` is set; its identity decides which.

    Runs that were under way when the server was last stopped continue. Logs go to stderr, one JSON object
    per line.

    Args:
        config: Path of `server.toml`, or its content.
        stop: Set it from another thread to end the server. Without it, Ctrl-C does.

    Raises:
        ConfigError: The identity, the peers or the configuration is wrong.
        EngineError: The port is taken, the state folder cannot be written, or another server uses it.
    """
    from fedvalue.deployment.servers.server_process import serve as run_server

    run_server(config if isinstance(config, ServerConfig) else read_server_config(Path(config)), stop=stop)


def run(
    config: PartyConfig | str | Path,
    *,
    report: Report = lambda stage, words: None,
    psk: str | Path | None = None,
    again: bool = False,
) -> Valuation:
    """Take part in a run as the task party, write its files, and return the values of all data parties.

    Called again after an interruption, it continues; after the end, it returns the same result.

    Args:
        config: Path of `task.toml`, or its content.
        report: Called with (stage, words) as the run proceeds.
        psk: File of 32 bytes that all parties share, mixed into every pairwise key.
        again: Repeat a run that has failed, under the same agreement; all parties do so.

    Raises:
        FedValueError: The run failed; nothing was released. The deployment guide explains its `code`.
    """
    valuation = _take_part(config, "task", report, psk, again=again)
    assert valuation is not None
    return valuation


def join(
    config: PartyConfig | str | Path,
    *,
    report: Report = lambda stage, words: None,
    psk: str | Path | None = None,
    again: bool = False,
) -> Valuation | None:
    """Take part in a run as a data party, write its files, and return the value of its own data.

    Called again after an interruption, it continues; after the end, it returns the same result.

    Args:
        config: Path of `party.toml`, or its content.
        report: Called with (stage, words) as the run proceeds.
        psk: File of 32 bytes that all parties share, mixed into every pairwise key.
        again: Repeat a run that has failed, under the same agreement; all parties do so.

    Returns:
        A valuation with one party; None where the agreement gives the values to the task party alone.

    Raises:
        FedValueError: The run failed; nothing was released.
    """
    return _take_part(config, "data", report, psk, again=again)


def _take_part(
    config: PartyConfig | str | Path, role: str, report: Report, psk: str | Path | None, *, again: bool
) -> Valuation | None:
    from fedvalue.deployment.parties.party_process import take_part

    settings = config if isinstance(config, PartyConfig) else read_party_config(Path(config))
    return take_part(settings, role, report, None if psk is None else Path(psk), again=again)
