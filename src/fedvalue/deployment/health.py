"""The health of one machine: its disk, its clock, its memory and its cards.

`/healthz`, `fedvalue doctor` and the servers' log show the same findings. Nothing here uses the network.
"""

from __future__ import annotations

import ctypes
import datetime as dt
import os
import shutil
import time
from collections.abc import Callable, Iterable
from enum import StrEnum
from pathlib import Path

from fedvalue.documents import Document
from fedvalue.errors import ConfigError, EngineError
from fedvalue.identity.cards import Card
from fedvalue.identity.tls_certificates import validity
from fedvalue.storage.durable_files import write_durably

LOW_DISK = 256 << 20
"""Free bytes below which an operator is warned: a few uploads of a million rows."""
NO_DISK = 4 << 20
"""Free bytes below which a server takes no chunk and may not be able to end a run."""
SOON = dt.timedelta(days=14)
"""A card that expires within this time gets a warning."""
CLOCK_SECONDS = 60.0
"""Largest difference of two clocks without a warning: certificates and deadlines are far coarser."""
_ADJTIMEX_UNSYNCHRONISED = 5


class Level(StrEnum):
    """How bad a finding is: only `fail` keeps a participant from working."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


class Finding(Document, frozen=True):
    """The outcome of one check.

    Args:
        check: The object of the check, in one or two words.
        level: ok, warn or fail.
        words: The finding, without paths where peers may see it.
        remedy: What to do; empty when nothing is wrong.
    """

    check: str
    level: Level
    words: str
    remedy: str = ""

    def __str__(self) -> str:
        return f"{self.check}: {self.words}" + (f"; {self.remedy}" if self.remedy else "")


def check_disk(folder: Path, *, needed: int = LOW_DISK) -> Finding:
    """Check that a state folder can be written, by writing to it, and has free space."""
    try:
        write_durably(folder / ".health", b"ok\n")
    except EngineError as error:
        cause = error.__cause__
        reason = (cause.strerror if isinstance(cause, OSError) else None) or "not known"
        problem = f"the state folder cannot be written ({reason})"
        return Finding("disk", Level.FAIL, problem, "free some space")
    free = shutil.disk_usage(folder).free
    space = f"{_size(free)} free for the state folder"
    if free < NO_DISK:
        return Finding("disk", Level.FAIL, f"the disk is full: {space}", "free some space")
    if free < needed:
        return Finding("disk", Level.WARN, space, f"free some space: {_size(needed)} would be safe")
    return Finding("disk", Level.OK, space)


def check_clock(now: float, *, newest: float = 0.0) -> Finding:
    """Check that the clock is not behind the last stored entry, and that the kernel trusts it.

    Args:
        now: Seconds since 1970.
        newest: Time of the last entry that this machine has stored.
    """
    shown = f"{_utc(now):%Y-%m-%d %H:%M:%S} UTC"
    if now + CLOCK_SECONDS < newest:
        behind = f"the clock says {shown}, {duration(newest - now)} before the last entry of the state folder"
        return Finding("clock", Level.FAIL, behind, "set the clock (timedatectl, chronyc tracking)")
    if not _synchronised():
        unknown = f"{shown}, not synchronised as far as the kernel knows"
        return Finding("clock", Level.WARN, unknown, "run chrony or systemd-timesyncd")
    return Finding("clock", Level.OK, shown)


def check_cards(own: Card, cards: Iterable[Card], now: float) -> list[Finding]:
    """Check that our card and the pinned ones are valid; one finding for us, and one per problem."""
    moment, findings = _utc(now), []
    for card in (own, *(card for card in cards if card.name != own.name)):
        mine = card.name == own.name
        level = Level.FAIL if mine else Level.WARN
        whose = "our own card" if mine else f"the card of {card.name!r}"
        remedy = "make a new identity and send its card" if mine else f"ask {card.name!r} for its new card"
        first, last = validity(card.certificate)
        until = f"{last:%Y-%m-%d %H:%M} UTC"
        if moment < first:
            early = f"{whose} is valid only from {first:%Y-%m-%d %H:%M} UTC, this clock says {moment:%H:%M}"
            findings.append(Finding("card", level, early, "set the clock"))
        elif moment >= last:
            findings.append(Finding("card", level, f"{whose} expired at {until}", remedy))
        elif last - moment < SOON:
            findings.append(Finding("card", Level.WARN, f"{whose} expires at {until}", remedy))
        elif mine:
            findings.append(Finding("card", Level.OK, f"{whose} is valid until {until}"))
    return findings


def check_memory(needed: int) -> Finding:
    """Check that the machine has `needed` bytes of memory available."""
    free = available_memory()
    memory = f"{_size(free)} available, about {_size(needed)} needed"
    if free < needed:
        return Finding("memory", Level.WARN, memory, "use a larger machine, or a smaller memory_mib")
    return Finding("memory", Level.OK, memory)


def clock_difference(theirs: float, whose: str, now: float | None = None) -> str:
    """A sentence about two clocks that differ too much; empty if they agree or the other is unknown."""
    gap = theirs - (time.time() if now is None else now)
    if not theirs or abs(gap) <= CLOCK_SECONDS:
        return ""
    side = "ahead of" if gap > 0 else "behind"
    return f"the clock of {whose} is {duration(abs(gap))} {side} this machine's: one of the two is wrong"


def available_memory() -> int:
    """Bytes that a new process could use."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        available = next(line for line in lines if line.startswith("MemAvailable:"))
        return int(available.split()[1]) * 1024
    except (OSError, StopIteration, ValueError):
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def guarded(check: str, look: Callable[[], Finding]) -> Finding:
    """A finding, even when the check itself fails."""
    try:
        return look()
    except (ConfigError, EngineError, OSError) as error:
        return Finding(check, Level.FAIL, str(error))


def duration(seconds: float) -> str:
    """A time span for people: 42 s, 7 min, 2 h 5 min, 3 days."""
    whole = round(seconds)
    if whole < 120:
        return f"{whole} s"
    if whole < 7200:
        return f"{whole // 60} min"
    if whole < 2 * 86400:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    return f"{whole // 86400} days"


def _size(n_bytes: float) -> str:
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if n_bytes < 1024:
            return f"{n_bytes:.0f} {unit}" if unit == "bytes" else f"{n_bytes:.1f} {unit}"
        n_bytes /= 1024
    return f"{n_bytes:.1f} TiB"


def _utc(seconds: float) -> dt.datetime:
    return dt.datetime.fromtimestamp(seconds, dt.UTC)


def _synchronised() -> bool:
    """Whether the kernel reports a synchronised clock; True where it reports nothing."""
    try:
        # struct timex is below 256 bytes on every Linux; all zero, it only reads.
        state: int = ctypes.CDLL(None).adjtimex(ctypes.create_string_buffer(256))
    except (OSError, AttributeError):
        return True
    return state != _ADJTIMEX_UNSYNCHRONISED
