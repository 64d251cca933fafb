"""Errors keep their message and code across process borders; each class has its exit code."""

from __future__ import annotations

import pickle

import pytest

from fedvalue import errors
from fedvalue.cli import exit_codes

CLASSES = [
    errors.InputError, errors.ConfigError, errors.EngineError, errors.TransportError,
    errors.VerificationError, errors.LocalProtocolError, errors.RemoteProtocolError,
]  # fmt: skip


@pytest.mark.parametrize("kind", CLASSES)
def test_error_survives_pickling_with_its_code(kind: type[errors.FedValueError]) -> None:
    copy = pickle.loads(pickle.dumps(kind("what came", code="E_SPECIAL")))
    assert (type(copy), str(copy), copy.code) == (kind, "what came", "E_SPECIAL")


@pytest.mark.parametrize("kind", CLASSES)
def test_every_class_has_an_exit_code_with_a_meaning(kind: type[errors.FedValueError]) -> None:
    code = exit_codes.of(kind("x"))
    assert code not in (exit_codes.OK, exit_codes.INTERNAL, exit_codes.USAGE)
    assert exit_codes.MEANINGS[code]


def test_exit_codes_are_distinct() -> None:
    assert exit_codes.of(errors.FedValueError("x")) == exit_codes.INTERNAL
    codes = {exit_codes.of(kind("x")) for kind in (*CLASSES[:5], errors.ProtocolError)}
    assert len(codes) == 6
