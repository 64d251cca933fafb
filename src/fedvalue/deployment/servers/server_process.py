"""A server: start, answer, and stop without losing anything."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from fedvalue._version import __version__
from fedvalue.deployment.home import Home
from fedvalue.deployment.process import tell_systemd, watchdog_seconds
from fedvalue.errors import ConfigError
from fedvalue.identity.identity_files import read_identity, read_pinned
from fedvalue.storage.durable_files import PUBLIC, exclusive_lock, make_private_folder, write_durably

if TYPE_CHECKING:
    from fedvalue.deployment.config import ServerConfig
    from fedvalue.deployment.process import HandshakeWatch
    from fedvalue.deployment.servers.door import Door
    from fedvalue.deployment.servers.observability import LoopbackServer, Routes
    from fedvalue.deployment.servers.relay_server import RelayServer
    from fedvalue.deployment.servers.server_role import MakeRole
    from fedvalue.deployment.servers.usher import Usher

GRACE_SECONDS = 10.0
"""How long calls under way may take to finish after a stop; clients repeat those that did not."""


def serve(
    config: ServerConfig,
    role: str | None = None,
    *,
    stop: threading.Event | None = None,
    on_start: Callable[[], object] = lambda: None,
    make_role: MakeRole | None = None,
    handshakes: HandshakeWatch | None = None,
    routes: Routes | None = None,
) -> None:
    """Run a server until `stop` is set or Ctrl-C is pressed.

    Logs go to stderr, one JSON object per line. The process itself is left as it is: hardening and
    signal handlers belong to the command (`fedvalue.deployment.process`).

    Args:
        config: What `read_server_config` returns.
        role: compute, validate or assist, if the identity must have this role.
        stop: Ends the server when another thread or a signal handler sets it.
        on_start: Called once everything is loaded, right before the server listens.
        make_role: Replaces the honest role, for demonstrations and tests.
        handshakes: Tells of connections that TLS refused.
        routes: Further pages for the operator, beside metrics and health.

    Raises:
        ConfigError: The identity, the peers or the configuration is wrong.
        EngineError: The port is taken, the state folder cannot be written, or another server uses it.
    """
    from fedvalue.deployment.servers.door import Door
    from fedvalue.deployment.servers.observability import Log
    from fedvalue.deployment.servers.relay_server import RelayServer
    from fedvalue.deployment.servers.server_role import server_role
    from fedvalue.deployment.servers.usher import Usher
    from fedvalue.federated.warm_up import warm_up

    stop = stop or threading.Event()
    identity = read_identity(config.identity)
    if role is not None and identity.card.role != role:
        raise ConfigError(
            f"the identity in {config.identity} has role {identity.card.role!r}, not {role!r}",
            code="E_IDENTITY",
        )
    home = None if config.home is None else Home(config.home)
    if home is not None:
        make_private_folder(config.peers)
    cards = read_pinned(config.peers, identity.card)
    if home is None and set(cards) == {identity.card.name}:
        raise ConfigError(f"no card is pinned in {config.peers}, so nobody could connect", code="E_IDENTITY")
    log = Log(identity.card.name)
    with exclusive_lock(config.state / "server.lock"):
        relay = RelayServer(
            identity, cards, config.state, terms=config.accept, limits=config.limits, log=log,
            make_role=make_role or server_role,
        )  # fmt: skip
        network: Door | None = None
        usher: Usher | None = None
        metrics: LoopbackServer | None = None
        # It is at work already, on deadlines and unfinished runs. It ends before the lock is free, also if
        # the start fails: another process may take over then.
        try:
            network = Door(config, identity, relay, log)
            usher = None if home is None else Usher(home, identity, relay.lobbies, log, network.reopen)
            if handshakes is not None:
                handshakes.notify = relay.handshake_failed
            metrics = _operator_pages(config, relay, routes or {})
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
            if usher is not None:
                usher.start()
            _wait(stop, config, relay)
        finally:
            log.event("stopping")
            _stop(relay, network, usher, metrics)
    log.event("stopped")


def _wait(stop: threading.Event, config: ServerConfig, relay: RelayServer) -> None:
    """Wait until the server shall stop; answer systemd's watchdog as long as deadlines are watched."""
    tell_systemd(f"READY=1\nSTATUS=listening on {config.listen}")
    pulse = watchdog_seconds()
    while not stop.wait(pulse):
        if relay.alive:
            tell_systemd("WATCHDOG=1")
    tell_systemd("STOPPING=1")


def _stop(
    relay: RelayServer, network: Door | None, usher: Usher | None, metrics: LoopbackServer | None
) -> None:
    """Stop what there is of a server."""
    if usher is not None:
        usher.stop()
    relay.drain()
    if network is not None:
        network.stop(GRACE_SECONDS)
    relay.stop()
    if metrics is not None:
        metrics.stop()


def _operator_pages(config: ServerConfig, relay: RelayServer, routes: Routes) -> LoopbackServer | None:
    from fedvalue.deployment.servers.observability import LoopbackServer, health_routes

    if config.metrics is None:
        return None
    own = health_routes(relay.metrics, relay.findings, relay.unready)
    return LoopbackServer({**own, **routes}, config.metrics.listen)
