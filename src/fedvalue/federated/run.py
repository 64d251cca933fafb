"""A whole federated valuation in this process: every role real, all messages on the (local) wire."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from msgspec.structs import replace

from fedvalue.crypto import keys
from fedvalue.crypto.ids import PackedIds, canonical_ids
from fedvalue.errors import InputError
from fedvalue.federated.in_process import InProcessTransport, Tap
from fedvalue.federated.valuers import make_noisy_valuer, make_valuer, valuation_of
from fedvalue.protocol.computation_server import ComputationServer
from fedvalue.protocol.keyring import Credentials
from fedvalue.protocol.mirror.row_layout import RowLayout
from fedvalue.protocol.outcome import Valuer
from fedvalue.protocol.party_roles import DataParty, TaskParty
from fedvalue.protocol.role import Role
from fedvalue.protocol.samples import CodedColumn, MemorySamples
from fedvalue.protocol.settings import (
    COMPUTE,
    MAX_TOKENS,
    VALIDATE,
    Adversarial,
    Policy,
    ProtocolName,
    Settings,
)
from fedvalue.protocol.tokens.queries import check_budget
from fedvalue.protocol.validation_server import ValidationServer
from fedvalue.valuation.engine import value_counts
from fedvalue.valuation.result import Valuation
from fedvalue.valuation.settings import ValuationSettings

if TYPE_CHECKING:
    from fedvalue.typing import Codes, Progress

TASK = "task party"
"""Name of the task party where its table has none."""


class CodeColumn(Protocol):
    """One party's codes: what `fedvalue.tables` makes of its features."""

    @property
    def name(self) -> str:
        """The party."""

    @property
    def codes(self) -> Codes:
        """One code per sample."""

    @property
    def n_codes(self) -> int:
        """Size of the code range."""


@dataclass(frozen=True, slots=True)
class Cast:
    """All roles of one run."""

    task: TaskParty
    parties: tuple[DataParty, ...]
    servers: tuple[Role, ...]

    def everyone(self) -> tuple[Role, ...]:
        """Servers and parties."""
        return (*self.servers, self.task, *self.parties)


def federated_value(
    *,
    label: CodeColumn,
    parties: Sequence[CodeColumn],
    task: CodeColumn | None = None,
    ids: Any = None,
    protocol: str = "mirror",
    q: int = 3,
    n_r: int | float | str | None = None,
    harden: bool = True,
    policy: str = "valuation",
    by_coalition: bool = False,
    pad: bool = False,
    epsilon: str | None = None,
    max_tokens: int = MAX_TOKENS,
    settings: ValuationSettings | None = None,
    executor: Executor | None = None,
    progress: Progress | None = None,
    threads: int | None = None,
    tap: Tap | None = None,
) -> Valuation:
    """Run a protocol among all roles in this process and value the data parties.

    Args:
        label: Codes of Y.
        parties: Codes of the data parties.
        task: Codes of X_t, or None.
        ids: One id per sample, the same for all parties; row numbers when None.
        protocol: "single", "paper" or "mirror".
        q: Encryption ids per sample (`paper`).
        n_r: Adversarial samples (`paper`): per cell, a share of all samples like "90%", or "random:8".
        harden: Whether `paper` checks marginals (H1), authenticators (H2) and set sizes (H3).
        policy: "valuation" or "counts" (`mirror`).
        by_coalition: Ask every coalition's cells rather than the grand coalition's (`paper`, `single`).
        pad: Pad all sets of a party to one size (`single`, and `paper` without `harden`: H3 needs the sizes).
        epsilon: Add noise to the values (`mirror` with policy `valuation`), like "0.5". A rehearsal: nobody
            keeps a ledger here, and whoever calls this has the tables.
        max_tokens: Refuse a run that needs more (`paper`, `single`).
        settings: What to compute. Under policy `valuation` the servers draw permutations of columns in an
            order that they do not know, so sampled values differ from those of the plain computation
            within the sampling error; exact ones do not differ.
        executor: As in `fedvalue.value`.
        progress: As in `fedvalue.value`.
        threads: How many roles work at a time; the machine's cores by default.
        tap: Sees every envelope's bytes.

    Raises:
        InputError: A table, an id or a setting is wrong, or the run is too large.
        VerificationError: A check failed; nothing is released.
    """
    settings = settings or ValuationSettings()
    run = make_settings(
        label=label, parties=parties, task=task, protocol=protocol, q=q, n_r=n_r, harden=harden,
        policy=policy, by_coalition=by_coalition, pad=pad, max_tokens=max_tokens, epsilon=epsilon,
    )  # fmt: skip
    cost = _announce(run, progress)
    packed = PackedIds.of_rows(run.n_samples) if ids is None else canonical_ids(ids)
    make = make_valuer if epsilon is None else partial(make_noisy_valuer, run)
    valuer = make(settings, executor=executor, progress=progress)
    cast = make_cast(run, label=label, parties=parties, task=task, ids=packed, valuer=valuer)
    InProcessTransport(threads=threads or os.cpu_count() or 1, tap=tap).run(cast.everyone())
    outcome = cast.task.outcome
    assert outcome is not None  # the transport raises unless every role is done
    about = {"protocol": run.protocol.value, "run_id": run.run_id.hex()}
    if outcome.counts is None:
        result = valuation_of(outcome, run.parties, privacy=run.privacy, settings=settings, **about)
    else:
        result = replace(
            value_counts(outcome.counts, settings, executor=executor, progress=progress), **about
        )
    return replace(result, details={**result.details, "cost": cost})


