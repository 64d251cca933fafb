"""Pytest plugin of `make check`: unit tests and commands count towards the coverage floor, the rest does not.

Tracing costs half as much time again and more, so whole protocol runs are not traced. Their fixtures and the
collection still are.
"""

from __future__ import annotations

from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
TRACED = (TESTS / "unit", TESTS / "cli")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every other test with pytest-cov's own `no_cover`."""
    for item in items:
        if not any(item.path.is_relative_to(folder) for folder in TRACED):
            item.add_marker("no_cover")
