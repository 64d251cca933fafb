"""Certificates as JSON data that tests change, sign again and check."""

from __future__ import annotations

from typing import Any

import msgspec

from fedvalue.deployment.certificate_check import CertificateCheck, check_certificate
from fedvalue.deployment.valuation_certificate import certificate_from, content_digest
from fedvalue.identity.cards import Identity


def check(data: dict[str, Any]) -> CertificateCheck:
    """Read the data as a certificate and check it."""
    return check_certificate(certificate_from(data))


def resigned(data: dict[str, Any], identity: Identity) -> dict[str, Any]:
    """Whatever the task party has changed, it can sign."""
    signature = identity.sign("certificate", content_digest(certificate_from(data)))
    return {**data, "signature": msgspec.to_builtins(signature)}
