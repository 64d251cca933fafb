"""An interrupt is an interrupt, also when compiled code was at work."""

from __future__ import annotations

import pytest

from fedvalue.engines import plain_interrupts


@plain_interrupts()
def fail(cause: BaseException) -> None:
    """What CPython raises when a compiled function returns with an exception set."""
    raise SystemError("returned a result with an exception set") from cause


def test_an_interrupt_behind_system_errors_is_raised() -> None:
    with pytest.raises(KeyboardInterrupt):
        fail(KeyboardInterrupt())
    inner = SystemError("returned a result with an exception set")
    inner.__cause__ = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        fail(inner)


def test_other_system_errors_stay_what_they_are() -> None:
    with pytest.raises(SystemError):
        fail(ValueError())
