"""A computation server that changes the result, for `fedvalue demo --fault cheat`.

A separate program (`python -m fedvalue.simulation.cheating_server server.toml`); the real server never
imports this module. It is honest except for two values in its result, or one sum (`gram`).
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from fedvalue.deployment.servers.server_role import valuer_of

if TYPE_CHECKING:
    from fedvalue.agreement.manifest import Manifest
    from fedvalue.information.contingency import JointCounts
    from fedvalue.information.pair_tables import PairTables
    from fedvalue.protocol.chunk_store import ChunkStore
    from fedvalue.protocol.gram.gram_sums import GramSums
    from fedvalue.protocol.keyring import Credentials
    from fedvalue.protocol.outcome import Answer
    from fedvalue.protocol.server import Server
    from fedvalue.protocol.settings import RunTerms, Settings


def cheating_role(
    role: str, manifest: Manifest, terms: RunTerms, credentials: Credentials, chunks: ChunkStore
) -> Server:
    """A computation server that moves 0.01 nats from one party to another, or shifts a sum."""
    from fedvalue.protocol.computation_server import ComputationServer
    from fedvalue.simulation.drill.gram_drill import shift_a_sum

    honest = valuer_of(manifest)

    def favouring(counts: JointCounts | PairTables, terms: RunTerms) -> Answer:
        answer = honest(counts, terms)
        first, second, *rest = (dict(share) for share in answer.shares)
        number = "learnable" if "learnable" in first else "value"
        first[number] += 0.01
        second[number] -= 0.01
        return msgspec.structs.replace(answer, shares=(first, second, *rest))

    class Shifting(ComputationServer):
        def _make_gram(self, settings: Settings) -> GramSums:
            sums = super()._make_gram(settings)
            shift_a_sum(sums)
            return sums

    assert role == "compute"
    return Shifting(terms, credentials=credentials, valuer=favouring, store=chunks)


def main() -> None:
    """Serve, and cheat."""
    from fedvalue.deployment import process
    from fedvalue.deployment.config import read_server_config
    from fedvalue.deployment.servers.server_process import serve

    process.harden()
    config = read_server_config(Path(sys.argv[1]))
    serve(config, "compute", stop=process.stop_on_signals(), make_role=cheating_role)


if __name__ == "__main__":
    main()
