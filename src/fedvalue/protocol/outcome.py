"""The outcome of a run: the servers' answer under policy `valuation`, and a party's view of it.

The protocol is below the valuation: how numbers are computed from counts is a function that the
caller passes (`Valuer`). It must be deterministic and must not depend on the names of codes or the
order of rows, because the two servers see different labels in different orders and their answers
are compared (`settlement`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import msgspec
import numpy as np

from fedvalue.documents import Document
from fedvalue.information.contingency import JointCounts
from fedvalue.information.pair_tables import PairTables
from fedvalue.protocol import messages as m
from fedvalue.protocol.endorsement import Endorsement
from fedvalue.protocol.release_grid import same_tree
from fedvalue.protocol.settings import RunTerms

Fields: TypeAlias = dict[str, Any]
"""JSON-like data: numbers, text, None, lists and dicts of these."""


class Answer(msgspec.Struct, frozen=True):
    """A valuer's answer to joint counts or noisy tables.

    Args:
        public: For every party: `total` and a description of the computation.
        task: For the task party alone.
        shares: One per data party in the order of the counts' columns: for that party and the task party.
    """

    public: Fields
    task: Fields
    shares: tuple[Fields, ...]


Valuer: TypeAlias = Callable[[JointCounts | PairTables, RunTerms], Answer]
"""(joint counts of opaque columns or noisy tables, the run's terms) -> the answer."""


class SignedResult(Document, frozen=True, kw_only=True):
    """One server's signed result as it was sent, and the keys that open it.

    Args:
        result: The chunks of the result; empty where this party got none.
        digest: The digest that the server signed.
        signature: Over (run, server, digest).
        task_key: Opens the task party's part (policy `valuation`).
        share_keys: Open the data parties' parts, in the servers' order of columns (policy `valuation`).
    """

    result: tuple[bytes, ...]
    digest: bytes
    signature: bytes
    task_key: bytes | None = None
    share_keys: tuple[bytes, ...] = ()

    def __repr__(self) -> str:
        return f"SignedResult(digest={self.digest.hex()!r}, ...)"


@dataclass(frozen=True, slots=True)
class Evidence:
    """The signed parts of a run, with which the task party can prove its values to a third party.

    Args:
        roster: Every party's Ready.
        results: By server.
        endorsements: Endorsements of the data parties, for the task party under `mirror`.
    """

    roster: tuple[m.Ready, ...]
    results: Mapping[str, SignedResult]
    endorsements: tuple[Endorsement, ...] = ()


@dataclass(frozen=True, slots=True)
class Outcome:
    """A party's result of a successful run.

    Args:
        counts: The joint table: every party under `single` and `paper`, the task party under
            `mirror` with policy `counts`, None otherwise.
        tables: One-way and two-way tables (`gram`), with noise unless exact ones were agreed.
        public: The public part of the answer (policy `valuation`).
        task: The task party's part, for the task party.
        shares: By party name: its own share for a data party, all of them for the task party.
        order: For the task party, the names of the data parties in the servers' order of columns,
            for fields of `task` that are indexed by column.
        evidence: The signed parts of the run.
    """

    counts: JointCounts | None = None
    tables: PairTables | None = None
    public: Fields = field(default_factory=dict)
    task: Fields = field(default_factory=dict)
    shares: Mapping[str, Fields] = field(default_factory=dict)
    order: tuple[str, ...] = ()
    evidence: Evidence | None = None


def same_numbers(a: Any, b: Any, tolerance: float = 0.0) -> bool:
    """Whether two JSON-like trees are equal, floats to within `tolerance`.

    Without noise, two servers release numbers equal to the last bit: they settled on them first.
    """
    return same_tree(a, b, lambda field, x, y: abs(x - y) <= tolerance)


def same_outcome(a: Outcome, b: Outcome, tolerance: float = 0.0) -> bool:
    """Whether two servers' results are the same, floats to within `tolerance`."""
    if a.counts is not None and b.counts is not None:
        return all(
            np.array_equal(getattr(a.counts, key), getattr(b.counts, key))
            for key in ("task", "label", "parties", "count")
        )
    return (
        a.counts is b.counts
        and same_numbers(a.public, b.public, tolerance)
        and same_numbers(a.task, b.task, tolerance)
        and same_numbers(dict(a.shares), dict(b.shares), tolerance)
    )
