"""The exit codes of every command, in one table. A number is never reused for another meaning."""

from __future__ import annotations

from fedvalue import errors

OK = 0
INTERNAL = 1
USAGE = 2
INPUT = 3
CONFIG = 4
ENGINE = 5
TRANSPORT = 6
VERIFICATION = 7
PROTOCOL = 8
INTERRUPTED = 130

MEANINGS = {
    OK: "done",
    INTERNAL: "an error inside FedValue: please report it",
    USAGE: "the command line is wrong",
    INPUT: "the data or an argument is wrong",
    CONFIG: "a configuration file, manifest or identity is wrong",
    ENGINE: "a worker, a cluster or storage failed",
    TRANSPORT: "a peer could not be reached, or not in time",
    VERIFICATION: "a check failed: nothing was released",
    PROTOCOL: "a participant broke the protocol: nothing was released",
    INTERRUPTED: "stopped by Ctrl-C",
}

_BY_CLASS: tuple[tuple[type[errors.FedValueError], int], ...] = (
    (errors.InputError, INPUT),
    (errors.ConfigError, CONFIG),
    (errors.EngineError, ENGINE),
    (errors.TransportError, TRANSPORT),
    (errors.VerificationError, VERIFICATION),
    (errors.ProtocolError, PROTOCOL),
)


def of(error: errors.FedValueError) -> int:
    """The exit code of an error."""
    return next((code for kind, code in _BY_CLASS if isinstance(error, kind)), INTERNAL)
