"""A manifest in words that a lawyer can follow. Nothing is left out that a participant agrees to."""

from __future__ import annotations

import math
import textwrap
from typing import TYPE_CHECKING

from fedvalue.agreement.run_settings import privacy_of
from fedvalue.protocol.privacy import ADJACENCY, OBSERVER
from fedvalue.untrusted_text import printable

if TYPE_CHECKING:
    from fedvalue.agreement.manifest import Manifest, SignedManifest

_WIDTH = 96

_PROTOCOLS = {
    "mirror": (
        "Each server receives a row per sample with a code per party; rows, columns and codes have secret "
        "names. With public statistics a server may guess some of them. Both servers compute "
        "independently. If a single server cheats and the parties are honest, the comparison detects every "
        "number that it changes by more than {tolerance}; then the run ends and no value is released."
    ),
    "paper": (
        "The computation server intersects encrypted sample ids, and the validation server checks it, as the "
        "paper describes."
    ),
    "single": "One server intersects encrypted sample ids. Nobody checks it: a wrong result is not detected.",
}
_POLICIES = {
    "valuation": (
        "The task party learns the value of every data party, the entropy of its label and, for few "
        "parties, the interactions between them. A data party learns about itself: value, share, value "
        "alone, value when added last, learnable value, their standard errors, number of codes and "
        "warnings; and about all: the total, the number of samples and the method. The numbers are exact: "
        "whoever chooses a label or a column chooses the question, and one made for the purpose can reveal "
        "attributes of single persons."
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
_COLUMNS = {
    "features": (
        "Columns are used one by one: for every code of a party the servers also see which values of its "
        "columns belong together, under secret names, so that the learnable value can use each column."
    ),
    "joint": (
        "The columns of a party are used as one: the servers see a single code for every combination of "
        "their values, and the learnable value treats each combination as a category of its own."
    ),
}


def explain(signed: SignedManifest) -> str:
    """The agreement as text, with who has signed it."""
    m = signed.manifest
    parts = [
        f"AGREEMENT {m.run_id.hex()}\n",
        f"Purpose: {printable(m.purpose)}\n",
        _section("1. Who takes part", _participants(m)),
        _section("2. What is computed, and who learns what", _computed(m) + _promise(m) + _samples(m)),
        _section("3. Limits", _limits(m)),
        _signatures(signed),
    ]
    return "\n".join(parts)


def _section(title: str, paragraphs: list[str]) -> str:
    lines = [title]
    for paragraph in paragraphs:
        lines += textwrap.wrap(paragraph, _WIDTH, initial_indent="   ", subsequent_indent="   ")
    return "\n".join(lines) + "\n"


def _participants(m: Manifest) -> list[str]:
    return [
        f"Consortium {m.consortium!r}.",
        f"Task party (holds the label, learns the values): {m.task.name}",
        f"Data parties (are valued): {', '.join(party.name for party in m.data)}",
        f"Computation server: {m.compute.name} at {m.compute.endpoint}",
        f"Validation server: {m.validate.name} at {m.validate.endpoint}",
        "The two servers must be run by different operators: if they work together, or if any party works "
        "together with a server, the protection described here does not hold.",
    ]


def _computed(m: Manifest) -> list[str]:
    tolerance = "1e-9" if m.epsilon is None else "2e-9"  # noise adds the rounding to the grid
    paragraphs = [
        "The value of each data party's data for predicting the task party's label (Shapley value of "
        "conditional mutual information, in nats, and what a model can learn of it).",
        f"Protocol {m.protocol!r}. {_PROTOCOLS[m.protocol].format(tolerance=tolerance)}",
    ]
    if m.protocol == "paper":
        hardened = "switched on" if m.harden else "switched OFF: a cheating server can go undetected"
        known = (
            "the parties draw their numbers, and the servers know the range only"
            if isinstance(m.n_r, str)
            else "the servers know this number, so it hides no count from them"
        )
        paragraphs.append(
            f"{m.q} encryption ids per sample, {m.n_r} adversarial samples per cell ({known}); additional "
            f"checks are {hardened}."
        )
    policy = _POLICIES[m.policy if m.protocol == "mirror" else "all"] if m.epsilon is None else _NOISY
    return [*paragraphs, f"Output policy {m.policy!r}. {policy}", _COLUMNS[m.settings.columns]]


def _promise(m: Manifest) -> list[str]:
    """What the noise promises, with everything that belongs to the promise."""
    privacy = privacy_of(m, m.n_samples)
    if privacy is None:
        return []
    epsilon = float(privacy.epsilon)
    size = f"The noise on each value has a Laplace distribution with a scale of {privacy.scale:.3g} nats"
    if m.align == "intersect":
        size += f" if all {m.n_samples} samples are common, and larger if fewer are"
    return [
        f"Noise with epsilon = {m.epsilon} and delta = 0. {size}: 19 times in 20 it is below "
        f"{math.log(20) * privacy.scale:.3g} nats, either way.",
        "What this promises to each person: any result is at most "
        f"{math.exp(epsilon):.3g} times as likely with that person's data as with any other data in their "
        "place, whatever else somebody knows. The closer this factor is to 1, the less can be learned about "
        "one person. Runs on the same persons add up: after two of them the factor is the square. Each party "
        "keeps a ledger and refuses a run beyond its budget.",
        f"Tables that are compared (adjacency): {ADJACENCY}.",
        f"Protected against (observer): {OBSERVER}. Both servers know the noise and the exact values of "
        "unnamed columns.",
    ]


def _samples(m: Manifest) -> list[str]:
    if m.align == "equal":
        brought = (
            f"Every party brings the same {m.n_samples} samples; this is proved before anything is sent."
        )
    else:
        brought = (
            f"Each party brings at most {m.n_samples} samples. The servers learn how the encrypted ids "
            "overlap; each party learns which of its own samples all parties have: of a person on its list, "
            "that the person is on everybody's."
        )
    settings, coding = m.settings, m.settings.coding
    sampled = f"from {settings.n_permutations} sampled orders, seed {settings.seed}"
    how = {"exact": "exactly", "sampled": sampled, "auto": f"exactly where affordable, else {sampled}"}
    bins = "of equal width" if coding.binning == "width" else "of about equal size"
    coded = f"Numbers are cut into {coding.bins} bins {bins}"
    if coding.label_bins is not None:
        coded += f", a numeric label into {coding.label_bins}"
    if coding.pca is not None:
        coded += f"; a party with more than {coding.pca} columns uses as many principal components"
    return [brought, f"{coded}. Values are computed {how[settings.method]}."]


def _limits(m: Manifest) -> list[str]:
    if m.research:
        paragraphs = ["RESEARCH: the usual lower limits on samples and upper limits on detail are LIFTED."]
    else:
        paragraphs = [
            f"At least {m.min_samples} samples; at least {m.min_rows_per_code} samples per distinct "
            "combination of a party's attributes on average. Otherwise nothing is computed."
        ]
        if m.protocol == "mirror" and m.policy == "valuation" and m.epsilon is None:
            paragraphs.append(
                f"At least {m.min_cell} samples of every label and of every combination of the task party's "
                "attributes, or both servers refuse."
            )
    d = m.deadlines
    return [
        *paragraphs,
        f"Stages may take {d.keying} s (keys), {d.upload} s (upload), {d.compute} s (waiting for answers "
        "after the computation). A participant who is missing then is named, and nothing is released.",
        f"Valid from {m.created:%Y-%m-%d %H:%M} to {m.expires:%Y-%m-%d %H:%M} UTC, for one run only.",
        f"Each party may send each server {m.max_bytes:,} bytes and a sixteenth more for packaging; a "
        "server's software deletes them when the run ends.",
        f"Software version {m.code_version}.",
    ]


def _signatures(signed: SignedManifest) -> str:
    lines = ["4. Signatures, each with the fingerprint of its identity card"]
    for one in signed.manifest.participants:
        mark = "signed" if one.name in signed.signatures else "NOT SIGNED"
        lines.append(f"   {one.name:<32} {one.role:<9} {mark}")
        lines.append(f"      {signed.manifest.card_of(one).fingerprint}")
    return "\n".join(lines) + "\n"
