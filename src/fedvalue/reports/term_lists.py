"""Lists of terms in a report: the question, the computation, and a glossary."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import TYPE_CHECKING

from fedvalue.decisions.games import listing
from fedvalue.reports.wording import NAMES_SHOWN, TASK, label_column, label_of

if TYPE_CHECKING:
    from fedvalue.valuation.provenance import Provenance
    from fedvalue.valuation.result import Valuation


def asked(valuation: Valuation) -> tuple[tuple[str, str], ...]:
    """The question as terms and values, without those that the result does not know."""
    names = [party.name for party in valuation.parties]
    label = label_of(valuation)
    what = f"“{label}”" if label else "the label"
    question = f"How much better can {what} be predicted with the data of {listing(names, NAMES_SHOWN)}?"
    rows = [("Question", question)]
    column = label_column(valuation)
    if column is not None and column.coding:
        rows.append(("What is predicted", f"{label or 'the label'}: {column.coding}"))
    task = [column.name for column in valuation.columns if column.party == TASK]
    if task:
        rows.append(("Known already", f"the column{'s' if len(task) > 1 else ''} {listing(task, 12)}"))
    elif label:
        rows.append(("Known already", "nothing: the task party gave no columns of its own"))
    rows += _agreement(valuation.details.get("agreement"))
    rows.append(("Cases", f"{valuation.n_samples:,}"))
    return (*rows, *_provenance(valuation.provenance))


def _provenance(origin: Provenance | None) -> list[tuple[str, str]]:
    """Date, software and files."""
    if origin is None:
        return []
    rows = [("Computed", f"{_moment(origin.created)}, with {origin.software}")]
    for source in origin.sources:
        parts = [source.name, source.format]
        if source.n_matched is not None and source.n_rows:
            parts.append(f"{source.n_matched:,} of {source.n_rows:,} rows matched")
        elif source.n_rows is not None:
            parts.append(f"{source.n_rows:,} rows")
        if source.sha256 is not None:
            parts.append(f"SHA-256 {source.sha256[:16]}…")
        rows.append((f"File of {source.party}" if source.party else "File", "; ".join(filter(None, parts))))
    return rows


def _moment(created: str) -> str:
    """An ISO time as people write it; other text unchanged."""
    try:
        return f"{dt.datetime.fromisoformat(created):%d %B %Y, %H:%M} UTC"
    except ValueError:
        return created


def _agreement(agreement: object) -> list[tuple[str, str]]:
    """The main terms of a federated run."""
    if not isinstance(agreement, Mapping):
        return []
    terms = (
        ("Purpose", "purpose"), ("Asked by", "task"), ("Servers", "servers"), ("Agreed on", "agreed"),
        ("Consortium", "consortium"),
    )  # fmt: skip
    known = [(term, agreement[key]) for term, key in terms if agreement.get(key)]
    return [
        (term, listing([str(name) for name in item]) if isinstance(item, list | tuple) else str(item))
        for term, item in known
    ]


_NAMES = {
    "pair_search": "Pairs of columns",
    "row_sample": "Rows",
    "policy": "Output policy",
    "certificate": "Certificate digest",
    "certificate_digest": "Certificate digest",
    "manifest": "Manifest digest",
    "manifest_digest": "Manifest digest",
    "q": "Encryption ids per sample (q)",
    "n_r": "Adversarial samples (n_r)",
    "harden": "Added checks",
}

_ELSEWHERE = (
    "notes", "sensitivity", "state", "changes", "acceptance", "agreement", "plug_in_bias", "share_step",
)  # fmt: skip
"""Details that are shown elsewhere."""


def computation(valuation: Valuation) -> tuple[tuple[str, str], ...]:
    """The computation as terms and values."""
    rows = []
    if valuation.utility_name is not None:
        rows.append(("Utility", f"{valuation.utility_name}, given by the caller"))
    elif valuation.estimator:
        rows.append(("Learnable values", valuation.estimator.replace("-", " ").replace("/", ", version ")))
    settings = valuation.settings
    if settings is not None and valuation.learnable_total is not None:
        joint = settings.columns == "joint"
        rows.append(("Columns", "one joint code per party" if joint else "valued one by one and in pairs"))
    if valuation.total is not None:
        rows.append(("Shapley-CMI", _method(valuation)))
    if settings is not None:
        rows.append(("Numbers", f"cut into {settings.coding.description}"))
    elif valuation.bins is not None:
        rows.append(("Numbers", f"cut into {valuation.bins} bins"))
    rows.append(("Protocol", valuation.protocol or "none, plain tables"))
    if valuation.run_id:
        rows.append(("Run", valuation.run_id))
    if valuation.privacy is not None:
        noise = valuation.privacy
        rows += [
            (
                "Noise",
                f"Gaussian, ±{noise.label_noise:.3g} persons in every count of a code with a label, "
                f"±{noise.pair_noise:.3g} in every count of two codes",
            ),
            ("Epsilon, delta", f"{noise.epsilon:g}, {noise.delta:g}"),
            ("Adjacency", noise.adjacency),
            ("Observer", noise.observer),
        ]
    for key, item in valuation.details.items():
        text = "" if key in _ELSEWHERE else _detail(item)
        if text:
            rows.append((_NAMES.get(key, key.replace("_", " ").capitalize()), text))
    return tuple(rows)


def _method(valuation: Valuation) -> str:
    if valuation.method == "exact":
        method = "exact, over all coalitions"
    elif valuation.n_permutations is None:
        method = f"partly exact, partly sampled, seed {valuation.seed}"
    else:
        method = f"sampled, {valuation.n_permutations:,} permutations, seed {valuation.seed}"
    reason = valuation.method_reason
    return method if not reason or reason == "as asked for" else f"{method} ({reason})"


def _detail(item: object) -> str:
    """A detail as text; empty for lists."""
    if isinstance(item, bool):
        return "yes" if item else "no"
    if isinstance(item, Mapping):
        numbers = {k: v for k, v in item.items() if isinstance(v, int | float)}
        return ", ".join(f"{str(k).replace('_', ' ')} {_number(v)}" for k, v in numbers.items())
    if isinstance(item, int | float):
        return _number(item)
    return item if isinstance(item, str) else ""


def _number(item: float) -> str:
    return f"{item:,}" if isinstance(item, int) else f"{item:.4g}"


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
        "The difference between the parts of the two classes whose score lies above the average rate, where "
        "it is largest if the scores are right: 0 is guessing, 1 is perfect.",
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
        "Random numbers that the servers add to every count before values are computed, unknown to all "
        "parties, so that no result reveals much about any one person. The intervals include it.",
    ),
    (
        "Epsilon",
        "How much a result may reveal about one person: every result is at most exp(epsilon) times as likely "
        "with that person's data as with any other in its place, except with the tiny probability delta.",
    ),
)


def glossary(valuation: Valuation) -> tuple[tuple[str, str], ...]:
    """The terms in the report of this result, with plain explanations."""
    if valuation.privacy is not None:
        return NOISE + LEARNABLE + (UPLIFT if valuation.uplift else ())
    terms = LEARNABLE if valuation.learnable_total is not None else LEARNABLE[-1:]
    return terms + (UPLIFT if valuation.uplift else ()) + SHAPLEY_CMI
