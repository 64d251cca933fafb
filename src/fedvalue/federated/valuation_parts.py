"""A valuation on its way through a federated run: split by reader, and put together again.

Under policy `valuation` both servers compute the same `Valuation` of opaque columns in a secret order.

- Everybody may read the learnable total, its error, and how values were computed (`_PUBLIC`).
- A data party reads its own learnable value and its error (`_OWN`). Where the manifest grants full shares, it
  reads every number about itself and the total of Shapley-CMI. Without statistics there is Shapley-CMI alone.
- The task party reads everything, in its own part: what data parties read may be rounded once more
  (`protocol.share_rounding`). On a grid the learnable game alone comes coalition by coalition.

Shares, intervals and flags do not travel: parties derive them from the numbers that they accepted. Two
honest servers may differ by rounding errors of 1e-16, and a quotient of such errors may be anything.
An interval travels as an error, half of its width. Where the run agreed on an epsilon, everything is computed
from tables with noise (`protocol.noisy_release`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from fedvalue.errors import FedValueError, RemoteProtocolError
from fedvalue.protocol.outcome import Answer, Outcome
from fedvalue.protocol.privacy import ADJACENCY
from fedvalue.valuation.engine import share_of, with_cmi_interval
from fedvalue.valuation.result import SCHEMA, PartyValue, PrivacyStatement, Valuation
from fedvalue.valuation.statistics import guard

if TYPE_CHECKING:
    from fedvalue.protocol.privacy import Privacy
    from fedvalue.protocol.settings import RunTerms

_PUBLIC = (
    "n_samples", "method", "n_permutations", "seed", "estimator", "learnable_total", "learnable_total_error",
)  # fmt: skip
_OWN = ("learnable", "learnable_error", "n_codes")
_DERIVED = ("share", "learnable_share", "interval", "interval_reason", "flags")
_ELSEWHERE = (
    "schema", "unit", "parties", "settings", "bins", "columns", "warnings", "protocol", "run_id", "privacy",
)  # fmt: skip
"""Fields that the parties know themselves, or that are split party by party."""


def split(valuation: Valuation, run: RunTerms) -> Answer:
    """Split the valuation of opaque columns by reader, as the run agreed."""
    whole: dict[str, Any] = msgspec.to_builtins(valuation)
    _intervals_to_errors(whole)
    public, shared = set(_PUBLIC), set(_OWN)
    if run.full_shares or valuation.learnable_total is None:
        public.add("total")
        shared |= set(PartyValue.__struct_fields__) if run.full_shares else {"value"}
    shares, rest = [], []
    for party in whole["parties"]:
        _intervals_to_errors(party)
        numbers = {key: party[key] for key in party if key not in (*_DERIVED, "name")}
        shares.append({key: item for key, item in numbers.items() if key in shared})
        rest.append(numbers)
    task = {key: item for key, item in whole.items() if key not in _ELSEWHERE}
    # Parties travel as places in the order of columns.
    place = {party.name: k for k, party in enumerate(valuation.parties)}
    for row in task.get("uplift", ()):
        row["parties"] = [place[name] for name in row["parties"]]
        _intervals_to_errors(row)
    for step in task.get("joining", ()):
        step["party"] = place[step["party"]]
    if run.release_grid.digits is not None and "coalitions" in task:
        task["coalitions"] = {"learnable": task["coalitions"]["learnable"]}
    return Answer(
        public={key: whole[key] for key in whole if key in public},
        task={**task, "parties": rest},
        shares=tuple(shares),
    )


def _intervals_to_errors(fields: dict[str, Any]) -> None:
    """Replace every `x_interval` by `x_error`, half of its width."""
    for key in [key for key in fields if key.endswith("_interval") and fields[key] is not None]:
        low, high = fields.pop(key)
        fields[key.replace("_interval", "_error")] = (high - low) / 2


def _error_to_interval(fields: dict[str, Any], name: str, middle: float) -> None:
    """The inverse for one number, around its released value."""
    if f"{name}_error" in fields:
        half = fields.pop(f"{name}_error")
        fields[f"{name}_interval"] = [middle - half, middle + half]


def valuation_of(
    outcome: Outcome, parties: Sequence[str], *, privacy: Privacy | None = None, **about: Any
) -> Valuation:
    """The part of the answer that a party can read, as a valuation: the inverse of `split`.

    Args:
        outcome: Of a finished run with policy `valuation`.
        parties: Names of all data parties in the order of the result; a data party gets itself only.
        privacy: The agreed noise.
        **about: Further fields: settings, protocol, run_id.

    Raises:
        RemoteProtocolError: The servers agreed on something that is not a valuation (E_MALFORMED).
    """
    names = [name for name in parties if name in outcome.shares]
    try:
        if privacy is not None:
            about["privacy"] = privacy_statement(privacy)
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
        _with_intervals(data)
        return replace(derived(Valuation.from_dict(data)), **about)
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
    if out.get("joining") is not None:
        out["joining"] = [{**step, "party": order[step["party"]]} for step in out["joining"]]
    if out.get("uplift") is not None:
        rank = {name: k for k, name in enumerate(names)}
        rows = [
            {**row, "parties": sorted((order[place] for place in row["parties"]), key=rank.__getitem__)}
            for row in out["uplift"]
        ]
        out["uplift"] = sorted(rows, key=lambda row: _uplift_rank(row, names))
    return out


def _uplift_rank(row: dict[str, Any], names: Sequence[str]) -> tuple[int, int]:
    """Nobody, each party alone, all, all but each party, other sets, in the order of the result."""
    roles = ("nobody", "alone", "all", "all_but", "set")
    present = set(row["parties"])
    if row["role"] == "alone":
        return 1, names.index(row["parties"][0])
    if row["role"] == "all_but":
        return 3, next(k for k, name in enumerate(names) if name not in present)
    order = sum(1 << k for k, name in enumerate(names) if name in present) if row["role"] == "set" else 0
    return roles.index(row["role"]), order


def _with_intervals(data: dict[str, Any]) -> None:
    """Intervals in place of errors, around the released numbers."""
    _error_to_interval(data, "learnable_total", data.get("learnable_total", 0.0))
    for party in data["parties"]:
        _error_to_interval(party, "learnable", party.get("learnable", 0.0))
    rows = data.get("uplift") or []
    nobody: dict[str, Any] = next((row for row in rows if row["role"] == "nobody"), {})
    for row in rows:
        _error_to_interval(row, "log_loss_gain", nobody["log_loss"] - row["log_loss"])
        _error_to_interval(row, "auc_gain", row.get("auc", 0.0) - nobody.get("auc", 0.0))
        _error_to_interval(row, "ks_gain", row.get("ks", 0.0) - nobody.get("ks", 0.0))
        _error_to_interval(row, "errors_avoided", row.get("errors_avoided_per_1000", 0.0))


def derived(valuation: Valuation) -> Valuation:
    """With shares, intervals of Shapley-CMI and flags, from the numbers that both servers gave."""
    total, learned = valuation.total, valuation.learnable_total
    bias = valuation.details.get("plug_in_bias")
    parties = []
    for party in valuation.parties:
        whole = party
        if party.value is not None and total is not None:
            whole = replace(whole, share=share_of(party.value, total))
        if bias is not None and party.se_data is not None:
            whole = with_cmi_interval(whole, bias)
        if party.learnable is not None and learned is not None:
            whole = replace(whole, learnable_share=share_of(party.learnable, learned))
            whole = replace(whole, flags=guard.flags(whole, valuation.n_samples))
        parties.append(whole)
    return replace(valuation, parties=tuple(parties))


def privacy_statement(privacy: Privacy) -> PrivacyStatement:
    """The promise of a run, as its result states it."""
    return PrivacyStatement(
        epsilon=float(privacy.epsilon),
        delta=float(privacy.delta),
        adjacency=ADJACENCY,
        observer=privacy.observer,
        label_noise=math.sqrt(privacy.total(privacy.label_variance)),
        pair_noise=math.sqrt(privacy.total(privacy.pair_variance)),
    )
