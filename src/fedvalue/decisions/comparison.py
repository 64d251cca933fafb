"""Two results side by side: differences in the question, and values that differ beyond their error.

The error of a difference depends on the rows. On the same rows the errors of the data cancel, and only the
error of sampled orders remains. On different rows the widths of both intervals add in squares, which is too
wide if the rows overlap.
"""

from __future__ import annotations

from math import hypot
from typing import TYPE_CHECKING, Any

from msgspec import structs

from fedvalue.decisions.leaks import Leaks
from fedvalue.decisions.own_share import is_own_share
from fedvalue.decisions.selection import select
from fedvalue.documents import Document
from fedvalue.valuation.acceptance_test import AcceptanceTest
from fedvalue.valuation.result import Z95

if TYPE_CHECKING:
    from fedvalue.valuation.result import Interval, PartyValue, Valuation
    from fedvalue.valuation.settings import ValuationSettings

_LEAST_CHANGE = 1e-4
"""Smaller differences cannot be told apart in print, and a released value may be rounded to this grid."""


class ValueChange(Document, frozen=True, kw_only=True, omit_defaults=True):
    """One party's value in two results, in nats.

    Args:
        name: The party.
        before: In the first result.
        after: In the second.
        expected: The earlier value, on average, if nothing had changed, where it is not `after`.
        error: Standard error of the difference; None if unknown.
        beyond_error: The difference exceeds its error at 95%; None if unknown.
    """

    name: str
    before: float
    after: float
    expected: float | None = None
    error: float | None = None
    beyond_error: bool | None = None


class Comparison(Document, frozen=True, kw_only=True, omit_defaults=True):
    """What changed from one result to another.

    Args:
        same_rows: Both come from the same files; None if the files differ, or a result does not name them,
            but the number of rows is the same: another file may hold the same rows.
        asked: Differences in the question, one sentence each.
        only_before, only_after: Parties of one result alone.
        total: The learnable value of all parties together.
        parties: The learnable value of each party of both results.
        invited_before, invited_after: The parties that each result advises to invite.
        advised: Both results advise anything; a data party's own result does not.
        doubts: Columns of these parties that reproduce the label, one sentence per result that has them.
    """

    same_rows: bool | None = None
    asked: tuple[str, ...] = ()
    only_before: tuple[str, ...] = ()
    only_after: tuple[str, ...] = ()
    total: ValueChange | None = None
    parties: tuple[ValueChange, ...] = ()
    invited_before: tuple[str, ...] = ()
    invited_after: tuple[str, ...] = ()
    advised: bool = True
    doubts: tuple[str, ...] = ()

    @property
    def sentences(self) -> tuple[str, ...]:
        """The comparison in words, the advice first."""
        earlier, later = (", ".join(names) or "nobody" for names in (self.invited_before, self.invited_after))
        same_advice = set(self.invited_before) == set(self.invited_after)
        advice = (
            f"is the same: invite {earlier}"
            if same_advice
            else f"changes: invite {later} instead of {earlier}"
        )
        sentences = [f"the advice {advice}"] if self.advised else []
        sentences += self.doubts
        moved = [change for change in self.parties if change.beyond_error]
        for change in moved:
            rises = "rises" if change.after > change.before else "falls"
            sentences.append(
                f"{change.name} {rises} beyond its error: {change.before:z.4f} -> {change.after:z.4f} nats"
            )
        unknown = [change.name for change in self.parties if change.beyond_error is None]
        if unknown:
            sentences.append(f"the error of {', '.join(unknown)} is not known")
        if self.parties and not moved and not unknown:
            sentences.append("no value changes beyond its error")
        if self.only_before:
            sentences.append(f"only in the first result: {', '.join(self.only_before)}")
        if self.only_after:
            sentences.append(f"only in the second result: {', '.join(self.only_after)}")
        return (*sentences, *self.asked)


def compare(before: Valuation, after: Valuation) -> Comparison:
    """Compare two results."""
    same_rows = _same_rows(before, after)
    earlier = {party.name: party for party in before.parties}
    later = {party.name: party for party in after.parties}
    changes = [
        _change(party, later[name], same_rows=bool(same_rows))
        for name, party in earlier.items()
        if name in later
    ]
    invited = [select(result).parties for result in (before, after)]
    doubts = [Leaks.of(result, parties) for result, parties in zip((before, after), invited, strict=True)]
    total = None
    if before.learnable_total is not None and after.learnable_total is not None:
        # The coalition of all is valued, not sampled: on the same rows it has no error.
        widths = [0.0 if same_rows else _half(result.learnable_total_interval) for result in (before, after)]
        total = _judged("all together", before.learnable_total, after.learnable_total, *widths)
    return Comparison(
        same_rows=same_rows,
        asked=tuple(_asked(before, after)),
        only_before=tuple(name for name in earlier if name not in later),
        only_after=tuple(name for name in later if name not in earlier),
        total=total,
        parties=tuple(change for change in changes if change is not None),
        advised=not (is_own_share(before) or is_own_share(after)),
        invited_before=invited[0],
        invited_after=invited[1],
        doubts=tuple(
            f"in the {which} result {doubt.suspicion}: {doubt.remedy}"
            for which, doubt in zip(("first", "second"), doubts, strict=True)
            if doubt.columns
        ),
    )


