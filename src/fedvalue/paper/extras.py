"""Optional packages: missing ones, and the versions behind a result."""

from __future__ import annotations

import importlib.util
import platform
from importlib import metadata

from fedvalue._version import __version__
from fedvalue.errors import InputError

# Extra -> its modules, with the names of their packages.
EXTRAS = {
    "paper": {"sklearn": "scikit-learn"},
    "benchmark": {"sklearn": "scikit-learn", "lightgbm": "lightgbm", "scipy": "scipy"},
}


def require_extra(extra: str) -> None:
    """Fail early, with the install command, when a package of an extra is missing.

    Raises:
        InputError: A package of the extra is not installed.
    """
    missing = [name for module, name in EXTRAS[extra].items() if importlib.util.find_spec(module) is None]
    if missing:
        raise InputError(
            f"not installed: {', '.join(missing)}; pip install 'fedvalue[{extra}]'", code="E_EXTRA"
        )


def versions(extra: str) -> dict[str, str]:
    """FedValue, Python, and the packages that numbers depend on."""
    versions = {"fedvalue": __version__, "python": platform.python_version()}
    for package in ("numpy", "numba", *EXTRAS[extra].values()):
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            versions[package] = "not installed"
    return versions