def _announce(settings: Settings, progress: Progress | None) -> dict[str, int]:
    """Say what the run will cost before it starts.

    Raises:
        InputError: More tokens than `max_tokens` (E_BUDGET).
    """
    if settings.protocol is ProtocolName.MIRROR:
        n_words = RowLayout.of([size for _, size in settings.sizes()]).n_words
        n_bytes = 8 * n_words * settings.n_samples * len(settings.everybody) * len(settings.servers)
        cost, note = {"n_bytes": n_bytes}, f"uploads of {n_bytes:,} bytes"
    else:
        expected = check_budget(settings)
        cost = {key: getattr(expected, key) for key in ("n_queries", "n_tokens", "n_bytes")}
        note = f"{expected.n_queries:,} queries, {expected.n_tokens:,} tokens, {expected.n_bytes:,} bytes"
    if progress is not None:
        progress(0.0, 1.0, note)
    return cost


def make_settings(
    *,
    label: CodeColumn,
    parties: Sequence[CodeColumn],
    task: CodeColumn | None,
    protocol: str,
    q: int = 3,
    n_r: int | float | str | None = None,
    harden: bool = True,
    policy: str = "valuation",
    by_coalition: bool = False,
    pad: bool = False,
    max_tokens: int = MAX_TOKENS,
    epsilon: str | None = None,
    run_id: bytes | None = None,
) -> Settings:
    """The settings of a run over these columns, under a fresh run id.

    Raises:
        InputError: An unknown protocol or policy, or a size out of range.
    """
    try:
        name, chosen = ProtocolName(protocol), Policy(policy)
    except ValueError:
        raise InputError(
            "protocol must be single, paper or mirror and policy valuation or counts, "
            f"got {protocol!r} and {policy!r}"
        ) from None
    n_samples = len(label.codes)
    names = tuple(party.name for party in parties)
    return Settings(
        run_id=secrets.token_bytes(32) if run_id is None else run_id,
        protocol=name,
        task=_free_name(TASK, names),
        compute=_free_name(COMPUTE, names),
        validate=_free_name(VALIDATE, names),
        parties=names,
        n_samples=n_samples,
        n_task_codes=1 if task is None else max(1, task.n_codes),
        n_label_codes=label.n_codes,
        n_codes=tuple(party.n_codes for party in parties),
        policy=chosen,
        q=q,
        n_r=Adversarial.parse(n_r, n_samples),
        h1=harden,
        h2=harden,
        h3=harden,
        by_coalition=by_coalition,
        pad=pad,
        max_tokens=max_tokens,
        epsilon=epsilon,
    )


def _free_name(wanted: str, taken: Sequence[str]) -> str:
    """A role's name that no data party has: a party may well be called 'compute'."""
    while wanted in taken:
        wanted += "'"
    return wanted


def make_cast(
    settings: Settings,
    *,
    label: CodeColumn,
    parties: Sequence[CodeColumn],
    task: CodeColumn | None,
    ids: PackedIds | dict[str, PackedIds],
    valuer: Valuer,
    secret: bytes | None = None,
    computation: Callable[..., Role] = ComputationServer,
    validation: Callable[..., Role] = ValidationServer,
) -> Cast:
    """All roles of a run, with fresh keys.

    Args:
        settings: What was agreed.
        label: Codes of Y.
        parties: Codes of the data parties.
        task: Codes of X_t, or None.
        ids: Sample ids, common or by party name.
        valuer: What the servers make of the counts under policy `valuation`.
        secret: Where all keys come from; drawn from the system when None (tests fix it).
        computation: Makes the computation server; tests and the drill put one that cheats here.
        validation: Makes the validation server.
    """
    root = secrets.token_bytes(32) if secret is None else secret
    names = (*settings.everybody, settings.compute, settings.validate)
    signing = {name: keys.subkey(root, settings.run_id, "signing", name) for name in names}
    pins = {name: keys.signing_public(key) for name, key in signing.items()}

    def credentials(name: str) -> Credentials:
        return Credentials(keys.subkey(root, settings.run_id, "seed", name), signing[name], pins)

    def ids_of(name: str) -> PackedIds:
        return ids[name] if isinstance(ids, dict) else ids

    servers = [computation(settings, credentials=credentials(settings.compute), valuer=valuer)]
    if settings.validate in settings.servers:
        servers.append(validation(settings, credentials=credentials(settings.validate), valuer=valuer))
    own = np.zeros(len(label.codes), dtype=np.int64) if task is None else task.codes
    return Cast(
        task=TaskParty(
            settings,
            samples=MemorySamples(
                ids_of(settings.task),
                [
                    CodedColumn(settings.task, own, settings.n_task_codes),
                    CodedColumn(label.name, label.codes, settings.n_label_codes),
                ],
            ),
            credentials=credentials(settings.task),
        ),
        parties=tuple(
            DataParty(
                settings,
                party.name,
                samples=MemorySamples(ids_of(party.name), [CodedColumn(party.name, party.codes, size)]),
                credentials=credentials(party.name),
            )
            for party, size in zip(parties, settings.n_codes, strict=True)
        ),
        servers=tuple(servers),
    )
