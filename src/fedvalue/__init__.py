"""FedValue: what each party's data is worth for a vertical federated learning task."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fedvalue._version import __version__

# Loaded on first use, so that `fedvalue --help` starts without NumPy or numba.
_HOMES = {
    "AcceptanceTest": "fedvalue.valuation.acceptance_test",
    "CodingSettings": "fedvalue.tables.coding_settings",
    "FileOptions": "fedvalue.tables.file_options",
    "Gram": "fedvalue.federated.options",
    "Mirror": "fedvalue.federated.options",
    "Paper": "fedvalue.federated.options",
    "PartyValue": "fedvalue.valuation.result",
    "Payout": "fedvalue.decisions.payout",
    "Selection": "fedvalue.decisions.selection",
    "Single": "fedvalue.federated.options",
    "Valuation": "fedvalue.valuation.result",
    "ValuationSettings": "fedvalue.valuation.settings",
    "Vpsic": "fedvalue.federated.options",
    "conditional_mutual_information": "fedvalue.information.cmi",
    "datasets": "fedvalue.datasets",
    "errors": "fedvalue.errors",
    "join": "fedvalue.deployment.participants",
    "payout": "fedvalue.decisions.payout",
    "run": "fedvalue.deployment.participants",
    "select": "fedvalue.decisions.selection",
    "serve": "fedvalue.deployment.participants",
    "value": "fedvalue.local.value",
}
__all__ = [
    "AcceptanceTest",
    "CodingSettings",
    "FileOptions",
    "Gram",
    "Mirror",
    "Paper",
    "PartyValue",
    "Payout",
    "Selection",
    "Single",
    "Valuation",
    "ValuationSettings",
    "Vpsic",
    "__version__",
    "conditional_mutual_information",
    "datasets",
    "errors",
    "join",
    "payout",
    "run",
    "select",
    "serve",
    "value",
]

if TYPE_CHECKING:
    from fedvalue import datasets, errors
    from fedvalue.decisions.payout import Payout, payout
    from fedvalue.decisions.selection import Selection, select
    from fedvalue.deployment.participants import join, run, serve
    from fedvalue.federated.options import Gram, Mirror, Paper, Single, Vpsic
    from fedvalue.information.cmi import conditional_mutual_information
    from fedvalue.local.value import value
    from fedvalue.tables.coding_settings import CodingSettings
    from fedvalue.tables.file_options import FileOptions
    from fedvalue.valuation.acceptance_test import AcceptanceTest
    from fedvalue.valuation.result import PartyValue, Valuation
    from fedvalue.valuation.settings import ValuationSettings


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'fedvalue' has no attribute {name!r}")
    home = import_module(_HOMES[name])
    return home if home.__name__ == f"fedvalue.{name}" else getattr(home, name)


def __dir__() -> list[str]:
    return sorted(__all__)
