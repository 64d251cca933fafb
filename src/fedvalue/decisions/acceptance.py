"""The verdict of the acceptance test that was fixed before the run."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from fedvalue.errors import InputError

if TYPE_CHECKING:
    from fedvalue.valuation.acceptance_test import AcceptanceTest
    from fedvalue.valuation.result import UpliftRow, Valuation


class AcceptanceVerdict(StrEnum):
    """What the interval of the gain says about the threshold."""

    PASS = "pass"  # noqa: S105  # a verdict, no password
    FAIL = "fail"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class Acceptance:
    """The test and its outcome.

    Args:
        threshold: The least gain required.
        party: The party tested alone; None for all parties together.
        gain: The estimate.
        low: Lower end of its 95% interval, None without one; at the threshold or above, the test is passed.
        high: Upper end; below the threshold, the test is failed.
        rows_needed: Rows that would settle an undecided test; None if unknown.
    """

    metric: str
    threshold: float
    party: str | None
    gain: float
    low: float | None
    high: float | None
    verdict: AcceptanceVerdict
    rows_needed: int | None


def check_party(test: AcceptanceTest | None, parties: Collection[str]) -> None:
    """Refuse a test of an unknown party, or text in place of a test, before any work is done."""
    from fedvalue.valuation.acceptance_test import AcceptanceTest

    if not isinstance(test, AcceptanceTest | None):
        raise InputError(
            "acceptance must be a fedvalue.AcceptanceTest, as in AcceptanceTest(metric='auc_gain', "
            f"threshold='0.02'), got {test!r}"
        )
    if test is not None and test.party is not None and test.party not in parties:
        raise InputError(
            f"the acceptance test names {test.party!r}; the data parties are {', '.join(parties)}"
        )


def with_acceptance(valuation: Valuation) -> Valuation:
    """The result with the outcome of its acceptance test in `details`, if it has one."""
    outcome = acceptance(valuation)
    if outcome is None:
        return valuation
    return replace(valuation, details={**valuation.details, "acceptance": msgspec.to_builtins(outcome)})


def acceptance(valuation: Valuation) -> Acceptance | None:
    """The outcome of a result's acceptance test; None without a test, or if the reader sees no uplift.

    Raises:
        InputError: The uplift lacks the party that the test names.
    """
    test = None if valuation.settings is None else valuation.settings.acceptance
    if test is None or valuation.uplift is None:
        return None
    names = [party.name for party in valuation.parties] if test.party is None else [test.party]
    nobody, tested = valuation.uplift_of(()), valuation.uplift_of(names)
    if nobody is None or tested is None:
        raise InputError(f"this result does not say what {test.party or 'all parties'} would bring")
    gain, ends = _measured(test, nobody, tested)
    low, high = ends or (None, None)
    verdict, rows = AcceptanceVerdict.UNDECIDED, None
    if low is not None and low >= test.least:
        verdict = AcceptanceVerdict.PASS
    elif high is not None and high < test.least:
        verdict = AcceptanceVerdict.FAIL
    elif low is not None and high is not None and gain != test.least:
        # Standard errors fall with the root of the number of rows.
        rows = math.ceil(valuation.n_samples * ((high - low) / 2 / (gain - test.least)) ** 2)
    return Acceptance(test.metric, test.least, test.party, gain, low, high, verdict, rows)


def _measured(
    test: AcceptanceTest, nobody: UpliftRow, row: UpliftRow
) -> tuple[float, tuple[float, float] | None]:
    """The gain over the task party alone, and its 95% interval."""
    if test.metric == "errors_avoided_per_1000":
        return 1000 * (row.accuracy - nobody.accuracy), row.errors_avoided_interval
    if test.metric == "auc_gain":
        return (row.auc or 0.5) - (nobody.auc or 0.5), row.auc_gain_interval
    return nobody.log_loss - row.log_loss, row.log_loss_gain_interval
