"""The answering side: a gRPC service that identifies the caller before it looks at the message.

On every call: TLS 1.3, a certificate of the right shape, its public key compared with the pins.
Limits are enforced before anything is allocated: message size by gRPC while it reads, calls per peer
before waiting for their bytes, calls per peer and run once they are here. The guests of a lobby share the
invitation's key, so their calls are counted by address too (IPv6: by /64): one guest cannot keep the others
out. The `Backend` decides what a call means; the same service carries every protocol.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Network, ip_address
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import unquote

from fedvalue.deployment.network import wire
from fedvalue.errors import (
    EngineError,
    FedValueError,
    RemoteProtocolError,
    TransportError,
    VerificationError,
)
from fedvalue.identity.tls_certificates import spki_sha256

if TYPE_CHECKING:
    from fedvalue.identity.cards import Identity

CALLS_PER_PEER = 8
"""Concurrent calls of one peer in one run; a party needs two."""

CALLS_IN_ALL = 64
"""Concurrent calls of one peer in all its runs, counted before its bytes are read."""

CALLS_ARRIVING = 16
"""Of these, calls whose message has not arrived yet: each holds a thread that other peers may need."""

ARRIVAL_SECONDS = 30.0
"""How long a message may take to arrive: as long as our own clients wait for an answer."""

HANG_UP_SECONDS = 0.5
"""How long after the end of its messages the end of a call may become known."""

CALL_WINDOW = 2 << 20
"""Bytes that a peer may send in a call ahead of their being read: a chunk of an upload, in one round trip.

Fixed, because gRPC's own estimate of the line (its BDP probe) lets a fast sender's window grow until refused
messages still on their way hold tens of MiB.
"""

THREADS = 160
"""Long polls hold a thread each, and posts need one too. Waiting threads cost little."""


@dataclass(frozen=True, slots=True)
class Peer:
    """A caller, as TLS proved it: its pin and certificate. The run's manifest gives the name."""

    spki: bytes
    certificate: bytes


class Backend(Protocol):
    """Handles calls. Errors raised here reach the caller with class and code."""

    def submit(self, peer: Peer, request: wire.Submit) -> wire.Standing:
        """Take a manifest."""

    def post(self, peer: Peer, request: wire.Post) -> wire.Standing:
        """Take a message."""

    def poll(self, peer: Peer, request: wire.Poll) -> wire.Mail:
        """Return a participant's mail."""

    def status(self, peer: Peer, request: wire.Status) -> wire.Standing:
        """Return where a run stands for a participant."""

    def health(self, peer: Peer, request: wire.Health) -> wire.Alive:
        """Answer a liveness check."""

    def leave(self, peer: Peer, request: wire.Leave) -> wire.Notes:
        """Take a message for a lobby."""

    def look(self, peer: Peer, request: wire.Look) -> wire.Notes:
        """Return the messages in a lobby."""

    def refused(self, peer: Peer | None, method: str, error: FedValueError) -> None:
        """Note a refused call, for log and metrics."""


_REQUESTS: dict[str, type[wire.Frame]] = {
    "Submit": wire.Submit, "Post": wire.Post, "Poll": wire.Poll, "Status": wire.Status, "Health": wire.Health,
    "Leave": wire.Leave, "Look": wire.Look,
}  # fmt: skip


