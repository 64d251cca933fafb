"""Starts FedValue at one site: what the bridges of NVFlare, Flower and vantage6 share. Standard library only.

- The site's own folder says what it takes part in (`task.toml` or `party.toml`); nothing that comes from the
  framework's server is passed on.
- The framework learns how the program ended, and nothing else: values stay in the site's files.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

SITE = "FEDVALUE_SITE"
"""Environment variable: the folder of this site, or of all sites of a simulation, one below it per name."""
COMMAND = "FEDVALUE_COMMAND"
"""Environment variable: how to start FedValue, where it is installed apart from the framework."""
SECONDS = 86_400


def take_part(site: str) -> dict[str, str | int]:
    """Take part in the run that this site has agreed to, and say how it ended.

    Args:
        site: Its name in the framework; used only to find a folder of that name in a simulation.

    Raises:
        FileNotFoundError: There is no configuration.
    """
    folder = _folder(site)
    task, party = folder / "task.toml", folder / "party.toml"
    role = "run" if task.is_file() else "join"
    config = task if task.is_file() else party
    if not config.is_file():
        raise FileNotFoundError(f"neither task.toml nor party.toml in {folder}; set {SITE}")
    command = [*shlex.split(os.environ.get(COMMAND, "fedvalue")), role, "--config", config.name]
    with (folder / "fedvalue.log").open("ab") as log:
        # What it prints, the values among it, stays here.
        pipes = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log}
        done = subprocess.run(command, cwd=folder, timeout=SECONDS, check=False, **pipes)  # noqa: S603
    return {"site": site, "role": role, "exit_code": done.returncode}


def _folder(site: str) -> Path:
    base = Path(os.environ.get(SITE, "/etc/fedvalue"))
    below = base / Path(site).name
    return below if below.is_dir() else base
