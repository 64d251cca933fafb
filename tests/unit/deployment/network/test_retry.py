"""Backoff: grows, is bounded, jitters, and ends in time."""

from __future__ import annotations

import random

import pytest

from fedvalue.deployment.network.retry import Backoff, Retry
from fedvalue.errors import TransportError


class Clock:
    def __init__(self) -> None:
        self.now = 0.0
        self.waits: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds


def backoff(clock: Clock, **options: float) -> Backoff:
    return Backoff(rng=random.Random(1), sleep=clock.sleep, clock=clock, **options)


def failing(times: int):
    left = [times]

    def attempt() -> str:
        if left[0] > 0:
            left[0] -= 1
            raise Retry(TransportError("unreachable", code="E_UNREACHABLE"))
        return "answer"

    return attempt


def test_a_call_that_works_waits_for_nothing():
    clock = Clock()
    assert backoff(clock).call(failing(0), seconds=10) == "answer"
    assert clock.waits == []


def test_waits_double_up_to_the_longest_with_at_least_half_of_each():
    clock = Clock()
    assert backoff(clock, first=1.0, longest=4.0).call(failing(5), seconds=100) == "answer"
    for wait, nominal in zip(clock.waits, [1, 2, 4, 4, 4], strict=True):
        assert nominal / 2 <= wait <= nominal


def test_when_time_is_up_the_last_cause_is_raised():
    clock = Clock()
    with pytest.raises(TransportError) as caught:
        backoff(clock, first=1.0).call(failing(1000), seconds=30)
    assert caught.value.code == "E_UNREACHABLE"
    assert clock.now <= 30


def test_the_first_try_happens_even_without_patience():
    assert backoff(Clock()).call(failing(0), seconds=0) == "answer"
    with pytest.raises(TransportError):
        backoff(Clock()).call(failing(1), seconds=0)


def test_other_errors_are_not_tried_again():
    clock = Clock()

    def attempt() -> None:
        raise TransportError("refused", code="E_RUN")

    with pytest.raises(TransportError, match="refused"):
        backoff(clock).call(attempt, seconds=10)
    assert clock.waits == []