class NetworkServer:
    """A running gRPC server.

    Args:
        backend: Handles the calls.
        identity: Its key and certificate are shown to callers.
        lobbies: Further identities on the same port; a caller asks for one by its TLS name.
        roots: All pinned certificates, PEM, one after the other.
        listen: host:port; port 0 picks one.
    """

    def __init__(
        self,
        backend: Backend,
        *,
        identity: Identity,
        roots: bytes,
        listen: str,
        lobbies: Sequence[Identity] = (),
    ) -> None:
        import grpc

        credentials = grpc.ssl_server_credentials(
            [(one.tls_key, one.card.pem) for one in (identity, *lobbies)],
            root_certificates=roots + b"".join(one.card.pem for one in lobbies),
            require_client_auth=True,
        )
        self._server = grpc.server(
            ThreadPoolExecutor(THREADS, thread_name_prefix="call"),
            maximum_concurrent_rpcs=2 * THREADS,
            options=[
                ("grpc.max_receive_message_length", wire.MAX_CALL_BYTES),
                ("grpc.max_send_message_length", 2 * wire.MAX_CALL_BYTES),
                ("grpc.http2.bdp_probe", 0),
                ("grpc.http2.lookahead_bytes", CALL_WINDOW),
                ("grpc.max_metadata_size", 16 << 10),
                ("grpc.server_handshake_timeout_ms", 10_000),
                ("grpc.max_connection_idle_ms", 300_000),
                ("grpc.max_connection_age_ms", 3_600_000),
                ("grpc.max_connection_age_grace_ms", 30_000),
                ("grpc.keepalive_time_ms", 20_000),
                ("grpc.keepalive_timeout_ms", 5_000),
                ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
                # Two servers must never share a port by accident.
                ("grpc.so_reuseport", 0),
            ],
        )
        guests = frozenset(one.card.spki for one in lobbies)
        self._server.add_generic_rpc_handlers((Handlers(backend, guests),))
        try:
            self.port = self._server.add_secure_port(listen, credentials)
        except RuntimeError:
            raise EngineError(f"cannot listen on {listen}: the address is in use or not local") from None

    def start(self) -> None:
        """Start answering."""
        self._server.start()

    def close(self, grace: float) -> None:
        """Free the port now; calls under way have `grace` seconds to finish, in the background."""
        self._server.stop(grace)

    def stop(self, grace: float) -> None:
        """Accept no new calls, and wait until those under way have finished, at most `grace` seconds."""
        self._server.stop(grace).wait(grace + 5.0)


class Handlers:
    """Routes /fedvalue.v1.Relay/METHOD to the backend. A gRPC generic handler.

    Args:
        backend: Handles the calls.
        guests: Keys that several callers share: those of lobbies.
    """

    def __init__(self, backend: Backend, guests: frozenset[bytes] = frozenset()) -> None:
        import grpc

        self._grpc = grpc
        self._backend = backend
        self._guests = guests
        self._calls: Counter[tuple[bytes, bytes]] = Counter()
        self._arriving: dict[int, tuple[float, Any]] = {}
        self._lock = threading.Lock()
        # A stream of one message is the same on the wire. For the message of a unary call gRPC would wait
        # in one of our threads, before we know who calls.
        self._methods = {
            f"/{wire.SERVICE}/{name}": grpc.stream_unary_rpc_method_handler(self._handler(name))
            for name in _REQUESTS
        }

    def service(self, details: Any) -> Any:
        """The handler of a method; None makes gRPC answer UNIMPLEMENTED. Called before a thread is taken."""
        self._cut_off_late()
        return self._methods.get(details.method)

    def _handler(self, name: str) -> Callable[[Iterator[bytes], Any], bytes]:
        act = getattr(self._backend, name.lower())

        def handle(messages: Iterator[bytes], context: Any) -> bytes:
            peer = None
            try:
                peer = peer_of(context.auth_context())
                caller = self._caller(peer, context)
                alone = CALLS_IN_ALL if caller == peer.spki else CALLS_PER_PEER
                with self._slot((peer.spki, b""), CALLS_IN_ALL), self._slot((caller, b"caller"), alone):
                    data = self._arrived(caller, messages, context)
                    request = wire.decode(data, _REQUESTS[name])
                    with self._slot((caller, getattr(request, "run_id", b"none")), CALLS_PER_PEER):
                        return wire.encode(act(peer, request))
            except CallerGoneError:
                return b""  # nobody reads it
            except FedValueError as error:
                refusal = error
            except Exception:  # noqa: BLE001  # a bug must not show internals to a peer
                refusal = EngineError("an error inside the server", code="E_ENGINE")
            self._backend.refused(peer, name, refusal)
            context.abort(self._status(refusal), wire.error_text(_for_peers(refusal)))
            raise AssertionError("abort raises")

        return handle

    def _caller(self, peer: Peer, context: Any) -> bytes:
        """Under whose name calls are counted: a key, and where several callers share it the address too."""
        if peer.spki not in self._guests:
            return peer.spki
        return peer.spki + guest_address(str(context.peer())).encode()

    def _arrived(self, caller: bytes, messages: Iterator[bytes], context: Any) -> bytes:
        """Wait for the message of a call.

        Raises:
            TransportError: E_BUSY: too many calls of this caller are waiting for their message.
            RemoteProtocolError: E_MALFORMED: it did not arrive, or not in time.
            CallerGoneError: The caller hung up before it had sent it.
        """
        with self._slot((caller, b"arriving"), CALLS_ARRIVING):
            with self._lock:
                self._arriving[id(context)] = (time.monotonic() + ARRIVAL_SECONDS, context)
            try:
                data = next(messages, None)
            except self._grpc.RpcError:
                data = None  # cancelled, by the caller or by us
            finally:
                with self._lock:
                    until, _ = self._arriving.pop(id(context))
            if data is not None:
                return data
            if time.monotonic() < until and _has_gone(context):
                raise CallerGoneError
        raise RemoteProtocolError("a call without a message", code="E_MALFORMED")

    def _cut_off_late(self) -> None:
        """Cancel calls whose message takes too long, when another call needs a thread."""
        now = time.monotonic()
        with self._lock:
            late = [context for until, context in self._arriving.values() if until < now]
        for context in late:
            context.cancel()

    @contextmanager
    def _slot(self, key: tuple[bytes, bytes], most: int) -> Iterator[None]:
        with self._lock:
            if self._calls[key] >= most:
                raise TransportError(f"more than {most} calls at once", code="E_BUSY")
            self._calls[key] += 1
        try:
            yield
        finally:
            with self._lock:
                self._calls[key] -= 1
                if not self._calls[key]:
                    del self._calls[key]

    def _status(self, error: FedValueError) -> Any:
        codes = self._grpc.StatusCode
        return {
            "E_IDENTITY": codes.PERMISSION_DENIED,
            "E_SENDER": codes.PERMISSION_DENIED,
            "E_RUN": codes.NOT_FOUND,
            "E_SIZE": codes.RESOURCE_EXHAUSTED,
            "E_BUSY": codes.RESOURCE_EXHAUSTED,
            "E_STORAGE": codes.RESOURCE_EXHAUSTED,
            "E_CONFLICT": codes.ABORTED,
            "E_DIGEST": codes.DATA_LOSS,
            "E_MALFORMED": codes.INVALID_ARGUMENT,
            "E_ENGINE": codes.INTERNAL,
        }.get(error.code, codes.FAILED_PRECONDITION)


