"""What every process of ours does first: hide its memory and files from other users."""

from __future__ import annotations

import os
import resource


def harden() -> None:
    """No core dumps (they would hold keys), new files for the owner only, quiet gRPC.

    gRPC writes addresses and TLS errors to stderr on its own; our log says what matters.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.umask(0o077)
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
