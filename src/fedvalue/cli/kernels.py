"""Where compiled kernels are kept, so that the next start need not compile them again.

numba keeps them beside the modules or else in the user's cache, and refuses to work where neither can
be written: an installation of root's under a service without a home, a read-only container.
"""

from __future__ import annotations

import os
from pathlib import Path


def keep_kernels() -> None:
    """Give the kernels a folder for the life of this process where numba would find none.

    Its children use it too. A folder that lasts is for the operator to name, in NUMBA_CACHE_DIR.
    """
    if "NUMBA_CACHE_DIR" in os.environ or any(_writable(folder) for folder in _usual_folders()):
        return
    import atexit
    import shutil
    import tempfile

    folder = tempfile.mkdtemp(prefix="fedvalue-kernels-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.environ["NUMBA_CACHE_DIR"] = folder


def _usual_folders() -> tuple[Path, Path]:
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(__file__).parent, Path(cache) / "numba"


def _writable(folder: Path) -> bool:
    """Whether files can be made there, or the folder itself where there is none yet."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)
