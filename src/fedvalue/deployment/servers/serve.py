"""A server's process: start, answer, and stop on SIGTERM without losing anything."""

from __future__ import annotations

import gc
import signal
import threading
from typing import TYPE_CHECKING

from fedvalue._version import __version__
from fedvalue.deployment.process import harden, reuse_memory
from fedvalue.deployment.servers.logs import Log
from fedvalue.deployment.servers.pins import Pins
from fedvalue.errors import ConfigError
from fedvalue.identity.identity_files import read_identity
from fedvalue.storage.database import alone, write_whole

if TYPE_CHECKING:
    from fedvalue.deployment.config import ServerConfig
    from fedvalue.deployment.servers.relay_server import MakeRole

GRACE_SECONDS = 10.0
"""A chunk under way gets this long to finish after SIGTERM; the client repeats what did not."""


def serve(config: ServerConfig, role: str, *, make_role: MakeRole | None = None) -> None:
    """Run until SIGTERM or SIGINT.

    Args:
        config: Where everything is.
        role: compute or validate; the identity must have it.
        make_role: Another role than the honest one, for demonstrations and tests.

    Raises:
        ConfigError: The identity, the peers or the configuration is wrong.
        EngineError: The port is taken, the state folder cannot be written, or another server uses it.
    """
    harden()
    reuse_memory()
    from fedvalue.deployment.network.rpc_server import NetworkServer
    from fedvalue.deployment.servers.metrics import MetricsServer
    from fedvalue.deployment.servers.relay_server import Limits, RelayServer
    from fedvalue.deployment.servers.roles import server_role
    from fedvalue.federated.warm_up import warm_up

    identity = read_identity(config.identity)
    if identity.card.role != role:
        raise ConfigError(
            f"the identity in {config.identity} has role {identity.card.role!r}, not {role!r}",
            code="E_IDENTITY",
        )
    pins = Pins(config.peers, identity.card)
    if set(pins.cards()) == {identity.card.name}:
        raise ConfigError(f"no card is pinned in {config.peers}: nobody could connect", code="E_IDENTITY")
    log = Log(identity.card.name)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    with alone(config.state / "server.lock"):
        relay = RelayServer(
            identity, pins, config.state, terms=config.terms, log=log, make_role=make_role or server_role,
            limits=Limits(runs=config.max_runs, workers=config.workers, retention_days=config.retention_days),
        )  # fmt: skip
        network = NetworkServer(relay, identity=identity, roots=pins.roots(), listen=config.listen)
        metrics = MetricsServer(relay.metrics, config.metrics) if config.metrics else None
        # The first start on a machine compiles, for up to a minute.
        log.event("starting", role=role, version=__version__)
        warm_up(values=True)
        # What is loaded now stays: the collector need not look at it again with every upload.
        gc.freeze()
        network.start()
        if config.port_file is not None:
            write_whole(config.port_file, f"{network.port}\n".encode(), mode=0o644)
        log.event("listening", role=role, address=config.listen, version=__version__)
        if metrics is not None:
            metrics.start()
        stop.wait()
        log.event("stopping")
        relay.drain()
        network.stop(GRACE_SECONDS)
        relay.stop()
        if metrics is not None:
            metrics.stop()
    log.event("stopped")
