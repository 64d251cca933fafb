"""One data party of six under `mirror`, alone: reads its table, masks it for both servers, and encodes it.

`python benchmarks/one_party.py WARM TABLE ROWS MEMORY_MIB` prints seconds and peak memory as JSON. The
messages of the other participants are made up; the party does the same work as in a run.
"""

from __future__ import annotations

import datetime as dt
import json
import sys
import tempfile
import time
from pathlib import Path

from harness import peak_memory_mib

from fedvalue.agreement.manifest import Manifest, Participant
from fedvalue.crypto.hashing import multiset_hash
from fedvalue.crypto.keys import signing_public
from fedvalue.deployment.config import TableConfig
from fedvalue.deployment.parties.party_input import PartyInput, read_input
from fedvalue.identity.cards import create_identity
from fedvalue.protocol import codec
from fedvalue.protocol.keyring import Credentials, Keyring
from fedvalue.protocol.mirror.upload import MirrorWork
from fedvalue.protocol.settings import ProtocolName, Settings

PEERS = ("bank", "telco", "insurer", "utility", "press")
ROLES = {"compute": "compute", "validate": "validate", "bank": "task"}
SERVERS = {"compute": "127.0.0.1:1", "validate": "127.0.0.1:2"}


def main() -> None:
    """Measure, after a first run on a small table that loads the compiled code."""
    warm, table, rows, memory = sys.argv[1:]
    with tempfile.TemporaryDirectory() as scratch:
        one_run(Path(warm), 10_000, 1, Path(scratch))
        one_run(Path(warm), 10_000, 1024, Path(scratch))
        measured = one_run(Path(table), int(rows), int(memory), Path(scratch))
    print(json.dumps({**measured, "peak": peak_memory_mib()}))


def one_run(source: Path, rows: int, memory_mib: int, scratch: Path) -> dict[str, float]:
    """Seconds for reading, for preparing both uploads and for encoding them; CPU seconds for everything."""
    cpu = time.process_time()
    table = TableConfig(source=str(source), id="id", memory_mib=memory_mib)
    start = time.perf_counter()
    inputs = read_input(table, _manifest(rows), "shop", "data", scratch)
    read = time.perf_counter() - start
    start = time.perf_counter()
    work = _work(inputs)
    messages = work.begin()
    prepared = time.perf_counter() - start
    start = time.perf_counter()
    size = 0
    while messages:
        size += len(codec.encode(messages.pop(0)))  # dropped, as after a server's acknowledgement
    encoded = time.perf_counter() - start
    assert size > 2 * rows
    cpu = time.process_time() - cpu
    return {"read": read, "prepared": prepared, "encoded": encoded, "cpu": cpu}


def _manifest(rows: int) -> Manifest:
    now = dt.datetime.now(dt.UTC).replace(microsecond=0)
    names = ("compute", "validate", "shop", *PEERS)
    cards = [create_identity("bench", ROLES.get(name, "data"), name, now=now).card for name in names]
    return Manifest(
        consortium="bench",
        purpose="one party alone",
        nonce=bytes(16),
        created=now,
        expires=now + dt.timedelta(days=1),
        participants=tuple(Participant.from_card(card, SERVERS.get(card.name, "")) for card in cards),
        n_samples=rows,
    )


def _work(inputs: PartyInput) -> MirrorWork:
    """The party's work up to the upload, under made-up keys."""
    settings = Settings(
        run_id=bytes(32),
        protocol=ProtocolName.MIRROR,
        task="bank",
        parties=("shop", *PEERS[1:]),
        max_samples=inputs.rows,
        n_samples=inputs.rows,
        n_task_codes=5,
        n_label_codes=2,
        n_codes=(inputs.sizes[0], *(5 for _ in PEERS[1:])),
    )
    pairs = {peer: bytes([k]) * 32 for k, peer in enumerate(PEERS)}
    signs = {peer: 1 if k else -1 for k, peer in enumerate(PEERS)}
    ring = Keyring(bytes(32), bytes(32), bytes(32), pairs, signs)
    hashed = inputs.samples.hashed(ring.ids())
    multiset_hash(ring.population_blocks(), hashed.blocks())
    pins = {server: signing_public(bytes(32)) for server in settings.servers}
    return MirrorWork(
        settings,
        "shop",
        ring,
        samples=inputs.samples,
        hashed=hashed,
        credentials=Credentials(bytes(32), bytes(32), pins),
    )


if __name__ == "__main__":
    main()
