"""Manifests on disk, and signing them there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedvalue.agreement.manifest import MAX_BYTES, SignedManifest
from fedvalue.errors import ConfigError
from fedvalue.storage.durable_files import write_durably

if TYPE_CHECKING:
    from pathlib import Path


def read_manifest(path: Path) -> SignedManifest:
    """The manifest in a file; nothing but its form is checked.

    Raises:
        ConfigError: E_MANIFEST.
    """
    try:
        with path.open("rb") as file:
            text = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}", code="E_MANIFEST") from None
    try:
        return SignedManifest.from_json(text)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}", code=error.code) from None


def write_manifest(path: Path, signed: SignedManifest) -> None:
    """Write a manifest; it is not secret."""
    write_durably(path, signed.to_json().encode(), mode=0o644)


def merge(first: SignedManifest, second: SignedManifest) -> SignedManifest:
    """The signatures of two copies of one manifest together.

    Raises:
        ConfigError: E_MANIFEST: they are not the same agreement.
    """
    if first.run_id != second.run_id:
        raise ConfigError("the two files hold different agreements", code="E_MANIFEST")
    return SignedManifest(first.manifest, {**first.signatures, **second.signatures})
