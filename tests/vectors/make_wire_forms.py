"""Record the forms of what participants send each other: `python -m tests.vectors.make_wire_forms`.

A release of the same `PROTOCOL_VERSION` must read what an older one writes, so a recorded form never changes
without that number. Forms that are new are added.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import msgspec

from fedvalue._version import PROTOCOL_VERSION, VALUES_VERSION
from fedvalue.agreement import manifest, manifest_rules
from fedvalue.deployment.network import wire
from fedvalue.invitation import exchange, invitation
from fedvalue.protocol import messages
from fedvalue.valuation.evidence import ESTIMATOR_VERSION

FILE = Path(__file__).with_name("wire-forms.json")


def kinds() -> Iterator[type[msgspec.Struct]]:
    """Every type whose fields travel."""
    yield messages.Envelope
    yield from get_args(messages.AnyMessage)
    yield from wire._decoders
    yield from (manifest.Manifest, manifest.Participant, manifest.Deadlines, manifest_rules.Versions)
    yield from (invitation.Invitation, invitation.Seat)
    yield from (exchange.Acceptance, exchange.Roster, exchange.Opening, exchange.Consent)


def forms() -> dict[str, dict[str, str]]:
    """The fields of each type with their types, as written in the source."""
    found = {}
    for kind in kinds():
        written: dict[str, str] = {}
        for base in reversed(kind.__mro__):
            written |= inspect.get_annotations(base)
        found[f"{kind.__module__.rpartition('.')[2]}.{kind.__name__}"] = {
            field: str(written[field]) for field in kind.__struct_fields__
        }
    return found


def record() -> dict[str, object]:
    """What the file holds."""
    return {
        "protocol_version": PROTOCOL_VERSION,
        "values_version": VALUES_VERSION,
        "estimator_version": ESTIMATOR_VERSION,
        "manifest": manifest.SCHEMA,
        "invitation": invitation.SCHEMA,
        "forms": forms(),
    }


if __name__ == "__main__":
    FILE.write_text(json.dumps(record(), indent=1) + "\n")
