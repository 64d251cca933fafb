"""Servers that cheat, for the tests only. Each behaviour changes what an honest role sends.

A behaviour takes the honest role's factory arguments and returns a role; everything around it (the
journal, the transport, the signatures on what it really sends) is the real server's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np

from fedvalue.crypto import keys
from fedvalue.deployment.servers.server_role import valuer_of
from fedvalue.information.contingency import JointCounts
from fedvalue.protocol import messages as m
from fedvalue.protocol.computation_server import ComputationServer
from fedvalue.protocol.server import AssistingServer
from fedvalue.protocol.validation_server import ValidationServer
from fedvalue.simulation.drill.plot import Plot
from fedvalue.simulation.drill.scenarios import SCENARIOS

Counts = Callable[[JointCounts], JointCounts]


def _role(role: str, terms: Any, credentials: Any, chunks: Any, valuer: Any) -> Any:
    kinds = {"compute": ComputationServer, "validate": ValidationServer, "assist": AssistingServer}
    return kinds[role](terms, credentials=credentials, valuer=valuer, store=chunks)


def counting(change: Counts) -> Any:
    """Values of other counts than were uploaded, honestly computed and signed."""

    def make(role: str, manifest: Any, terms: Any, credentials: Any, chunks: Any) -> Any:
        honest = valuer_of(manifest)
        return _role(
            role, terms, credentials, chunks, lambda counts, settings: honest(change(counts), settings)
        )

    return make


def sending(change: Callable[[m.Envelope, Any], m.Envelope]) -> Any:
    """Other envelopes than the honest role would send; `change` gets the credentials too."""

    def make(role: str, manifest: Any, terms: Any, credentials: Any, chunks: Any) -> Any:
        honest = _role(role, terms, credentials, chunks, valuer_of(manifest))
        receive = honest.receive
        honest.receive = lambda one, **how: [change(out, credentials) for out in receive(one, **how)]
        return honest

    return make


def _items(counts: JointCounts, count: Any) -> JointCounts:
    keep = count > 0
    return JointCounts(
        task=counts.task[keep], parties=counts.parties[keep], label=counts.label[keep], count=count[keep],
        names=counts.names, n_codes=counts.n_codes,
    )  # fmt: skip


def drop_one(counts: JointCounts) -> JointCounts:
    count = counts.count.copy()
    count[count.argmax()] -= 1
    return _items(counts, count)


def scale(counts: JointCounts) -> JointCounts:
    return _items(counts, counts.count * 2)


def swap_cells(counts: JointCounts) -> JointCounts:
    count = counts.count.copy()
    low, high = count.argmin(), count.argmax()
    count[low], count[high] = count[high], count[low]
    return _items(counts, count)


def merge_cells(counts: JointCounts) -> JointCounts:
    count = counts.count.copy()
    low, high = count.argmin(), count.argmax()
    count[high] += count[low]
    count[low] = 0
    return _items(counts, count)


def move_one(counts: JointCounts) -> JointCounts:
    """One sample from the largest cell to the smallest: the total stays."""
    count = counts.count.copy()
    count[count.argmax()] -= 1
    count[count.argmin()] += 1
    return _items(counts, count)


def wrong_signature(envelope: m.Envelope, credentials: Any) -> m.Envelope:
    if not isinstance(envelope.message, m.ResultSeal):
        return envelope
    seal = msgspec.structs.replace(envelope.message, signature=bytes(64))
    return msgspec.structs.replace(envelope, message=seal)


def stale_result(envelope: m.Envelope, credentials: Any) -> m.Envelope:
    """The seal of another run, with a signature that was right there."""
    if not isinstance(envelope.message, m.ResultSeal):
        return envelope
    other = bytes(32)
    digest = envelope.message.digest
    signature = keys.sign(credentials.signing_key, "result", other, envelope.sender, digest)
    return msgspec.structs.replace(envelope, message=m.ResultSeal(other, digest, signature))


def two_faced(envelope: m.Envelope, credentials: Any) -> m.Envelope:
    """One party gets another result than the rest, with a seal that fits it."""
    if envelope.recipient != "telco":
        return envelope
    message = envelope.message
    if isinstance(message, m.ResultChunk):
        data = message.data[:-1] + bytes([message.data[-1] ^ 1])
        digest = m.bulk_digest(message.index, message.total, data)
        changed: Any = msgspec.structs.replace(message, data=data, digest=digest)
        two_faced.digest = digest  # type: ignore[attr-defined]
    elif isinstance(message, m.ResultSeal):
        whole = keys.digest(two_faced.digest)  # type: ignore[attr-defined]
        signature = keys.sign(credentials.signing_key, "result", message.run_id, envelope.sender, whole)
        changed = m.ResultSeal(message.run_id, whole, signature)
    else:
        return envelope
    return msgspec.structs.replace(envelope, message=changed)


def drilled(behaviour: str, target: int = 0) -> Any:
    """A cheating server of the drill, against `paper`; `target` is the size of the cell that it falsifies."""
    scenario = next(one for one in SCENARIOS if one.behaviour == behaviour)
    assert scenario.paper is not None
    make_servers = scenario.paper

    def make(role: str, manifest: Any, terms: Any, credentials: Any, chunks: Any) -> Any:
        plot = Plot(np.random.default_rng(1), q=terms.q, target=target, n_samples=scenario.dropped)
        servers = make_servers(plot)
        kind = servers.computation if role == "compute" else servers.validation
        return kind(terms, credentials=credentials, valuer=None, store=chunks)

    return make


PAPER_BEHAVIOURS: dict[str, tuple[Any, frozenset[str]]] = {
    "drop the only one": (drilled("drop the only one", target=1), frozenset({"E_MARGINAL"})),
    "return one party's upload": (drilled("return one party's upload"), frozenset({"E_AUTH"})),
    "ignore a party": (drilled("ignore a party"), frozenset({"E_AUTH"})),
    "zero": (drilled("zero"), frozenset({"E_FLOOR"})),
    "wrong count": (drilled("wrong count"), frozenset({"E_COUNT"})),
    "inject random tokens": (drilled("inject random tokens"), frozenset({"E_GROUP"})),
    "duplicate tokens": (drilled("duplicate tokens"), frozenset({"E_GROUP"})),
    "replay another query": (drilled("replay another query"), frozenset({"E_GROUP"})),
    "validation server lies": (drilled("validation server lies"), frozenset({"E_COUNT"})),
}

BEHAVIOURS: dict[str, tuple[Any, frozenset[str]]] = {
    "drop one": (counting(drop_one), frozenset({"E_MIRROR", "E_TOTAL"})),
    "scale": (counting(scale), frozenset({"E_MIRROR", "E_TOTAL"})),
    "swap cells": (counting(swap_cells), frozenset({"E_MIRROR"})),
    "merge cells": (counting(merge_cells), frozenset({"E_MIRROR"})),
    "move one": (counting(move_one), frozenset({"E_MIRROR"})),
    "wrong signature": (sending(wrong_signature), frozenset({"E_SIGNATURE"})),
    "stale result": (sending(stale_result), frozenset({"E_REPLAY"})),
    "two faced": (sending(two_faced), frozenset({"E_SEAL", "E_MALFORMED", "E_MIRROR", "E_EQUIVOCATION"})),
}
