"""Every exception that FedValue raises on purpose.

    FedValueError
    ├── InputError               the caller's data or arguments
    ├── ConfigError              a configuration file, manifest or identity
    ├── EngineError              the place where work runs: workers, cluster, storage
    ├── TransportError           the network, deadlines, a peer that cannot be reached
    ├── VerificationError        a check failed: nothing is released
    └── ProtocolError            somebody broke the protocol
        ├── LocalProtocolError   we did
        └── RemoteProtocolError  the peer did

A message states the problem, names the thing and offers a remedy. It may hold names and sizes, and
never tokens, keys, sample ids or rows. `code` is a short stable name (`E_MARGINAL`) for scripts,
logs and tests; the command line turns classes into exit codes (`cli/exit_codes.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


class FedValueError(Exception):
    """Base of all errors that FedValue raises on purpose.

    Args:
        message: The problem, the thing it is about, and the remedy.
        code: Stable short name; each class has its default.
    """

    default_code = "E_FEDVALUE"

    def __init__(self, message: str, *, code: str | None = None) -> None:
        super().__init__(message)
        self.code = code or self.default_code

    def __reduce__(self) -> tuple[object, ...]:
        # Errors cross process borders with their code.
        return (_rebuild, (type(self), str(self), self.code))


def _rebuild(kind: type[FedValueError], message: str, code: str) -> FedValueError:
    return kind(message, code=code)


class InputError(FedValueError, ValueError):
    """The caller's data or arguments are wrong."""

    default_code = "E_INPUT"


class ConfigError(FedValueError):
    """A configuration file, manifest or identity is wrong."""

    default_code = "E_CONFIG"


class EngineError(FedValueError):
    """The place where work runs failed: a worker, a cluster, storage."""

    default_code = "E_ENGINE"


class TransportError(FedValueError):
    """A peer could not be reached, or not in time.

    Args:
        message: What happened.
        code: Machine-readable kind.
        missing: The participants that did not come, where that is the reason.
    """

    default_code = "E_TRANSPORT"

    def __init__(self, message: str, *, code: str | None = None, missing: Sequence[str] = ()) -> None:
        super().__init__(message, code=code)
        self.missing = tuple(missing)


class VerificationError(FedValueError):
    """A check failed. The run is over and nothing is released."""

    default_code = "E_VERIFICATION"


class ProtocolError(FedValueError):
    """Somebody broke the protocol."""

    default_code = "E_PROTOCOL"


class LocalProtocolError(ProtocolError):
    """Our own side asked for a step that is not legal now."""

    default_code = "E_LOCAL"


class RemoteProtocolError(ProtocolError):
    """The peer sent something malformed or out of order."""

    default_code = "E_REMOTE"
