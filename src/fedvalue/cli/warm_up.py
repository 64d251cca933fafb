"""`fedvalue warm-up`: compile every kernel ahead of time."""

from __future__ import annotations

import time

import typer


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("warm-up")(warm_up)


def warm_up() -> None:
    """Compile everything ahead of time, so that no valuation waits for the compiler.

    Kernels are compiled once, on first use, and kept on disk (in the folder NUMBA_CACHE_DIR, where that is
    set). For operators of servers and builders of images.
    """
    from fedvalue.cli.progress import progress_bar
    from fedvalue.federated.warm_up import compile_everything

    start = time.perf_counter()
    with progress_bar("compiling kernels, once") as progress:
        compile_everything(progress)
    typer.echo(f"all kernels are compiled and kept ({time.perf_counter() - start:.0f} s)")