def _change(before: PartyValue, after: PartyValue, *, same_rows: bool) -> ValueChange | None:
    if before.learnable is None or after.learnable is None:
        return None
    if same_rows:
        errors = before.se_learnable, after.se_learnable
        widths = tuple(None if error is None else Z95 * error for error in errors)
    else:
        widths = _half(before.learnable_interval), _half(after.learnable_interval)
    return _judged(before.name, before.learnable, after.learnable, *widths)


def _judged(
    name: str, before: float, after: float, half: float | None, later_half: float | None
) -> ValueChange:
    """A difference against the half widths of two 95% intervals."""
    if half is None or later_half is None:
        return ValueChange(name=name, before=before, after=after)
    width = hypot(half, later_half)
    beyond = abs(after - before) > max(width, _LEAST_CHANGE)
    return ValueChange(name=name, before=before, after=after, error=width / Z95, beyond_error=beyond)


def _half(interval: Interval | None) -> float | None:
    return None if interval is None else (interval[1] - interval[0]) / 2


def _same_rows(before: Valuation, after: Valuation) -> bool | None:
    if before.n_samples != after.n_samples:
        return False
    digests = []
    for result in (before, after):
        sources = () if result.provenance is None else result.provenance.sources
        if not sources or not all(source.sha256 for source in sources):
            return None
        digests.append(sorted((source.party, source.sha256) for source in sources))
    return True if digests[0] == digests[1] else None


def _asked(before: Valuation, after: Valuation) -> list[str]:
    """Differences in the question."""
    differences = []
    if before.n_samples != after.n_samples:
        differences.append(f"rows: {before.n_samples:,} -> {after.n_samples:,}")
    requests = [record.request if record else None for record in (before.provenance, after.provenance)]
    if requests[0] and requests[1] and requests[0].label != requests[1].label:
        differences.append(f"label: {requests[0].label!r} -> {requests[1].label!r}")
    differences += _columns(before, after)
    if before.settings is not None and after.settings is not None:
        old, new = _flat(before.settings), _flat(after.settings)
        differences += [
            f"{key.replace('_', ' ')}: {_said(old[key])} -> {_said(new[key])}"
            for key in old
            if old[key] != new[key]
        ]
    if before.protocol != after.protocol:
        differences.append(f"protocol: {before.protocol or 'none'} -> {after.protocol or 'none'}")
    if before.estimator != after.estimator:
        differences.append(f"estimator: {before.estimator} -> {after.estimator}")
    versions = [record.software if record else None for record in (before.provenance, after.provenance)]
    if all(versions) and versions[0] != versions[1]:
        differences.append(f"software: {versions[0]} -> {versions[1]}")
    return differences


def _flat(settings: ValuationSettings) -> dict[str, Any]:
    fields = structs.asdict(settings)
    return fields | structs.asdict(fields.pop("coding"))


def _said(setting: object) -> str:
    """A setting as people write it."""
    if isinstance(setting, AcceptanceTest):
        whose = "" if setting.party is None else f"{setting.party}:"
        return f"{whose}{setting.metric}={setting.threshold}"
    if setting is None or isinstance(setting, bool):
        return {None: "none", True: "yes", False: "no"}[setting]
    return ", ".join(map(str, setting)) or "none" if isinstance(setting, list | tuple) else str(setting)


def _columns(before: Valuation, after: Valuation) -> list[str]:
    """Parties of both results whose columns differ."""
    earlier, later = _owned(before), _owned(after)
    differences = []
    for name in [name for name in earlier if name in later]:
        gone, new = earlier[name] - later[name], later[name] - earlier[name]
        changes = [f"without {', '.join(sorted(gone))}"] if gone else []
        changes += [f"with {', '.join(sorted(new))}"] if new else []
        if changes:
            differences.append(f"columns of {name}: {', '.join(changes)}")
    return differences


def _owned(result: Valuation) -> dict[str, set[str]]:
    owned: dict[str, set[str]] = {}
    for column in result.columns:
        if column.party != "label":
            owned.setdefault(column.party, set()).add(column.name)
    return owned
