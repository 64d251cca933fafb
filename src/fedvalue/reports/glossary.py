"""The terms that a report uses, explained at its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fedvalue.valuation.result import Valuation

LEARNABLE = (
    (
        "Learnable value",
        "How much better a model predicts the label if it may use a party's data, shared fairly among the "
        "parties. It is measured on rows that the model has not seen, so memorised rows do not count.",
    ),
    ("Share", "A party's learnable value divided by that of all parties together."),
    (
        "95% interval",
        "If the rows were drawn again and again, intervals made this way would contain the true value in "
        "about 95 of 100 draws.",
    ),
    (
        "Undecided",
        "The interval of what a party adds contains 0 and also contributions that would matter. More rows "
        "make it narrower.",
    ),
    (
        "Nat",
        "The unit of information. A fair coin holds 0.69 nats, a fair die 1.79. A gain of 0.01 nats per row "
        "means that the probability given to the true label grows by about 1% on average.",
    ),
)
UPLIFT = (
    (
        "AUC",
        "Of all pairs of cases with different labels, the part that a model ranks in the right order: 0.5 is "
        "guessing, 1 is perfect.",
    ),
    (
        "KS",
        "The largest difference between the parts of the two classes that lie above a score: 0 is guessing, "
        "1 is perfect.",
    ),
    ("Log loss", "The average of −ln of the probability given to the true label, in nats; lower is better."),
)
SHAPLEY_CMI = (
    (
        "Shapley-CMI",
        "The paper's value: what a party's data says about the labels of these very rows beyond what the "
        "task party has, averaged over all orders in which the parties could join. Columns with many "
        "different values fit these rows by chance, which inflates it.",
    ),
    ("Task party", "The party that has the label and asks what others' data is worth for predicting it."),
)
NOISE = (
    (
        "Noise",
        "Random numbers that both servers add to every count before values are computed, unknown to all "
        "parties, so that no result reveals much about any one person. The intervals include it.",
    ),
    (
        "Epsilon",
        "How much a result may reveal about one person: every result is at most exp(epsilon) times as likely "
        "with that person's data as with any other in its place, except with the tiny probability delta.",
    ),
    ("Nat", "The unit of information. A fair coin holds 0.69 nats, a fair die 1.79."),
)


def glossary(valuation: Valuation) -> tuple[tuple[str, str], ...]:
    """The terms that the report of this result uses, with their plain meanings."""
    if valuation.privacy is not None:
        return NOISE + LEARNABLE + (UPLIFT if valuation.uplift else ())
    terms = LEARNABLE if valuation.learnable_total is not None else LEARNABLE[-1:]
    return terms + (UPLIFT if valuation.uplift else ()) + SHAPLEY_CMI
