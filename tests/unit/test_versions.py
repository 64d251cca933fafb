"""The versions in `fedvalue._version` rise when they must (decision 0416)."""

from __future__ import annotations

import json

import pytest

from fedvalue._version import PROTOCOL_VERSION, VALUES_VERSION
from fedvalue.agreement import manifest
from fedvalue.valuation.evidence import ESTIMATOR_VERSION
from tests.vectors.make_wire_forms import FILE, forms

RECORDED = json.loads(FILE.read_text())
ADVICE = (
    "Raise PROTOCOL_VERSION, or the schema of the document, once per release; then record the forms with "
    "python -m tests.vectors.make_wire_forms"
)


@pytest.mark.parametrize("name", RECORDED["forms"])
def test_what_participants_send_keeps_its_form_within_a_protocol_version(name: str) -> None:
    """A decoder refuses a field more or less, so a changed form needs another version.

    A type may move to another module: its name counts.
    """
    if (RECORDED["protocol_version"], RECORDED["manifest"]) != (PROTOCOL_VERSION, manifest.SCHEMA):
        pytest.fail(ADVICE)
    now = {key.rpartition(".")[2]: form for key, form in forms().items()}
    assert now.get(name.rpartition(".")[2]) == RECORDED["forms"][name], ADVICE


def test_another_estimator_has_another_values_version() -> None:
    same = RECORDED["estimator_version"] == ESTIMATOR_VERSION
    assert same or RECORDED["values_version"] != VALUES_VERSION, "raise VALUES_VERSION"
