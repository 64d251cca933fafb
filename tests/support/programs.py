"""The programs that the tests' processes run.

A program may be told to kill itself (SIGKILL, as a power cut would) right before or right after its
k-th write to the journal: every state boundary of a run is one of these points. Nothing of this
exists in the package.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import fedvalue.deployment.network.rpc_server
import fedvalue.deployment.parties.party_input
import fedvalue.deployment.parties.party_run
import fedvalue.deployment.servers.relay_server
import fedvalue.deployment.servers.server_process
import fedvalue.deployment.valuation_certificate
import fedvalue.federated.valuers
import fedvalue.simulation.cheating_server
from fedvalue.cli import exit_codes
from fedvalue.deployment import process
from fedvalue.deployment.config import read_party_config, read_server_config
from fedvalue.deployment.parties import party_store
from fedvalue.deployment.parties.party_process import take_part
from fedvalue.deployment.servers import server_store
from fedvalue.deployment.servers.server_process import serve
from fedvalue.errors import FedValueError
from fedvalue.storage.database import Database


def server_program(
    config: str, role: str, crash: tuple[str, int] | None = None, leap: str | None = None
) -> None:
    """`fedvalue serve`. Its clock is two hours ahead once the file `leap` exists: no test waits."""
    _crash_at(crash)
    if leap is not None:
        _leap(Path(leap))
    _serve(config, role)


def _leap(mark: Path) -> None:
    relay = fedvalue.deployment.servers.relay_server.RelayServer
    begin = relay.__init__

    def begun(self: Any, *arguments: Any, **options: Any) -> None:
        clock = {"clock": lambda: time.time() + 7200 * mark.exists()}
        begin(self, *arguments, **clock | options)

    relay.__init__ = begun  # type: ignore[method-assign]


def cheat_program(config: str) -> None:
    """The demonstration's cheating computation server."""
    _serve(config, "compute", make_role=fedvalue.simulation.cheating_server.cheating_role)


def evil_program(config: str, role: str, behaviour: str) -> None:
    """A server that cheats in one of the ways of `tests.support.evil_server`."""
    from tests.support.evil_server import BEHAVIOURS, PAPER_BEHAVIOURS

    _serve(config, role, make_role=(BEHAVIOURS | PAPER_BEHAVIOURS)[behaviour][0])


def _serve(config: str, role: str, **options: Any) -> None:
    """As the command does."""
    process.harden()
    process.reuse_memory()
    serve(read_server_config(Path(config)), role, stop=process.stop_on_signals(), **options)


def party_program(config: str, role: str, crash: tuple[str, int] | None = None) -> None:
    """`fedvalue join` or `fedvalue run`; the exit code is the command's."""
    _crash_at(crash)
    process.harden()
    process.reuse_memory()
    try:
        take_part(read_party_config(Path(config)), role, lambda stage, words: print(f"stage {stage} {words}"))
    except FedValueError as error:
        print(f"error {error.code} {error}")
        sys.exit(exit_codes.of(error))


def buggy_party_program(config: str, verb: str, notes: str) -> None:
    """The command with a bug deep in the role, after the keys were agreed; keys are noted in `notes`."""
    from fedvalue.cli.app import main
    from fedvalue.crypto import keys
    from fedvalue.protocol.mirror.upload import MirrorWork

    derive = keys.hkdf

    def noted(secret: bytes, **named: Any) -> bytes:
        out = derive(secret, **named)
        with Path(notes).open("a") as file:
            file.write(f"{secret.hex()}\n{out.hex()}\n")
        return out

    def bug(work: MirrorWork, server: str, n_rows: int) -> None:
        raise RuntimeError("a bug")

    keys.hkdf = noted  # type: ignore[assignment]
    MirrorWork._masked = bug  # type: ignore[method-assign,assignment]
    sys.argv = ["fedvalue", verb, "--config", config]
    main()


def _crash_at(crash: tuple[str, int] | None) -> None:
    """Kill this process before or after its k-th committed transaction."""
    if crash is None:
        return
    when, wanted = crash
    if when == "spooled":
        _crash_after_spooling(wanted)
        return
    if when == "upload":
        _crash_before_uploading(wanted)
        return
    if when == "noise":
        _crash_at_noise(wanted)
        return
    commit = Database.transaction
    count = 0

    def counted(self: Database) -> Any:
        nonlocal count
        count += 1
        number = count
        inner = commit(self)

        class Wrapped:
            def __enter__(self) -> Any:
                if when == "before" and number == wanted:
                    os.kill(os.getpid(), signal.SIGKILL)
                return inner.__enter__()

            def __exit__(self, *arguments: Any) -> Any:
                result = inner.__exit__(*arguments)
                if when == "after" and number == wanted:
                    os.kill(os.getpid(), signal.SIGKILL)
                return result

        return Wrapped()

    Database.transaction = counted  # type: ignore[method-assign,assignment]


def _crash_after_spooling(wanted: int) -> None:
    """Kill this process when the k-th chunk file is in place and nothing in the database knows of it."""
    spool = server_store.ServerStore.spool
    count = 0

    def counted(self: Any, *arguments: Any) -> bool:
        nonlocal count
        spooled = spool(self, *arguments)
        count += spooled
        if spooled and count == wanted:
            os.kill(os.getpid(), signal.SIGKILL)
        return spooled

    server_store.ServerStore.spool = counted  # type: ignore[method-assign]


def _crash_at_noise(wanted: int) -> None:
    """Kill this process when the k-th message about the noise, its own or the other server's, is stored."""
    from fedvalue.protocol import codec
    from fedvalue.protocol import messages as m

    count = 0

    def see(*envelopes: m.Envelope) -> None:
        nonlocal count
        about = (
            m.NoiseCommit,
            m.NoiseSeed,
            m.NoiseOpening,
            m.GramPledge,
            m.GramCoin,
            m.GramSigns,
            m.GramCheck,
        )
        count += sum(isinstance(envelope.message, about) for envelope in envelopes)
        if count >= wanted:
            os.kill(os.getpid(), signal.SIGKILL)

    accept, step = server_store.ServerStore.accept, server_store.ServerStore.step

    def accepted(self: Any, run_id: bytes, k: int, arrivals: Any, audit: Any) -> None:
        accept(self, run_id, k, arrivals, audit)
        see(*(arrival.envelope for arrival in arrivals))

    def stepped(self: Any, run_id: bytes, *, outputs: Any, **named: Any) -> None:
        step(self, run_id, outputs=outputs, **named)
        see(*(codec.decode(body) for _, body in outputs))

    server_store.ServerStore.accept = accepted  # type: ignore[method-assign]
    server_store.ServerStore.step = stepped  # type: ignore[method-assign]


def _crash_before_uploading(wanted: int) -> None:
    """Kill this process when its k-th chunk is about to leave."""
    from fedvalue.deployment.network.rpc_client import ServerClient
    from fedvalue.protocol import codec
    from fedvalue.protocol import messages as m

    post = ServerClient.post
    count = 0

    def counted(self: ServerClient, run_id: bytes, index: int, *parts: bytes) -> Any:
        nonlocal count
        body = b"".join(parts)
        if isinstance(codec.decode(body).message, m.Chunk):
            count += 1
            if count == wanted:
                os.kill(os.getpid(), signal.SIGKILL)
        return post(self, run_id, index, body)

    ServerClient.post = counted  # type: ignore[method-assign]


__all__ = [
    "buggy_party_program",
    "cheat_program",
    "party_program",
    "party_store",
    "server_program",
    "server_store",
]
