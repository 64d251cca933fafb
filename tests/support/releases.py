"""FedValue as another release would be: the same code with other version numbers, in a process of its own."""

from __future__ import annotations

import json
import os
from pathlib import Path

_HOOK = """
import json, os, sys
from importlib.machinery import PathFinder, SourceFileLoader

class Loader(SourceFileLoader):
    def exec_module(self, module):
        super().exec_module(module)
        vars(module).update(json.loads(os.environ["FEDVALUE_TEST_VERSIONS"]))

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name != "fedvalue._version":
            return None
        spec = PathFinder.find_spec(name, path, target)
        spec.loader = Loader(name, spec.origin)
        return spec

sys.meta_path.insert(0, Finder())
"""


def release(folder: Path, **versions: str | int) -> dict[str, str]:
    """The environment of processes whose `fedvalue._version` has other values.

    Args:
        folder: An empty one, for the hook that Python loads at its start.
        **versions: Names in `fedvalue._version` and their values.
    """
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(_HOOK)
    path = os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH"))))
    return {**os.environ, "PYTHONPATH": path, "FEDVALUE_TEST_VERSIONS": json.dumps(versions)}