class CallerGoneError(Exception):
    """A caller hung up before it had sent its message. Nothing is refused."""


def _has_gone(context: Any) -> bool:
    """Whether the caller of a call without a message has hung up.

    gRPC reports that no message will come a moment before it reports why.
    """
    ended = threading.Event()
    return not context.add_callback(ended.set) or ended.wait(HANG_UP_SECONDS)


def guest_address(peer: str) -> str:
    """The address of a gRPC peer, without its port, under which guests are counted.

    Whoever has one IPv6 address usually has the 2^64 of its network, so the network counts.
    """
    family, _, address = unquote(peer).partition(":")
    host = address.rpartition(":")[0].strip("[]")
    try:
        ip = ip_address(host)
    except ValueError:
        return f"{family}:{host}"
    if isinstance(ip, IPv4Address):
        return str(ip)
    if ip.ipv4_mapped is not None:
        return str(ip.ipv4_mapped)
    return str(IPv6Network((int(ip), 64), strict=False))


def _for_peers(error: FedValueError) -> FedValueError:
    """A failure of our disk without our paths; every other error as it is."""
    if not isinstance(error, EngineError) or error.code != "E_STORAGE":
        return error
    cause = error.__cause__
    reason = (cause.strerror if isinstance(cause, OSError) else str(cause or "")) or "not known"
    return EngineError(f"it cannot write to its disk ({reason}); its operator must help", code=error.code)


def peer_of(auth: Any) -> Peer:
    """The peer of a call, as TLS proved it.

    Raises:
        VerificationError: E_IDENTITY: below TLS 1.3, or no certificate.
    """
    version = auth.get("ssl_tls_version", [b""])[0]
    if version != b"TLSv1.3":
        raise VerificationError("TLS 1.3 is required", code="E_IDENTITY")
    pems = auth.get("x509_pem_cert", [])
    if len(pems) != 1:
        raise VerificationError("a client certificate is required", code="E_IDENTITY")
    return Peer(spki_sha256(pems[0]), pems[0])
