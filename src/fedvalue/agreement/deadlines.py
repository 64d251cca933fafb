"""How long a run may take: the manifest's deadlines, as each participant applies them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fedvalue.agreement.manifest import Manifest


def server_limit(manifest: Manifest, role: str, stage: str) -> int:
    """Seconds that a stage may take at the server `compute` or `validate`."""
    limits = manifest.deadlines
    if stage in ("open", "keying"):
        # Parties come to the computation server first, which has two stages until everybody is ready. It
        # ends the run before the validation server does, so that exactly those who are missing are named.
        return limits.keying * (3 if role == "validate" else 1)
    if stage == "uploading":
        # The validation server waits for uploads while the others still agree on keys. With noise each
        # server then waits for the other's contribution, which comes after the computation.
        keying = limits.keying if role == "validate" else 0
        return limits.upload + keying + (limits.compute if manifest.epsilon is not None else 0)
    return limits.compute


def party_limit(manifest: Manifest) -> int:
    """Seconds after which a party gives a run up: what the servers may take in all."""
    limits = manifest.deadlines
    return limits.keying * 2 + limits.upload + limits.compute * 2
