"""A valuation as it crosses a federated run: who may read what, and back.

Under policy `valuation` both servers compute the same `Valuation` on opaque columns. Everybody may
read the total; a data party reads its own value; the task party reads everything. Where the run agreed
on an epsilon, the protocol lets noisy values and their total out, and nothing else (`protocol.noise`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec.structs import asdict, replace

from fedvalue.errors import RemoteProtocolError
from fedvalue.protocol.outcome import Answer, Outcome, Valuer
from fedvalue.protocol.privacy import ADJACENCY, OBSERVER
from fedvalue.valuation.result import PartyValue, PrivacyStatement, Valuation, noise_interval

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from fedvalue.information.contingency import JointCounts
    from fedvalue.protocol.privacy import Privacy
    from fedvalue.protocol.settings import Settings
    from fedvalue.typing import Progress
    from fedvalue.valuation.settings import ValuationSettings

_PUBLIC = ("total", "n_samples", "method", "n_permutations", "seed")
_TASK = ("label_entropy", "learnable_total", "interactions")


def make_valuer(
    settings: ValuationSettings, *, executor: Executor | None = None, progress: Progress | None = None
) -> Valuer:
    """The function that both servers apply to their counts.

    Args:
        settings: What to compute, the same at both servers.
        executor: Where the work runs.
        progress: Called with progress updates.
    """

    def valuer(counts: JointCounts, run: Settings) -> Answer:
        from fedvalue.valuation.engine import value_counts

        # Two servers of different size must choose the same method.
        valuation = value_counts(counts, settings, reproducible=True, executor=executor, progress=progress)
        return answer_of(valuation)

    return valuer


def make_noisy_valuer(
    settings: ValuationSettings, *, executor: Executor | None = None, progress: Progress | None = None
) -> Valuer:
    """The same where noise is added: only the values may depend on the data, not even the method may.

    The method is chosen by the sizes of the run, which are public.

    Args:
        settings: What to compute. Statistics are left out, since none may leave, and so is a precision,
            because the number of permutations would reveal something about the data.
        executor: Where the work runs.
        progress: Called with progress updates.
    """
    from fedvalue.valuation.shapley_cmi import AFFORDABLE_VISITS

    def valuer(counts: JointCounts, run: Settings) -> Answer:
        method = settings.method
        if method == "auto":
            visits = min(run.n_samples, run.n_cells) * 2.0 ** len(run.parties)
            method = "exact" if visits <= AFFORDABLE_VISITS else "sampled"
        private = replace(settings, method=method, statistics=False, precision=None)
        return make_valuer(private, executor=executor, progress=progress)(counts, run)

    return valuer


def privacy_statement(privacy: Privacy) -> PrivacyStatement:
    """The promise of a run, as it stands in its result."""
    return PrivacyStatement(
        epsilon=float(privacy.epsilon),
        delta=0.0,
        adjacency=ADJACENCY,
        observer=OBSERVER,
        noise_scale=privacy.scale,
    )


def answer_of(valuation: Valuation) -> Answer:
    """Split a valuation by who may read it."""
    shares = []
    for party in valuation.parties:
        share = asdict(party)
        del share["name"], share["noise_scale"]  # noise comes later, from the protocol
        share["flags"] = list(party.flags)
        shares.append(share)
    return Answer(
        public={key: getattr(valuation, key) for key in _PUBLIC},
        task={key: getattr(valuation, key) for key in _TASK},
        shares=tuple(shares),
    )


def valuation_of(
    outcome: Outcome, parties: Sequence[str], *, privacy: Privacy | None = None, **about: Any
) -> Valuation:
    """What a party can read of the answer, as a valuation.

    Args:
        outcome: Of a finished run with policy `valuation`.
        parties: Names of all data parties in the order of the result; a data party gets itself only.
        privacy: What was agreed about noise.
        **about: Further fields: settings, protocol, run_id.

    Raises:
        RemoteProtocolError: The servers agreed on something that is not a valuation (E_MALFORMED).
    """
    try:
        read = _share if privacy is None else partial(_noisy_share, scale=privacy.scale)
        found = tuple(
            PartyValue(name=name, **read(outcome.shares[name])) for name in parties if name in outcome.shares
        )
        task = dict(outcome.task)
        matrix = task.pop("interactions", None)
        return Valuation(
            parties=found,
            interactions=None if matrix is None else _reordered(matrix, outcome.order, parties),
            label_entropy=task.pop("label_entropy", None),
            privacy=None if privacy is None else privacy_statement(privacy),
            **outcome.public,
            **task,
            **about,
        )
    except (TypeError, KeyError, IndexError, ValueError) as error:
        raise RemoteProtocolError("the servers' answer is not a valuation", code="E_MALFORMED") from error


def _share(fields: dict[str, Any]) -> dict[str, Any]:
    interval = fields.get("interval")
    return {
        **fields,
        "flags": tuple(fields.get("flags", ())),
        "interval": None if interval is None else tuple(interval),
    }


def _noisy_share(fields: dict[str, Any], *, scale: float) -> dict[str, Any]:
    value = float(fields["value"])
    return {"value": value, "interval": noise_interval(value, scale), "noise_scale": scale}


def _reordered(
    matrix: Sequence[Sequence[float]], order: Sequence[str], parties: Sequence[str]
) -> tuple[tuple[float, ...], ...]:
    """From the servers' secret order of columns to the order of the result."""
    place = {name: k for k, name in enumerate(order)}
    return tuple(tuple(float(matrix[place[a]][place[b]]) for b in parties) for a in parties)
