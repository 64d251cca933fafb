"""The honest role of a server in a run, by the manifest's protocol: the only one in production."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from fedvalue.deployment.servers.computation import checkpoint, killable
from fedvalue.information.pair_tables import PairTables
from fedvalue.protocol.readiness import cell_sizes, check_cells

if TYPE_CHECKING:
    from fedvalue.agreement.manifest import Manifest
    from fedvalue.information.contingency import JointCounts
    from fedvalue.protocol.chunk_store import ChunkStore
    from fedvalue.protocol.keyring import Credentials
    from fedvalue.protocol.outcome import Answer, Valuer
    from fedvalue.protocol.server import Server
    from fedvalue.protocol.settings import RunTerms

MakeRole = Callable[[str, "Manifest", "RunTerms", "Credentials", "ChunkStore"], "Server"]
"""(role of the server, manifest, terms, credentials, chunks) -> its role in the run"""


def server_role(
    role: str, manifest: Manifest, terms: RunTerms, credentials: Credentials, chunks: ChunkStore
) -> Server:
    """The role `compute`, `validate` or `assist` of a run."""
    from fedvalue.protocol.computation_server import ComputationServer
    from fedvalue.protocol.server import AssistingServer
    from fedvalue.protocol.validation_server import ValidationServer

    kinds = {"compute": ComputationServer, "validate": ValidationServer, "assist": AssistingServer}
    valuer = killable(manifest, valuer_of(manifest))
    return kinds[role](terms, credentials=credentials, valuer=valuer, store=chunks, checkpoint=checkpoint)


def valuer_of(manifest: Manifest) -> Valuer:
    """What both servers compute from the counts, by the manifest's terms.

    They refuse a label or an X_t that singles out a few samples (VerificationError E_GATE): only they
    see these marginals without trusting the task party.
    """
    from fedvalue.federated.valuers import make_valuer

    honest = make_valuer(manifest.settings, work_limit=manifest.work_limit)

    def gated(counts: JointCounts | PairTables, run: RunTerms) -> Answer:
        if isinstance(counts, PairTables):
            return honest(counts, run)  # with noise a refusal would be an answer without it
        task = cell_sizes(run, counts.task, counts.count, counts.task_codebook)
        (label,) = cell_sizes(run, counts.label, counts.count, None)
        check_cells(run, task, label)
        return honest(counts, run)

    return gated
