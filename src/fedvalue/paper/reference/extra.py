"""The extra that the reference valuation needs."""

from __future__ import annotations

import importlib.util
import warnings
from typing import Any

from fedvalue.errors import InputError

_PACKAGES = {"sklearn": "scikit-learn", "shap": "shap"}


def require_paper_extra() -> None:
    """Say which packages are missing, and the command that helps, before hours of work start.

    Raises:
        InputError: scikit-learn or shap is not installed.
    """
    missing = [name for module, name in _PACKAGES.items() if importlib.util.find_spec(module) is None]
    if missing:
        raise InputError(
            f"{' and '.join(missing)} not installed: the reference valuation needs the extra 'paper'; "
            "pip install 'fedvalue[paper]'",
            code="E_EXTRA",
        )


def import_shap() -> Any:
    """The shap package; its import touches matplotlib functions that are on their way out."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import shap

    return shap
