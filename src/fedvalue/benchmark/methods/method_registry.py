"""The built-in methods by name, and a researcher's own by import path."""

from __future__ import annotations

import importlib
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from fedvalue.benchmark.methods import information_methods as information
from fedvalue.benchmark.methods import model_methods as models
from fedvalue.benchmark.methods.method import Method
from fedvalue.errors import InputError

METHODS: dict[str, type[Method]] = {
    method.name: method
    for method in (
        information.Learnable,
        information.ColumnEvidence,
        information.JointEvidence,
        information.MeanEvidence,
        information.LearnableJoint,
        information.ShapleyCmi,
        information.ShapleyCmiQuantile,
        information.MillerMadow,
        information.InformationValue,
        information.KnnInformation,
        models.ShapEnsemble,
        models.PermutationImportance,
        models.LeaveOnePartyOut,
    )
}
"""The built-in methods, which every run compares."""

REFERENCE = information.Learnable.name
"""The method that the others are compared with, setting by setting."""


def chosen(names: Sequence[str]) -> list[Method]:
    """Methods by name, or by "module:Class" for a user's class; all of `METHODS` when none is named.

    Modules are also looked for in the current folder.

    Raises:
        InputError: There is no such method, or the object is not one.
    """
    if not names:
        return [method() for method in METHODS.values()]
    methods = [METHODS[name]() if name in METHODS else _imported(name) for name in dict.fromkeys(names)]
    uses = Counter(method.name for method in methods)
    if twice := sorted(name for name, n in uses.items() if n > 1):
        raise InputError(f"two methods are named {', '.join(twice)}; rename one of them")
    return methods


def _imported(path: str) -> Method:
    module, _, name = path.partition(":")
    if not name:
        raise InputError(
            f"unknown method {path!r}; choose from {', '.join(METHODS)}, or name your own as module:Class"
        )
    sys.path.insert(0, str(Path.cwd()))
    try:
        method = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise InputError(f"cannot load the method {path!r}: {error}") from error
    finally:
        sys.path.pop(0)
    if not (isinstance(method, type) and issubclass(method, Method)):
        raise InputError(f"{path} is not a method: expected a subclass of fedvalue.benchmark.Method")
    return method()
