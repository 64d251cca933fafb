"""An acceptance test: the gain that the parties' data must reach, fixed before anybody sees a value."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import Literal, get_args

from msgspec.structs import force_setattr

from fedvalue.documents import Document
from fedvalue.errors import InputError

Metric = Literal["errors_avoided_per_1000", "auc_gain", "log_loss_gain"]

METRICS: tuple[str, ...] = get_args(Metric)

MAX_THRESHOLD = 1000
MAX_DECIMALS = 12


class AcceptanceTest(Document, frozen=True, kw_only=True):
    """A metric of the uplift, and the smallest gain over the task party alone that passes.

    Args:
        metric: "errors_avoided_per_1000", "auc_gain" or "log_loss_gain" (nats per row).
        threshold: The smallest gain that passes. A number becomes text like "0.02": an agreement holds no
            binary fractions.
        party: The data party that must reach it alone; None for all of them together.

    Raises:
        InputError: An unknown metric, or a threshold that is out of range.
    """

    metric: Metric
    threshold: str
    party: str | None = None

    def __post_init__(self) -> None:
        if self.metric not in METRICS:
            known = ", ".join(METRICS)
            raise InputError(f"the metric of an acceptance test is one of {known}, got {self.metric!r}")
        try:
            amount = Decimal(str(self.threshold).strip())
        except InvalidOperation:
            amount = Decimal(0)
        if not (amount.is_finite() and 0 < amount <= MAX_THRESHOLD and round(amount, MAX_DECIMALS) == amount):
            raise InputError(
                "the threshold of an acceptance test must be a number above 0 and at most "
                f"{MAX_THRESHOLD:,}, with at most {MAX_DECIMALS} decimals, got {self.threshold!r}"
            )
        force_setattr(self, "threshold", f"{amount.normalize():f}")

    @property
    def least(self) -> float:
        """The threshold as a number."""
        return float(self.threshold)

    @classmethod
    def parse(cls, text: str) -> AcceptanceTest:
        """Read "METRIC=AMOUNT" or "PARTY:METRIC=AMOUNT".

        Raises:
            InputError: Not of this form.
        """
        left, equals, amount = text.rpartition("=")
        party, _, metric = left.rpartition(":")
        if not equals:
            raise InputError(
                "an acceptance test is METRIC=AMOUNT or PARTY:METRIC=AMOUNT, such as auc_gain=0.02, "
                f"got {text!r}"
            )
        return cls(metric=metric.strip(), threshold=amount, party=party.strip() or None)  # type: ignore[arg-type]
