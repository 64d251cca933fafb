"""Loaded once by the process from which the tests' processes are forked: the programs and their kernels."""

from __future__ import annotations

import sys

import tests.support.programs  # noqa: F401
from fedvalue.federated.warm_up import warm_up

warm_up(values=True)
assert "grpc" not in sys.modules
