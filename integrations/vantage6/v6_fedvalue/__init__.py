"""The vantage6 algorithm: starts FedValue at one node. `value` is its method; it takes no arguments."""

from __future__ import annotations

import os

from v6_fedvalue.fedvalue_site import SITE, take_part

LABEL = "FEDVALUE"
"""Label of the node's database that names the folder of its configuration."""


def value() -> dict[str, str | int]:
    """Take part in the run that this node has agreed to, and say how it ended."""
    folder = os.environ.get(f"{LABEL}_DATABASE_URI")
    if folder:
        os.environ[SITE] = folder
    return take_part(os.environ.get("NODE_NAME", "node"))
