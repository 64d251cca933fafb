"""A manifest in words that a lawyer can follow. Nothing is left out that a participant agrees to."""

from __future__ import annotations

import math
import textwrap
from fractions import Fraction
from typing import TYPE_CHECKING

from fedvalue.agreement.run_settings import privacy_of, terms_of
from fedvalue.protocol.privacy import ADJACENCY
from fedvalue.protocol.release_grid import most_bits
from fedvalue.untrusted_text import printable

if TYPE_CHECKING:
    from fedvalue.agreement.manifest import Manifest, SignedManifest
    from fedvalue.valuation.acceptance_test import AcceptanceTest

_WIDTH = 96

_PROTOCOLS = {
    "mirror": (
        "Each server sees every row of the joint table under secret names: per sample a code of every party "
        "and of the label, without ids. It knows which column is the label, but not whose "
        "the others are. With public statistics about the same population it may guess what most columns and "
        "codes mean, and whose they are; choose servers that may see such a table. Both servers compute "
        "independently. If a single server cheats and the parties are honest, the comparison detects {lies} "
        "before anything is released. A party that sends the servers different data gets no result."
    ),
    "gram": (
        "Each party splits its columns into three random parts and gives each server two of them. Every "
        "server learns how many columns each named party has, and how many codes each of them has. No server "
        "sees a row, an id, a code or a count, even if it cheats; together with parties whose rows have "
        "exactly one code per column it sees nothing beyond what these parties see. The servers add up how "
        "often two codes occur together and open these sums to the parties alone. The parties detect a "
        "changed sum, and the servers a row that is not what it should be, before anything is released. Two "
        "servers that work together see everything."
    ),
    "paper": (
        "The computation server intersects encrypted sample ids, and the validation server checks it, as the "
        "paper describes."
    ),
    "single": "One server intersects encrypted sample ids. Nobody checks it: a wrong result is not detected.",
}
_POLICIES = {
    "valuation": (
        "The task party learns about every data party its learnable value, its Shapley-CMI, what it is worth "
        "alone and when added last, and their errors; about all of them the interactions, how well the label "
        "is predicted with and without each of them and, for few parties, the learnable value of every "
        "set of parties; and the entropy of its label."
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
_TABLES = (
    "EVERY party learns how many samples have each pair of codes of any two columns, and each code with each "
    "label: exact counts, from which attributes of individual persons can be inferred. The values follow "
    "from them."
)
_NOISY_TABLES = (
    "Every party learns how many samples have each pair of codes of any two columns, and each code with each "
    "label, all of it with random noise that nobody knows; everything else follows from these counts: the "
    "learnable values of all parties, interactions and uplift. No exact number about the data is released, "
    "and the servers learn no result."
)
_NOISY = (
    "The task party learns the learnable value of every data party, interactions and uplift, a data party "
    "its own value, and all learn the total: all of it computed from counts with random noise, which no "
    "party knows. No exact number about the data is released."
)
_SHARES = {
    "small": (
        "A data party learns its learnable value, the learnable total and an error of each, from which its "
        "share follows; the number of samples and the method."
    ),
    "full": (
        "A data party learns every number about itself: learnable value, Shapley-CMI, what it is worth alone "
        "and when added last, and their errors; and of all parties both totals, the number of samples and "
        "the method."
    ),
}
_QUESTIONS = (
    "The party that chooses a label or a column chooses the question, and a column made for that purpose can "
    "reveal attributes of single persons"
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
_GATED = {
    "features": "distinct value of each column of a party, and per label",
    "joint": "distinct combination of the values of a party's columns, and per label",
}
_COUNTED = {
    "features": "value of each column of the task party",
    "joint": "combination of the values of the task party's columns",
}
_COMBINATIONS = (
    "Combinations of values of several columns are NOT limited: a combination may belong to a single person. "
    "Shapley-CMI compares persons within combinations of the task party's columns, so columns chosen for "
    "that purpose can ask about few persons. With columns = joint the limits apply to combinations."
)
_COLUMNS_OF_GRAM = (
    "Columns are used one by one, or a party's columns as one where it says so; the servers see neither."
)


def explain(signed: SignedManifest) -> str:
    """The agreement as text, with the signatures so far."""
    return "\n".join(
        [f"AGREEMENT {signed.run_id.hex()}\n", explain_terms(signed.manifest), _signatures(signed)]
    )


def explain_terms(m: Manifest) -> str:
    """The terms as text, without keys and signatures."""
    parts = [
        f"Purpose: {printable(m.purpose)}\n",
        _section("1. Who takes part", _participants(m)),
        _section("2. What is computed, and who learns what", _computed(m) + _promise(m) + _samples(m)),
        _section("3. Limits", _limits(m)),
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
        *(f"Assisting server: {server.name} at {server.endpoint}" for server in m.of_role("assist")),
        _operators(m),
    ]


def _operators(m: Manifest) -> str:
    if m.protocol == "gram":
        return (
            "The three servers must be run by three different operators, none of them the task party: if two "
            "of them work together, the protection described here does not hold."
        )
    return (
        "The two servers must be run by different operators: if they work together, or if any party works "
        "together with a server, the protection described here does not hold."
    )


def _grid(m: Manifest) -> str:
    """The precision of released numbers, and its consequence."""
    if m.grid is None:
        return f"The numbers are exact to the last digit. {_QUESTIONS}, of many of them at once."
    step = terms_of(m).share_step(m.n_samples)
    bits = ""
    if m.shares == "small":
        most = most_bits(step or Fraction(m.grid))
        bits = (
            f", but with these numbers a data party learns at most {most} bits in one run with two labels, "
            "about all persons together"
        )
    return (
        f"Numbers in nats are multiples of {m.grid}; errors are rounded up. {_coarse(m, step)}{_QUESTIONS}"
        f"{bits}. Parties that do not trust each other should agree on an epsilon."
    )


def _coarse(m: Manifest, step: Fraction | None) -> str:
    """The rounding of a data party's numbers, and what they still reveal."""
    if step is None:
        return ""
    most = math.log(m.n_samples) / m.n_samples
    return (
        f"What a data party gets is rounded at random to multiples of {float(step):g} with {m.n_samples} "
        "samples, more coarsely with fewer: a change by a part of this step shows with that probability. "
        f"One label changes a value by up to about {most:.1g}. "
    )


def _computed(m: Manifest) -> list[str]:
    changed = f"every number that it changes by more than {m.grid or '1e-9'} nats"
    lies = changed if m.epsilon is None else "every count that it changes,"
    how = "Shapley value of conditional mutual information, in nats, and what a model can learn of it"
    if m.epsilon is not None:
        how = "Shapley value of what a model can learn, in nats, from counts with noise"
    elif m.protocol == "gram":
        how = "Shapley value of what a model can learn, in nats, from counts of pairs"
    paragraphs = [
        f"The value of each data party's data for predicting the task party's label ({how}).",
        f"Protocol {m.protocol!r}. {_PROTOCOLS[m.protocol].format(lies=lies)}",
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
        paragraphs.append(_cheating_parties(m))
    paragraphs.append(f"Output policy {m.policy!r}. {_released(m)}")
    if m.protocol == "mirror" and m.policy == "valuation" and m.epsilon is None:
        paragraphs += [_SHARES[m.shares], _grid(m)]
    return [*paragraphs, _COLUMNS_OF_GRAM if m.protocol == "gram" else _COLUMNS[m.settings.columns]]


def _released(m: Manifest) -> str:
    """What each participant learns."""
    if m.protocol == "gram":
        return _TABLES if m.epsilon is None else _NOISY_TABLES
    if m.epsilon is not None:
        return _NOISY
    return _POLICIES[m.policy if m.protocol == "mirror" else "all"]


def _cheating_parties(m: Manifest) -> str:
    """A data party's gain from lying under `paper`."""
    if m.harden and m.by_coalition:
        return (
            f"Every coalition is asked for itself and compared with the others: 2^{len(m.data)} tables, each "
            "with its own tokens (`fedvalue manifest preview` shows the cost). A data party whose column "
            "resembles the task party's attributes can still claim a value that it does not have: the "
            "software of a data party sees which label a query is about."
        )
    return (
        "Coalitions are NOT compared: a data party can take another data party's value by sending other ids "
        "for each query."
    )


def _promise(m: Manifest) -> list[str]:
    """The promise of the noise, with all its conditions."""
    privacy = privacy_of(m, m.n_samples, len(m.data))
    if privacy is None:
        return [
            "No noise is added. Each party counts the runs that release exact values of the same persons and "
            "refuses one beyond its limit. Parties that do not trust each other should agree on an epsilon: "
            "`fedvalue manifest preview` shows what it costs and what exact values reveal."
        ]
    epsilon = float(privacy.epsilon)
    spread = math.sqrt(privacy.total(privacy.label_variance))
    size = f"{spread:.3g} persons if every data party brings one column"
    return [
        f"Noise with epsilon = {m.epsilon} and delta = {float(privacy.delta):.1g}. {_NOISE_OF[m.protocol]} "
        f"Its standard deviation in a count with a label is {size}; it grows "
        "with the square root of the number of columns, that in counts of two codes with the number itself.",
        "What this promises to each person: any result is at most "
        f"{math.exp(epsilon):.3g} times as likely with that person's data as with any other data in their "
        "place, whatever else an attacker knows, except with a probability of "
        f"{float(privacy.delta):.1g}. The closer this factor is to 1, the less can be learned about one "
        "person. Runs on the same persons add up: after two of them the factor is the square. Each party "
        "keeps a ledger and refuses a run beyond its budget.",
        f"Tables that are compared (adjacency): {ADJACENCY}.",
        f"Protected against (observer): {privacy.observer}. {_KNOW_NOISE[m.protocol]}",
    ]


_NOISE_OF = {
    "mirror": (
        "Both servers add the same Gaussian noise to every count of a code with a label and of two codes, "
        "and compute everything that they release from these counts."
    ),
    "gram": (
        "Random noise is inside every count of a code with a label and of two codes before anybody sees it. "
        "It is drawn three times: whatever one server knows of it, the rest is enough for epsilon."
    ),
}
_KNOW_NOISE = {
    "mirror": "Both servers know the noise and the exact counts of unnamed columns.",
    "gram": "No server knows all of the noise, or any count.",
}


def _samples(m: Manifest) -> list[str]:
    if m.align == "equal":
        brought = (
            f"Every party brings the same {m.n_samples} samples; this is proved before anything is sent."
        )
    else:
        brought = (
            f"Each party brings at most {m.n_samples} samples. The servers learn how the encrypted ids "
            "overlap; each party learns which of its own samples all parties have: it then knows that these "
            "persons are on everybody's list."
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
    return [
        brought,
        f"{coded}. Values are computed {how[settings.method]}.",
        *_acceptance(settings.acceptance),
    ]


def _acceptance(test: AcceptanceTest | None) -> list[str]:
    if test is None:
        return []
    who = "all data parties together" if test.party is None else f"{test.party} alone"
    least = {
        "errors_avoided_per_1000": f"avoid at least {test.threshold} wrong predictions per 1,000 samples",
        "auc_gain": f"raise the AUC by at least {test.threshold}",
        "log_loss_gain": f"lower the log loss by at least {test.threshold} nats per sample",
    }[test.metric]
    return [
        f"Acceptance test, fixed with this agreement: {who} must {least}, compared with the task party's own "
        "columns. The task party's result says pass, fail or undecided, by a 95% interval."
    ]


def _limits(m: Manifest) -> list[str]:
    if m.research:
        paragraphs = ["RESEARCH: the usual lower limits on samples and upper limits on detail are LIFTED."]
    else:
        paragraphs = [
            f"At least {m.min_samples} samples; on average at least {m.min_rows_per_code} samples per "
            f"{_GATED[m.settings.columns]}. Otherwise nothing is computed."
        ]
        if m.protocol == "mirror" and m.policy == "valuation" and m.epsilon is None:
            paragraphs.append(
                f"At least {m.min_cell} samples of every label and of every {_COUNTED[m.settings.columns]}, "
                "or both servers refuse."
            )
            if m.settings.columns == "features":
                paragraphs.append(_COMBINATIONS)
    d = m.deadlines
    upload = "upload and adding up" if m.protocol == "gram" else "upload"
    if m.settings.method == "auto":
        paragraphs.append(
            f"Values are computed exactly if that takes at most {m.work_limit:.3g} visits (samples times "
            "coalitions), and from sampled orders otherwise."
        )
    return [
        *paragraphs,
        f"Stages may take {d.keying} s (keys), {d.upload} s ({upload}), {d.compute} s (computation, and "
        "waiting for answers after it). Then the run ends: a computation is stopped, a participant who is "
        "missing is named, and nothing is released.",
        f"Valid from {m.created:%Y-%m-%d %H:%M} to {m.expires:%Y-%m-%d %H:%M} UTC, for one result: "
        "a run that fails may be repeated under a new number, one that gives a result may not.",
        f"Each party may send each server {m.max_bytes:,} bytes and a sixteenth more for packaging; a "
        "server's software deletes them when the run ends.",
        f"Every participant needs a release of FedValue with {m.versions}, such as {m.versions.software}, "
        "which drafted these terms.",
    ]


def _signatures(signed: SignedManifest) -> str:
    lines = ["4. Signatures, each with the fingerprint of its identity card"]
    for signer in signed.manifest.participants:
        mark = "signed" if signer.name in signed.signatures else "NOT SIGNED"
        if words := signed.words.get(signer.name):
            mark += ", words compared" if words.compared else ", words NOT compared"
        lines.append(f"   {signer.name:<32} {signer.role:<9} {mark}")
        lines.append(f"      {signed.manifest.card_of(signer).fingerprint}")
    return "\n".join(lines) + "\n"
