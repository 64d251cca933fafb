"""A run of `vpsic` in this process: parties, one server, τ rounds."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from fedvalue.crypto import keys
from fedvalue.crypto.ids import PackedIds
from fedvalue.errors import InputError
from fedvalue.information.contingency import JointCounts
from fedvalue.protocol.vpsic import VpsicParty, VpsicServer, VpsicTaskParty

if TYPE_CHECKING:
    from fedvalue.federated.cast import CodedTables
    from fedvalue.protocol.vpsic import VpsicSettings

TOKEN_BYTES = 16
CATEGORY_BYTES = 4


def vpsic_counts(
    tables: CodedTables,
    settings: VpsicSettings,
    *,
    ids: PackedIds,
    server: VpsicServer | None = None,
    secret: bytes | None = None,
) -> JointCounts:
    """The joint counts that the task party accepts, under the data parties' renamed codes.

    Args:
        tables: The parties' codes.
        settings: The agreed settings.
        ids: Sample ids, the same at every party.
        server: The server; the drill passes one that cheats.
        secret: All secrets derive from it; drawn from the system when None (tests fix it).

    Raises:
        VerificationError: A check failed; nothing is released.
    """
    server = VpsicServer() if server is None else server
    root = secrets.token_bytes(32) if secret is None else secret
    label, column = tables.label, tables.task_column
    task = VpsicTaskParty(
        "task", ids, column.codes * label.n_codes + label.codes, column.n_codes * label.n_codes,
        secret=keys.subkey(root, b"vpsic", "task"), settings=settings,
    )  # fmt: skip
    everybody: list[VpsicParty] = [task]
    for place, party in enumerate(tables.parties):
        if len(party.codes) != task.n_samples:
            raise InputError(f"{party.name!r} has {len(party.codes)} rows, the task party {task.n_samples}")
        key = keys.subkey(root, b"vpsic", "data", str(place))
        everybody.append(VpsicParty(party.name, ids, party.codes, party.n_codes, secret=key))
    marginals = {place: party.marginal for place, party in enumerate(everybody)}
    for index in range(settings.rounds):
        plan = task.plan()
        answer = server.count(index, [party.upload(plan) for party in everybody])
        task.check(plan, answer, [party.artificial(plan) for party in everybody], marginals)
    counted = task.result
    joint = task.codes_of(counted.cells[:, 0])
    return JointCounts.from_columns(
        label=joint % label.n_codes,
        task=joint // label.n_codes,
        parties={party.name: counted.cells[:, k] for k, party in enumerate(tables.parties, 1)},
        count=counted.counts,
    )


def most_bytes(tables: CodedTables, settings: VpsicSettings) -> int:
    """The most bytes that all parties upload."""
    n = len(tables.label.codes)
    rows = settings.rounds * (settings.most_q * n + round(settings.artificial * n) + 1)
    return int(rows * (len(tables.parties) + 1) * (TOKEN_BYTES + CATEGORY_BYTES))
