"""A valuation as it crosses a federated run: split by who may read what, and put together again.

Under policy `valuation` both servers compute the same `Valuation` of opaque columns in a secret order.

- Everybody may read the totals and how they were computed (`_PUBLIC`).
- A data party reads its own value, its own learnable value and their errors (`_OWN`).
- The task party reads everything.

Shares and flags do not travel: parties derive them from the numbers that they accepted. Two honest
servers may differ by rounding errors of 1e-16, and a quotient of such errors may be anything.
Where the run agreed on an epsilon, the protocol lets noisy values and their total out, and nothing
else (`protocol.noisy_release`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from fedvalue.errors import FedValueError, RemoteProtocolError
from fedvalue.protocol.outcome import Answer, Outcome
from fedvalue.protocol.privacy import ADJACENCY, OBSERVER
from fedvalue.valuation.result import (
    SCHEMA,
    PartyValue,
    PrivacyStatement,
    Valuation,
    noise_interval,
)
from fedvalue.valuation.statistics import guard

if TYPE_CHECKING:
    from fedvalue.protocol.privacy import Privacy

_PUBLIC = (
    "n_samples", "method", "n_permutations", "seed", "estimator", "total", "learnable_total",
    "learnable_total_interval",
)  # fmt: skip
_OWN = ("value", "learnable", "learnable_interval", "se_sampling", "se_data", "se_learnable", "n_codes")
_DERIVED = ("share", "learnable_share", "flags")
_ELSEWHERE = (
    "schema",
    "unit",
    "parties",
    "settings",
    "bins",
    "columns",
    "warnings",
    "protocol",
    "run_id",
    "privacy",
)
"""What the parties know themselves, or what is split party by party."""


def split(valuation: Valuation) -> Answer:
    """Split the valuation of opaque columns by who may read it."""
    whole: dict[str, Any] = msgspec.to_builtins(valuation)
    shares, rest = [], []
    for party in whole["parties"]:
        shares.append({key: party[key] for key in _OWN if key in party})
        hidden = (*_OWN, *_DERIVED, "name", "noise_scale")
        rest.append({key: item for key, item in party.items() if key not in hidden})
    task = {key: item for key, item in whole.items() if key not in (*_PUBLIC, *_ELSEWHERE)}
    if "uplift" in task:
        task["uplift"] = [_by_place(row, valuation) for row in task["uplift"]]
    return Answer(
        public={key: whole[key] for key in _PUBLIC if key in whole},
        task={**task, "parties": rest},
        shares=tuple(shares),
    )


def _by_place(row: dict[str, Any], valuation: Valuation) -> dict[str, Any]:
    """A row of the uplift with places in the order of columns instead of names."""
    place = {party.name: k for k, party in enumerate(valuation.parties)}
    return {**row, "parties": [place[name] for name in row["parties"]]}


def valuation_of(
    outcome: Outcome, parties: Sequence[str], *, privacy: Privacy | None = None, **about: Any
) -> Valuation:
    """What a party can read of the answer, as a valuation: the inverse of `split`.

    Args:
        outcome: Of a finished run with policy `valuation`.
        parties: Names of all data parties in the order of the result; a data party gets itself only.
        privacy: What was agreed about noise.
        **about: Further fields: settings, protocol, run_id.

    Raises:
        RemoteProtocolError: The servers agreed on something that is not a valuation (E_MALFORMED).
    """
    names = [name for name in parties if name in outcome.shares]
    try:
        if privacy is not None:
            return replace(_noisy(outcome, names, privacy), **about)
        place = {name: k for k, name in enumerate(outcome.order)}
        task = dict(outcome.task)
        rest = task.pop("parties", None)
        data = {
            **outcome.public,
            **_reordered(task, [place[name] for name in names] if place else [], names, outcome.order),
            "schema": SCHEMA,
            "parties": [
                {**outcome.shares[name], **(rest[place[name]] if rest is not None else {}), "name": name}
                for name in names
            ],
        }
        return replace(_derived(Valuation.from_dict(data)), **about)
    except (TypeError, KeyError, IndexError, ValueError, FedValueError) as error:
        raise RemoteProtocolError("the servers' answer is not a valuation", code="E_MALFORMED") from error


def _reordered(
    task: dict[str, Any], places: Sequence[int], names: Sequence[str], order: Sequence[str]
) -> dict[str, Any]:
    """The task party's fields in the order of the result instead of the servers' order of columns."""
    out = dict(task)
    if out.get("interactions") is not None:
        out["interactions"] = [[out["interactions"][a][b] for b in places] for a in places]
    if out.get("coalitions") is not None:
        masks = [
            sum(1 << place for k, place in enumerate(places) if mask >> k & 1)
            for mask in range(1 << len(places))
        ]
        out["coalitions"] = {
            game: [values[mask] for mask in masks] for game, values in out["coalitions"].items()
        }
    if out.get("uplift") is not None:
        rank = {name: k for k, name in enumerate(names)}
        rows = [
            {**row, "parties": sorted((order[place] for place in row["parties"]), key=rank.__getitem__)}
            for row in out["uplift"]
        ]
        out["uplift"] = sorted(rows, key=lambda row: _uplift_rank(row, names))
    return out


def _uplift_rank(row: dict[str, Any], names: Sequence[str]) -> tuple[int, int]:
    """Nobody, each party alone, all, all but each party, in the order of the result."""
    roles = ("nobody", "alone", "all", "all_but")
    present = set(row["parties"])
    if row["role"] == "alone":
        return 1, names.index(row["parties"][0])
    if row["role"] == "all_but":
        return 3, next(k for k, name in enumerate(names) if name not in present)
    return roles.index(row["role"]), 0


def _derived(valuation: Valuation) -> Valuation:
    """With shares and flags, from the numbers that both servers gave."""
    total, learned = valuation.total, valuation.learnable_total
    parties = []
    for party in valuation.parties:
        shared = replace(party, share=party.value / total if total > 0 else 0.0)
        if party.learnable is not None:
            part = party.learnable / learned if learned else 0.0
            shared = replace(shared, learnable_share=part)
            shared = replace(shared, flags=guard.flags(shared, valuation.n_samples))
        parties.append(shared)
    return replace(valuation, parties=tuple(parties))


def _noisy(outcome: Outcome, names: Sequence[str], privacy: Privacy) -> Valuation:
    values = {name: float(outcome.shares[name]["value"]) for name in names}
    return Valuation(
        parties=tuple(
            PartyValue(
                name=name,
                value=value,
                interval=noise_interval(value, privacy.scale),
                noise_scale=privacy.scale,
            )
            for name, value in values.items()
        ),
        privacy=privacy_statement(privacy),
        **outcome.public,
    )


def privacy_statement(privacy: Privacy) -> PrivacyStatement:
    """The promise of a run, as it stands in its result."""
    return PrivacyStatement(
        epsilon=float(privacy.epsilon),
        delta=0.0,
        adjacency=ADJACENCY,
        observer=OBSERVER,
        noise_scale=privacy.scale,
    )
