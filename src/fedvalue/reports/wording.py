"""The words of the report: numbers as people read them, the answer in a sentence, the glossary."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fedvalue.valuation.result import PrivacyStatement, Valuation

GLOSSARY = (
    (
        "Shapley-CMI",
        "What a party's data tells about the label beyond what the task party knows already, averaged "
        "over all orders in which the parties could join. The values of all parties add up to the "
        "total.",
    ),
    (
        "Nat",
        "The unit of information used here. A fair coin holds 0.69 nats, a fair die 1.79; one bit is "
        "0.69 nats.",
    ),
    (
        "Learnable",
        "What this many samples are enough to learn from a party, shared out in the same way. The "
        "rest of its Shapley-CMI was memorised: it fits these rows and no others, as row numbers "
        "would. Where others memorise, an honest party’s learnable value can be above its "
        "Shapley-CMI.",
    ),
    (
        "95% interval",
        "If the samples were drawn again and again, intervals made this way would hold the true value "
        "about 95 times in 100, provided that every combination of codes has enough samples.",
    ),
    (
        "Share",
        "A party's value divided by the total.",
    ),
    (
        "Alone",
        "What a party tells when it is the only one that joins.",
    ),
    (
        "Last",
        "What would be lost if this party left while all others stayed.",
    ),
    (
        "Replaceable",
        "B is 83% replaceable by A when A tells already 83% of what B tells alone.",
    ),
    (
        "Codes",
        "How many different values a party's data takes after its numbers were put into bins.",
    ),
    (
        "Task party",
        "Who has the label and asks what others' data is worth for predicting it.",
    ),
)
"""Terms and their plain meanings, in the order in which the report uses them."""

PROTECTION = {
    None: "All columns were on one machine and were valued as plain tables. No protocol was involved, so "
    "nothing was hidden from that machine.",
    "single": "One server counted encrypted sets and was trusted to count honestly (protocol single). It saw "
    "no sample ids, codes or labels.",
    "paper": "Two servers counted encrypted sets with false samples among the real ones (protocol paper). A "
    "server that counts wrongly is detected with a probability that depends on the settings.",
    "mirror": "Every party sent masked codes to two servers, which counted independently and compared "
    "(protocol mirror). Parties' rows stayed hidden from both; a lie of one server is detected.",
}
"""What each protocol protects, in plain words."""

NOISE_GLOSSARY = (
    (
        "Noise",
        "A random number added to every value by both servers, unknown to all parties, so that no result "
        "tells much about any one person. A value can fall below 0 by it.",
    ),
    (
        "95% interval",
        "Without the noise, the value on these samples lies here 95 times in 100. It says nothing "
        "about other samples.",
    ),
    (
        "Epsilon",
        "How much a result may tell about one person: whatever was printed here, it is at most exp(epsilon) "
        "times as likely with that person's data as with any other in their place.",
    ),
)
"""Terms of a result with noise; they come before the others and replace those of the same name."""


def nats(value: float) -> str:
    """A value in nats, with enough digits to tell parties apart."""
    text = f"{value:.4f}" if abs(value) < 0.1 else f"{value:.3f}"
    return text.removeprefix("-") if float(text) == 0 else text


def percent(part: float) -> str:
    """A part of a whole; small ones keep a digit, and what is not nothing is not called 0%."""
    if 0 < part < 0.0005:
        return "<0.1%"
    return f"{part:.1%}" if abs(part) < 0.0995 else f"{part:.0%}"


def listing(names: Sequence[str]) -> str:
    """Names as people list them: a, b and c."""
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}"


def answer(result: Valuation) -> str:
    """The result in one or two sentences, by learnable values where they are known."""
    learned = result.learnable_total is not None
    total = result.learnable_total if result.learnable_total is not None else result.total
    parties = result.parties
    if result.privacy is not None or result.label_entropy is None:
        return _noisy_answer(result)
    together = "the party" if len(parties) == 1 else f"the {len(parties)} parties together"
    if result.label_entropy <= 0:
        return "The task party knows the label already: nobody's data can add to that."
    if total <= 1e-12:
        return f"Nothing could be learned about the label from {together} with {result.n_samples:,} samples."
    part = percent(total / result.label_entropy)
    verb = "teach" if learned else "tell"
    verb += "es" if learned and len(parties) == 1 else "s" if len(parties) == 1 else ""
    samples = f"From {result.n_samples:,} samples"
    opening = f"{samples}, {together} {verb} {part} of what was still unknown about the label"
    return f"{opening}{_who(result, total)}."


def noise(statement: PrivacyStatement) -> str:
    """The promise of a result with noise, with everything that belongs to it."""
    return (
        f"Laplace noise of scale {nats(statement.noise_scale)} nats was added to every value. "
        f"Differentially private with epsilon {statement.epsilon:g} and delta {statement.delta:g}, for "
        f"{statement.adjacency}; against {statement.observer}. Learnable values, shares, values alone and "
        "last, and numbers of codes are not released: they would be answers without noise."
    )


def _noisy_answer(result: Valuation) -> str:
    best = max(result.parties, key=lambda party: party.value)
    told = f"From {result.n_samples:,} samples and with noise on every value, all parties together tell "
    told += f"{nats(result.total)} nats about the label"
    if len(result.parties) == 1:
        return f"{told}."
    if best.value <= (best.half_width or 0.0):
        return f"{told}; no value stands out from the noise."
    return f"{told}; {best.name} has the largest value, {nats(best.value)}."


def _who(result: Valuation, total: float) -> str:
    if len(result.parties) == 1:
        return ""
    ranked = sorted(
        ((p.learnable if p.learnable is not None else p.value) / total, p.name) for p in result.parties
    )[::-1]
    lead = f"; {ranked[0][1]} brings {percent(ranked[0][0])} of that"
    if ranked[1][0] >= 0.1:
        lead += f", {ranked[1][1]} {percent(ranked[1][0])}"
    nothing = [name for part, name in ranked if part < 0.01]
    if not nothing:
        return lead
    few = listing(nothing) if len(nothing) <= 3 else f"{len(nothing)} parties"
    return f"{lead}, and {few} next to nothing"
