"""`fedvalue warm-up`, and a quick start: a cache for kernels, and pyarrow without pandas.

numba keeps kernels beside the modules or in the user's cache, and fails if neither can be written: an
installation by root under a service without a home, a read-only container.
"""

from __future__ import annotations

import os
import sys
import time
from importlib.abc import MetaPathFinder
from pathlib import Path

import typer


def warm_up() -> None:
    """Compile everything ahead of time, so that no valuation waits for the compiler.

    Kernels are compiled once, on first use, and kept on disk (in the folder NUMBA_CACHE_DIR if it is set).
    For operators of servers and builders of images.
    """
    from fedvalue.cli.progress import progress_bar
    from fedvalue.federated.warm_up import compile_everything

    start = time.perf_counter()
    with progress_bar("compiling kernels, once") as progress:
        compile_everything(progress)
    typer.echo(f"all kernels are compiled and kept ({time.perf_counter() - start:.0f} s)")


def keep_kernels() -> None:
    """Keep kernels in a temporary folder if numba would find none.

    Child processes use it too. For a permanent folder, the operator sets NUMBA_CACHE_DIR.
    """
    if "NUMBA_CACHE_DIR" in os.environ or any(_writable(folder) for folder in _usual_folders()):
        return
    import atexit
    import shutil
    import tempfile

    folder = tempfile.mkdtemp(prefix="fedvalue-kernels-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.environ["NUMBA_CACHE_DIR"] = folder


def load_arrow() -> None:
    """Load pyarrow without pandas, which it would import with its first array: half a second saved.

    pandas itself stays importable for libraries that use it.
    """
    if "pandas" in sys.modules or "pyarrow" in sys.modules:
        return
    hidden = _HiddenPandas()
    sys.meta_path.insert(0, hidden)
    try:
        import pyarrow

        pyarrow.array([0])
    finally:
        sys.meta_path.remove(hidden)


class _HiddenPandas(MetaPathFinder):
    """Makes `import pandas` fail."""

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError("pandas is hidden", name=fullname)


def _usual_folders() -> tuple[Path, Path]:
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(__file__).parent, Path(cache) / "numba"


def _writable(folder: Path) -> bool:
    """Files can be created in the folder, or the folder itself if it does not exist."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)
