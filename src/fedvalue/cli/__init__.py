"""The command line."""

from __future__ import annotations


def main() -> None:
    """Entry point of `fedvalue`."""
    from fedvalue.cli.app import main as run

    run()
