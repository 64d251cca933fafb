"""Short versions of the fuzzer and the soak; docs/reliability.md has the long ones."""

from __future__ import annotations

from functools import cache

import pytest

from fedvalue.deployment.network import wire
from tests.resilience.fuzz import Decoder, decoders, fuzz
from tests.resilience.soak import soak

NAMES = [
    "envelopes", "results", "manifests", "cards", "log lines", "receipts", "refusals", "certificates",
    "valuations", "invitations", "invitations, packed", "attestations", "server.toml", "party.toml",
    *(f"frames {kind.__name__}" for kind in vars(wire).values()
      if isinstance(kind, type) and issubclass(kind, wire.Frame) and kind is not wire.Frame),
]  # fmt: skip


@cache
def all_decoders() -> dict[str, Decoder]:
    return decoders()


def test_every_decoder_is_fuzzed() -> None:
    assert set(NAMES) == set(all_decoders())


@pytest.mark.parametrize("name", NAMES)
def test_a_decoder_answers_or_refuses(name: str) -> None:
    refused, wrong = fuzz(all_decoders()[name], 300, seed=2)
    assert wrong == []
    assert refused > 0 or name == "refusals"  # which gives None for words that are not ours


@pytest.mark.slow
@pytest.mark.network
def test_a_minute_under_fire(tmp_path) -> None:
    assert soak(1.0, 6, seed=3, root=tmp_path) == 0
