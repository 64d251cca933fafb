"""A manifest in words that a lawyer can follow. Nothing is left out that a participant agrees to."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from fedvalue.agreement.run_settings import privacy_of
from fedvalue.identity.cards import Card
from fedvalue.protocol.privacy import ADJACENCY, OBSERVER
from fedvalue.untrusted_text import printable

if TYPE_CHECKING:
    from fedvalue.agreement.manifest import Manifest, SignedManifest

_PROTOCOLS = {
    "mirror": (
        "Both servers count independently from masked codes. Where a server cheats alone and the parties "
        "are honest, the comparison detects every number that it changes by more than {tolerance}; then the "
        "run ends and no value is released."
    ),
    "paper": (
        "The computation server intersects encrypted sample ids, the validation server checks it, as the "
        "paper describes."
    ),
    "single": "One server intersects encrypted sample ids. Nobody checks it: a wrong result is not detected.",
}
_POLICIES = {
    "valuation": (
        "The task party learns the value of every data party, the entropy of its label and, for few "
        "parties, the interactions between them. A data party learns of itself: value, share, value alone, "
        "value when added last, learnable value, their standard errors, number of codes and warnings; and "
        "of all: the total, the number of samples and the method. No party learns how many samples have "
        "which combination of attributes. The numbers are exact: whoever chooses the label chooses the "
        "question, and a label made for it can still ask about few persons."
    ),
    "counts": (
        "The task party learns how many samples have each combination of attributes. From small or uniform "
        "groups it can infer attributes of individual persons. A data party learns that the run has ended."
    ),
    "all": (
        "EVERY party learns how many samples have each combination of attributes, and the values. From small "
        "or uniform groups it can infer attributes of individual persons."
    ),
}
_NOISY = (
    "The task party learns the value of every data party, a data party its own, and all learn the total: "
    "each value with random noise added, which no party knows. Nothing else about the data is released: no "
    "party learns how many samples have which combination of attributes, and no exact number."
)


def explain(signed: SignedManifest) -> str:
    """The agreement as text, with who has signed it."""
    m = signed.manifest
    parts = [
        f"AGREEMENT {m.run_id.hex()}\n",
        f"Purpose: {printable(m.purpose)}\n",
        _who(m),
        _what(m),
        _limits(m),
        _signatures(signed),
    ]
    return "\n".join(parts)


def _who(m: Manifest) -> str:
    lines = ["1. Who takes part", f"   Consortium {m.consortium!r}."]
    lines.append(f"   Task party (holds the label, learns the values): {m.task.name}")
    lines.append(f"   Data parties (are valued): {', '.join(party.name for party in m.data)}")
    lines.append(f"   Computation server: {m.compute.name} at {m.compute.endpoint}")
    lines.append(f"   Validation server: {m.validate.name} at {m.validate.endpoint}")
    lines.append("   The two servers must be run by different operators: if they work together, or if any")
    lines.append("   party works together with a server, the protection described here does not hold.")
    return "\n".join(lines) + "\n"


def _what(m: Manifest) -> str:
    lines = ["2. What is computed, and who learns what"]
    lines.append("   The value of each data party's data for predicting the task party's label")
    lines.append("   (Shapley value of conditional mutual information, in nats).")
    tolerance = "1e-9" if m.epsilon is None else "2e-9"  # with noise also the rounding to the grid
    lines.append(f"   Protocol {m.protocol!r}. {_PROTOCOLS[m.protocol].format(tolerance=tolerance)}")
    if m.protocol == "paper":
        hardened = "switched on" if m.harden else "switched OFF: a cheating server can pass unseen"
        known = ("their numbers are drawn by the parties, and the servers know the range only"
                 if isinstance(m.n_r, str) else "the servers know this number, so that it hides no count "
                 "from them")  # fmt: skip
        lines.append(f"   {m.q} encryption ids per sample, {m.n_r} adversarial samples per cell ({known}); "
                     f"additional checks are {hardened}.")  # fmt: skip
    policy = _POLICIES[m.policy if m.protocol == "mirror" else "all"] if m.epsilon is None else _NOISY
    lines.append(f"   Output policy {m.policy!r}. {policy}")
    lines += _promise(m)
    if m.align == "equal":
        lines.append(
            f"   Every party brings the same {m.n_samples} samples; this is proved before anything is sent."
        )
    else:
        lines.append(
            f"   Each party brings at most {m.n_samples} samples. The servers learn how the encrypted ids"
        )
        lines.append(
            "   overlap; each party learns which of its own samples all parties have: of a person on"
        )
        lines.append("   its list, that the person is on everybody's.")
    how = {"exact": "exactly", "sampled": f"by {m.n_permutations} sampled orders, seed {m.seed}"}
    auto = f"exactly where affordable, else by {m.n_permutations} sampled orders, seed {m.seed}"
    lines.append(f"   Numbers are cut into {m.bins} bins. Values are computed {how.get(m.method, auto)}.")
    return "\n".join(_wrapped(lines)) + "\n"


def _promise(m: Manifest) -> list[str]:
    """What the noise promises, with everything without which the promise means nothing."""
    privacy = privacy_of(m, m.n_samples)
    if privacy is None:
        return []
    epsilon = float(privacy.epsilon)
    size = f"The noise on each value is of the Laplace kind with a scale of {privacy.scale:.3g} nats"
    if m.align == "intersect":
        size += f" if all {m.n_samples} samples are common, and larger if fewer are"
    return [
        f"   Noise with epsilon = {m.epsilon} and delta = 0. {size}: 19 times in 20 it is below "
        f"{math.log(20) * privacy.scale:.3g} nats, either way.",
        "   What this promises to each person: whatever is released is at most "
        f"{math.exp(epsilon):.3g} times as likely with that person's data as with any other data in their "
        "place, whatever else somebody knows. The closer this factor is to 1, the less can be learned about "
        "one person. Runs on the same persons add up: after two of them the factor is the square. Each party "
        "keeps a ledger and refuses a run beyond its budget.",
        f"   Compared are (adjacency) {ADJACENCY}.",
        f"   Protected against (observer): {OBSERVER}. Both servers know the noise and the exact values of "
        "unnamed columns.",
    ]


def _limits(m: Manifest) -> str:
    lines = ["3. Limits"]
    if m.research:
        lines.append("   RESEARCH: the usual lower limits on samples and upper limits on detail are LIFTED.")
    else:
        lines.append(
            f"   At least {m.min_samples} samples; at least {m.min_rows_per_code} samples per distinct"
        )
        lines.append("   combination of a party's attributes on average. Otherwise nothing is computed.")
        if m.protocol == "mirror" and m.policy == "valuation" and m.epsilon is None:
            lines.append(
                f"   At least {m.min_cell} samples of every label and of every combination of the task"
            )
            lines.append("   party's attributes, or both servers refuse.")
    d = m.deadlines
    lines.append(
        f"   Stages may take {d.keying} s (keys), {d.upload} s (upload), {d.compute} s (computation); a"
    )
    lines.append("   participant who is missing then is named, and nothing is released.")
    lines.append(
        f"   Valid from {m.created:%Y-%m-%d %H:%M} to {m.expires:%Y-%m-%d %H:%M} UTC, for one run only."
    )
    lines.append(
        f"   Each party may send each server {m.max_bytes:,} bytes and a sixteenth more for packaging; a"
    )
    lines.append("   server's software deletes them when the run ends.")
    lines.append(f"   Software version {m.code_version}.")
    return "\n".join(lines) + "\n"


def _signatures(signed: SignedManifest) -> str:
    lines = ["4. Signatures, each with the fingerprint of its identity card"]
    for one in signed.manifest.participants:
        mark = "signed" if one.name in signed.signatures else "NOT SIGNED"
        lines.append(f"   {one.name:<32} {one.role:<9} {mark}")
        card = Card(signed.manifest.consortium, one.role, one.name, one.sign_key, one.certificate)
        lines.append(f"      {card.fingerprint}")
    return "\n".join(lines) + "\n"


def _wrapped(lines: list[str]) -> list[str]:
    import textwrap

    found: list[str] = []
    for line in lines:
        found += (
            textwrap.wrap(line, 96, subsequent_indent="   ", drop_whitespace=True)
            if len(line) > 96
            else [line]
        )
    return [line if line.startswith("   ") or line[:1].isdigit() else f"   {line}" for line in found]
