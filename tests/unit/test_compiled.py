"""Kernels kept on disk outlive the release that compiled them."""

from __future__ import annotations

import sys
import types

from numba.core.caching import IndexDataCacheFile

from fedvalue import compiled


def test_kernels_kept_for_a_type_that_a_newer_release_renamed_are_compiled_again(tmp_path, monkeypatch):
    assert compiled.kernel is not None  # loading it prepares numba
    release = types.ModuleType("release_of_kernels")
    release.Blocks = type("Blocks", (), {"__module__": "release_of_kernels"})
    monkeypatch.setitem(sys.modules, "release_of_kernels", release)
    key = (release.Blocks, "signature")
    kept = IndexDataCacheFile(str(tmp_path), "walk", source_stamp=1)
    kept.save(key, "machine code")
    assert kept.load(key) == "machine code"
    del release.Blocks
    upgraded = IndexDataCacheFile(str(tmp_path), "walk", source_stamp=2)
    assert upgraded.load("another signature") is None
    upgraded.save("another signature", "new code")
    assert upgraded.load("another signature") == "new code"
