"""The honest role of a server in a run, by the manifest's protocol: the only one in production."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from fedvalue.protocol.readiness import cell_sizes, check_cells

if TYPE_CHECKING:
    from fedvalue.agreement.manifest import Manifest
    from fedvalue.information.contingency import JointCounts
    from fedvalue.protocol.keyring import Credentials
    from fedvalue.protocol.mirror.counting import ChunkStore
    from fedvalue.protocol.outcome import Answer, Valuer
    from fedvalue.protocol.server import Server
    from fedvalue.protocol.settings import RunTerms, Settings

MakeRole = Callable[[str, "Manifest", "RunTerms", "Credentials", "ChunkStore"], "Server"]
"""(compute or validate, manifest, terms, credentials, chunks) -> role"""


def server_role(
    role: str, manifest: Manifest, terms: RunTerms, credentials: Credentials, chunks: ChunkStore
) -> Server:
    """The role `compute` or `validate` of a run."""
    from fedvalue.protocol.computation_server import ComputationServer
    from fedvalue.protocol.validation_server import ValidationServer

    kind = ComputationServer if role == "compute" else ValidationServer
    return kind(terms, credentials=credentials, valuer=valuer_of(manifest), store=chunks)


def valuer_of(manifest: Manifest) -> Valuer:
    """What both servers compute from the counts, by the manifest's terms.

    They refuse a label or an X_t that singles out a few samples (VerificationError E_GATE): only they
    see these marginals without trusting the task party.
    """
    from fedvalue.federated.valuers import make_noisy_valuer, make_valuer

    if manifest.epsilon is not None:
        return make_noisy_valuer(manifest.settings)
    honest = make_valuer(manifest.settings)

    def gated(counts: JointCounts, run: Settings) -> Answer:
        task = cell_sizes(run, counts.task, counts.count, counts.task_codebook)
        (label,) = cell_sizes(run, counts.label, counts.count, None)
        check_cells(run, task, label)
        return honest(counts, run)

    return gated
