"""Output of all commands: the valuation, messages, and files.

Results go to stdout, messages to stderr, so that `--json -` can be piped. Names may come from files written
by others: control sequences in them never reach the terminal.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedvalue.errors import InputError

if TYPE_CHECKING:
    from fedvalue.valuation.result import PartyValue, Valuation

_NAMES_SHOWN = 10
"""Names in a remark about many parties; the JSON has all of them."""


def say(message: str) -> None:
    """Print a message on stderr."""
    from fedvalue.untrusted_text import printable

    sys.stderr.write(f"{printable(message)}\n")


def print_line(text: str) -> None:
    """Print a line of the result on stdout."""
    from fedvalue.untrusted_text import printable

    sys.stdout.write(f"{printable(text)}\n")


def print_table(
    headings: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    footer: Sequence[str] = (),
    left: Sequence[int] = (0,),
    title: str | None = None,
) -> None:
    """Print a table on stdout: names wrap, figures stay whole even if the terminal is narrow.

    Columns in `left` are text; the others are figures, flush right. `footer` is the last line.
    """
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    from fedvalue.untrusted_text import printable

    lines = [[printable(cell) for cell in row] for row in rows]
    table = Table(
        box=SIMPLE_HEAD, pad_edge=False, show_footer=bool(footer), title=title, title_justify="left"
    )
    for k, heading in enumerate(headings):
        cells = [*heading.split(), *(line[k] for line in lines), *footer[k : k + 1]]
        wide = max((len(cell) for cell in cells), default=0)
        table.add_column(
            heading, footer[k] if footer else "", justify="left" if k in left else "right", overflow="fold",
            min_width=min(wide, 8) if k in left else wide,
        )  # fmt: skip
    for line in lines:
        table.add_row(*line)
    # Names are shown as they are, brackets and colons included.
    Console(file=sys.stdout, highlight=False, markup=False, emoji=False).print(table, crop=False)


def show_valuation(valuation: Valuation, *, own: str | None = None) -> None:
    """Print a result: the advice, the values with the best party first, and the method.

    With `own`, a data party reads its share: the task party decides, so no advice is printed.
    """
    from fedvalue.decisions.acceptance import acceptance
    from fedvalue.decisions.selection import select
    from fedvalue.reports import wording

    if own is None:
        for sentence in wording.decision(valuation, select(valuation)):
            print_line(sentence)
        if (outcome := acceptance(valuation)) is not None:
            print_line(wording.acceptance_sentence(valuation, outcome))
    _print_values(valuation, [p for p in valuation.parties if own is None or p.name == own])
    for line in _remarks(valuation):
        print_line(line)


def _print_values(valuation: Valuation, parties: Sequence[PartyValue]) -> None:
    from fedvalue.reports import wording

    learnable = any(party.learnable is not None for party in parties)
    shares = [valuation.meaningful_share(party) for party in parties]
    columns: dict[str, list[str]] = {"party": [party.name for party in parties]}
    total = {"party": "all together"}
    if learnable:
        columns["learnable"] = ["" if p.learnable is None else f"{p.learnable:z.4f}" for p in parties]
        columns["95% interval"] = [wording.interval(p.learnable_interval) for p in parties]
        total["learnable"] = "" if valuation.learnable_total is None else f"{valuation.learnable_total:z.4f}"
        total["95% interval"] = wording.interval(valuation.learnable_total_interval)
    if any(share is not None for share in shares):
        columns["share"] = ["" if share is None else f"{100 * share:z.1f}%" for share in shares]
    if any(p.value is not None for p in parties):
        columns["Shapley-CMI"] = ["" if p.value is None else f"{p.value:z.4f}" for p in parties]
        total["Shapley-CMI"] = "" if valuation.total is None else f"{valuation.total:z.4f}"
    if any(p.interval is not None for p in parties):
        columns["± 95%"] = ["" if p.half_width is None else f"{p.half_width:z.4f}" for p in parties]
    elif not learnable and any(p.se_sampling for p in parties):
        columns["sampling error"] = [f"{p.se_sampling or 0.0:z.4f}" for p in parties]
    order = sorted(range(len(parties)), key=lambda k: -parties[k].leading)
    print_table(
        list(columns),
        [[cells[k] for cells in columns.values()] for k in order],
        footer=[total.get(heading, "") for heading in columns],
    )


def _remarks(valuation: Valuation) -> list[str]:
    """The method, warnings and notes."""
    from fedvalue.decisions.games import listing
    from fedvalue.reports import wording

    lines = [_how(valuation)]
    if valuation.privacy is not None:
        lines.append(wording.noise(valuation.privacy))
    lines += valuation.warnings
    lines += filter(None, [wording.no_interval(valuation)])
    lines += [f"{listing(names, _NAMES_SHOWN)}: {sentence}" for names, sentence in wording.flags(valuation)]
    lines += [f"{column.name}: {text}" for column in valuation.columns for text in column.warnings]
    if isinstance(sensitivity := valuation.details.get("sensitivity"), Mapping):
        lines.append(str(sensitivity.get("sentence", "")))
    lines += _since_last_time(valuation)
    return lines + [f"note: {note}" for note in valuation.details.get("notes", [])]


def _how(valuation: Valuation) -> str:
    how = f"Shapley-CMI {valuation.method}"
    if valuation.n_permutations is not None:
        how += f" with {valuation.n_permutations:,} permutations, seed {valuation.seed}"
    if valuation.method_reason and valuation.method_reason != "as asked for":
        how += f" ({valuation.method_reason})"
    parts = [f"{valuation.n_samples:,} rows, values in nats per row"]
    if valuation.utility_name is not None:
        parts = [
            f"{valuation.n_samples:,} rows; in place of learnable values those of the utility "
            f"{valuation.utility_name!r}, in its own unit"
        ]
    elif valuation.estimator:
        parts.append(f"learnable by {valuation.estimator.replace('-', ' ').replace('/', ' ')}")
    if valuation.total is not None:
        parts.append(how)
    if valuation.protocol:
        parts.append(f"protocol {valuation.protocol}")
    return "; ".join(parts)


def _since_last_time(valuation: Valuation) -> list[str]:
    """Added rows and changed values of a state."""
    details = valuation.details
    if "state" not in details:
        return []
    state = details["state"]
    lines = [f"{state['n_added']:,} rows added to {state['n_before']:,} in the state"]
    lines += [f"skipped, counted before: {name}" for name in state["skipped_files"]]
    verdict = {True: "more than its error", False: "within its error", None: "error unknown"}
    for change in details.get("changes", []):
        name = change["name"]
        before, after = details.get("learnable_before", {}).get(name), valuation.learnable[name]
        learnable = "" if before is None or after is None else f"learnable {before:z.4f} -> {after:z.4f}; "
        lines.append(
            f"since last time {name}: {learnable}Shapley-CMI {change['before']:.4f} -> "
            f"{change['after']:.4f}, {verdict[change.get('beyond_error')]}"
        )
    return lines


def refuse_unwritable(*targets: str | Path | None) -> None:
    """Refuse output files that cannot be written, before the work is done; skip "-" and None."""
    for target in targets:
        if target is None or target == "-":
            continue
        path = Path(target)
        if path.is_dir():
            raise InputError(f"cannot write {path}: it is a folder, not a file")
        if not path.parent.is_dir():
            raise InputError(f"cannot write {path}: there is no folder {path.parent}")
        if not os.access(path if path.exists() else path.parent, os.W_OK):
            raise InputError(f"cannot write {path}: no permission")


def wrote_json(data: Any, target: str | None, what: str) -> bool:
    """Write `data` as JSON; see `wrote_text`."""
    import json

    return target is not None and wrote_text(
        json.dumps(data, indent=2, ensure_ascii=False) + "\n", target, what
    )


def wrote_text(text: str, target: str | None, what: str) -> bool:
    """Write to the file `target`, or to stdout for "-"; True if stdout must contain nothing else."""
    if target is None:
        return False
    if target == "-":
        sys.stdout.write(text)
        return True
    write_text(Path(target), text)
    say(f"{what} written to {target}")
    return False


def print_json(data: Any, *, compact: bool = False) -> None:
    """Print a document of ours on stdout, on a single line if `compact`."""
    import json

    import msgspec

    sys.stdout.write(json.dumps(msgspec.to_builtins(data), indent=None if compact else 2) + "\n")
    sys.stdout.flush()


def write_text(path: Path, text: str) -> None:
    """Write a result file; a failure is an InputError."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}") from error
