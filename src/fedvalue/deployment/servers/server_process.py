"""One of the two servers: start, answer, and stop without losing anything."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from fedvalue._version import __version__
from fedvalue.errors import ConfigError
from fedvalue.identity.identity_files import read_identity, read_pinned
from fedvalue.storage.durable_files import PUBLIC, exclusive_lock, write_durably

if TYPE_CHECKING:
    from fedvalue.deployment.config import ServerConfig
    from fedvalue.deployment.servers.server_role import MakeRole

GRACE_SECONDS = 10.0
"""How long calls under way may take to finish after a stop; clients repeat those that did not."""


def serve(
    config: ServerConfig,
    role: str | None = None,
    *,
    stop: threading.Event | None = None,
    on_start: Callable[[], object] = lambda: None,
    make_role: MakeRole | None = None,
) -> None:
    """Run one of the two servers until `stop` is set or Ctrl-C is pressed.

    Logs go to stderr, one JSON object per line. The process itself is left as it is: hardening and
    signal handlers belong to the command (`fedvalue.deployment.process`).

    Args:
        config: What `read_server_config` returns.
        role: compute or validate, if the identity must have this role.
        stop: Ends the server when another thread or a signal handler sets it.
        on_start: Called once everything is loaded, right before the server listens.
        make_role: Replaces the honest role, for demonstrations and tests.

    Raises:
        ConfigError: The identity, the peers or the configuration is wrong.
        EngineError: The port is taken, the state folder cannot be written, or another server uses it.
    """
    from fedvalue.deployment.network.rpc_server import NetworkServer
    from fedvalue.deployment.servers.observability import Log, MetricsServer
    from fedvalue.deployment.servers.relay_server import RelayServer
    from fedvalue.deployment.servers.server_role import server_role
    from fedvalue.federated.warm_up import warm_up

    stop = stop or threading.Event()
    identity = read_identity(config.identity)
    if role is not None and identity.card.role != role:
        raise ConfigError(
            f"the identity in {config.identity} has role {identity.card.role!r}, not {role!r}",
            code="E_IDENTITY",
        )
    # Read once: a new card needs a restart, which does no harm, since runs continue from their journals.
    # gRPC can reload certificates at every handshake, but did not survive many at once (decision 0401).
    cards = read_pinned(config.peers, identity.card)
    if set(cards) == {identity.card.name}:
        raise ConfigError(f"no card is pinned in {config.peers}: nobody could connect", code="E_IDENTITY")
    log = Log(identity.card.name)
    with exclusive_lock(config.state / "server.lock"):
        relay = RelayServer(
            identity, cards, config.state, terms=config.accept, limits=config.limits, log=log,
            make_role=make_role or server_role,
        )  # fmt: skip
        roots = b"".join(card.pem for card in cards.values())
        network = NetworkServer(relay, identity=identity, roots=roots, listen=config.listen)
        metrics = MetricsServer(relay.metrics, config.metrics.listen) if config.metrics else None
        # The first start on a machine compiles the kernels, for up to a minute.
        log.event("starting", role=identity.card.role, version=__version__)
        warm_up(values=True)
        on_start()
        network.start()
        if config.port_file is not None:
            write_durably(config.port_file, f"{network.port}\n".encode(), mode=PUBLIC)
        log.event("listening", role=identity.card.role, address=config.listen, version=__version__)
        if metrics is not None:
            metrics.start()
        try:
            stop.wait()
        finally:
            log.event("stopping")
            relay.drain()
            network.stop(GRACE_SECONDS)
            relay.stop()
            if metrics is not None:
                metrics.stop()
    log.event("stopped")
