"""What every command shares on the terminal: the table of values and the progress bar.

Results go to stdout, progress and messages to stderr, so that `--json -` can be piped.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedvalue.errors import InputError

if TYPE_CHECKING:
    from types import FrameType

    from fedvalue.engines import Stop
    from fedvalue.typing import Progress
    from fedvalue.valuation.result import Valuation

# A warning about hundreds of parties names the first; the JSON has all of them.
_NAMES_SHOWN = 10


def say(message: str) -> None:
    """A message to the person, on stderr."""
    sys.stderr.write(f"{message}\n")


def show_valuation(valuation: Valuation) -> None:
    """Print the values as a table, best party first, and one line on how they were computed."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    with_error = any(party.interval is not None for party in valuation.parties)
    # Without statistics the error of n samples is not known; that of sampling is, and goes by its name.
    with_sampling = not with_error and any(party.se_sampling for party in valuation.parties)
    exact = valuation.privacy is None
    with_learnable = valuation.learnable_total is not None
    table = Table(box=SIMPLE_HEAD, pad_edge=False, title="Shapley-CMI in nats", title_justify="left")
    table.add_column("party", overflow="fold", min_width=8)
    table.add_column("value", justify="right")
    if with_error:
        table.add_column("± 95%", justify="right")
    if with_sampling:
        table.add_column("se sampling", justify="right")
    if exact:
        table.add_column("share", justify="right")
    if with_learnable:
        table.add_column("learnable", justify="right")
    for heading in ("alone", "last", "codes") if exact else ():
        table.add_column(heading, justify="right")
    for party in sorted(valuation.parties, key=lambda party: -party.value):
        row = [party.name, f"{party.value:.4f}"]
        if with_error:
            row.append("" if party.half_width is None else f"{party.half_width:.4f}")
        if with_sampling:
            row.append(f"{party.se_sampling:.4f}")
        if party.share is not None:
            row.append(f"{100 * party.share:.1f}%")
        if with_learnable:
            row.append("" if party.learnable is None else f"{party.learnable:.4f}")
        if exact:
            row += [f"{party.alone:.4f}", f"{party.last:.4f}", f"{party.n_codes:,}"]
        table.add_row(*row)
    # Names of parties and columns are shown as they are, brackets and colons included.
    console = Console(file=sys.stdout, highlight=False, markup=False, emoji=False)
    for column in table.columns[1:]:  # a line that is too long is better than a figure cut off
        column.min_width = max(len(str(cell)) for cell in (column.header, *column.cells))
    console.print(table, crop=False)
    console.print(_summary(valuation), soft_wrap=True)


def _summary(valuation: Valuation) -> str:
    from fedvalue.valuation.statistics import guard

    how = valuation.method
    if valuation.n_permutations is not None:
        how += f" with {valuation.n_permutations:,} permutations, seed {valuation.seed}"
    if valuation.method_reason and valuation.method_reason != "as asked for":
        how += f" ({valuation.method_reason})"
    total, held = f"total {valuation.total:.4f}", valuation.label_entropy
    if held is None:
        total += " nats"
    else:
        explained = 100 * valuation.total / held if held > 0 else 0.0
        total += f" of {held:.4f} nats that the label still holds ({explained:.1f}%)"
    lines = [
        f"{total}; {valuation.n_samples:,} samples; {how}"
        + (f"; protocol {valuation.protocol}" if valuation.protocol else "")
    ]
    if valuation.privacy is not None:
        from fedvalue.reports import wording

        lines.append(wording.noise(valuation.privacy))
    if valuation.learnable_total is not None:
        searched = valuation.details.get("learnable_search")
        lines.append(
            f"learnable from so many samples: {valuation.learnable_total:.4f} nats"
            + (f" ({searched})" if searched else "")
        )
    flagged: dict[str, list[str]] = {}
    for party in valuation.parties:
        for flag in party.flags:
            flagged.setdefault(flag, []).append(party.name)
    lines += [f"{_listed(names)}: {guard.describe(flag)}" for flag, names in flagged.items()]
    lines += _since_last_time(valuation.details)
    lines += [f"note: {note}" for note in valuation.details.get("notes", [])]
    return "\n".join(lines)


def _listed(names: list[str]) -> str:
    shown = ", ".join(names[:_NAMES_SHOWN])
    return shown if len(names) <= _NAMES_SHOWN else f"{shown} and {len(names) - _NAMES_SHOWN} more"


def _since_last_time(details: Mapping[str, Any]) -> list[str]:
    """What a state says about its earlier rows and values."""
    if "state" not in details:
        return []
    state = details["state"]
    lines = [f"{state['n_added']:,} samples added to {state['n_before']:,} in the state"]
    lines += [f"skipped, counted before: {name}" for name in state["skipped_files"]]
    for change in details.get("changes", []):
        verdict = {True: "more than its error", False: "within its error", None: "error unknown"}
        lines.append(
            f"since last time {change['name']}: {change['before']:.4f} -> {change['after']:.4f}, "
            f"{verdict[change.get('beyond_error')]}"
        )
    return lines


@contextmanager
def progress_bar(what: str) -> Iterator[Progress]:
    """A bar on stderr with an estimate of the time left; silent when stderr is no terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f}%"),
        TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn(), TextColumn("{task.fields[note]}"),
    )  # fmt: skip
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(what, total=None, note="")

        def tell(done: float, total: float, note: str = "") -> None:
            bar.update(task, completed=done, total=total, note=note)

        yield tell


@contextmanager
def interruptible() -> Iterator[Stop]:
    """Where work can end with the best answer so far, the first Ctrl-C asks for that; the next leaves."""
    from fedvalue.engines import Stop

    stop = Stop()
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:  # ignored, as behind & in a script
        yield stop
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        if stop.asked or not stop.possible:
            signal.default_int_handler(number, frame)
        stop.asked = True
        say("stopping: the values so far follow, with their error; Ctrl-C again leaves at once")

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, before)


def refuse_unwritable(*targets: str | Path | None) -> None:
    """Refuse files that cannot be written, before the work that they are to hold; "-" and None are none.

    Raises:
        InputError: A folder that is not there or may not be written to, or a folder instead of a file.
    """
    for target in targets:
        if target is None or target == "-":
            continue
        path = Path(target)
        if path.is_dir():
            raise InputError(f"cannot write {path}: expected a file, got a folder")
        if not path.parent.is_dir():
            raise InputError(f"cannot write {path}: there is no folder {path.parent}")
        if not os.access(path if path.exists() else path.parent, os.W_OK):
            raise InputError(f"cannot write {path}: no permission")


def wrote_json(data: Any, target: str | None, what: str) -> bool:
    """Write `data` to the file `target`, or to stdout for "-"; True when stdout shall hold nothing else."""
    if target is None:
        return False
    import json

    text = json.dumps(data, indent=2, ensure_ascii=False) + "\n"
    if target == "-":
        sys.stdout.write(text)
        return True
    write_text(Path(target), text)
    say(f"{what} written to {target}")
    return False


def write_text(path: Path, text: str) -> None:
    """Write a result file.

    Raises:
        InputError: The file cannot be written.
    """
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}") from error
