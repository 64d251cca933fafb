"""The calling side: one server, reached over mutual TLS, trusted by its pinned certificate alone.

The channel's root store holds exactly one certificate, the server's, so that nobody else can answer,
whatever authorities the machine trusts. The server checks the TLS version (1.3), which gRPC for Python
shows to servers only. Broken connections are tried again with backoff; refusals by the server are raised
with their class and code.
"""

from __future__ import annotations

import math
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from fedvalue.deployment.network import wire
from fedvalue.deployment.network.retry import Backoff, Retry
from fedvalue.deployment.network.tls_probe import probe
from fedvalue.errors import TransportError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from fedvalue.agreement.manifest import Participant
    from fedvalue.identity.cards import Identity

F = TypeVar("F", bound=wire.Frame)

CALL_SECONDS = 30.0
"""Deadline of one call. A chunk of 4 MiB passes a line of 1.2 Mbit/s in that time."""

ASK_SECONDS = 10.0
"""Deadline of a call for somebody who looks at a server and waits: a busy one needs seconds to answer."""

PROBE_SECONDS = 10.0
"""How often a server that cannot be reached is looked at more closely."""

_BUSY = ("E_BUSY", "E_STORAGE")
"""Refusals that a later attempt may not meet."""


class HasConsortium(Protocol):
    """A manifest or an invitation."""

    @property
    def consortium(self) -> str:
        """The group whose certificates count."""


class ServerClient:
    """Calls one server on behalf of one participant.

    Args:
        identity: Who calls.
        server: Which server.
        manifest: Or invitation: names the consortium, for the server's TLS name.
        backoff: Waiting times between attempts.
        patience: Seconds for which a broken connection is tried again.
        call_seconds: Deadline of one call.
        address: host:port of a proxy in between; the manifest's when None.
        on_standing: Called with every standing that a reply carries, with its receipt.
    """

    def __init__(
        self,
        identity: Identity,
        server: Participant,
        manifest: HasConsortium,
        *,
        backoff: Backoff | None = None,
        patience: float = 60.0,
        call_seconds: float = CALL_SECONDS,
        address: str | None = None,
        on_standing: Callable[[str, wire.Standing], None] | None = None,
    ) -> None:
        import grpc

        from fedvalue.identity.tls_certificates import pem_of, tls_name

        self.name = server.name
        self._probe = partial(probe, identity, server, address)
        self._probed = (-math.inf, "")
        self._backoff = backoff or Backoff()
        self._patience = patience
        self._call_seconds = call_seconds
        self._on_standing = on_standing
        credentials = grpc.ssl_channel_credentials(
            root_certificates=pem_of(server.certificate),
            private_key=identity.tls_key,
            certificate_chain=identity.card.pem,
        )
        expected = tls_name(manifest.consortium, server.role, server.name)
        self._grpc = grpc
        self._closed = False
        self._channel = grpc.secure_channel(
            address or server.endpoint,
            credentials,
            options=[
                ("grpc.ssl_target_name_override", expected),
                ("grpc.max_receive_message_length", wire.MAX_CALL_BYTES),
                ("grpc.max_send_message_length", 2 * wire.MAX_CALL_BYTES),
                ("grpc.keepalive_time_ms", 15_000),
                ("grpc.keepalive_timeout_ms", 5_000),
                ("grpc.keepalive_permit_without_calls", 0),
                ("grpc.initial_reconnect_backoff_ms", 100),
                # Also how long one attempt may take: a busy machine needs seconds for a handshake.
                ("grpc.min_reconnect_backoff_ms", 20_000),
                ("grpc.max_reconnect_backoff_ms", 2_000),
                ("grpc.enable_retries", 0),
                # Two participants in one process (tests, a party of two runs) keep their own identity.
                ("grpc.use_local_subchannel_pool", 1),
            ],
        )
        self._methods: dict[str, Any] = {}

    def submit(self, manifest: bytes) -> wire.Standing:
        """Make the run known."""
        return self._standing("Submit", wire.encode(wire.Submit(wire.VERSION, manifest, time.time())))

    def post(self, run_id: bytes, index: int, *body: bytes | memoryview) -> wire.Standing:
        """Deliver message number `index`, given in consecutive parts; repeating it has no effect."""
        return self._standing("Post", wire.encode_post(run_id, index, *body))

    def poll(self, run_id: bytes, after: int, wait: float, patience: float = 0.0) -> wire.Mail:
        """Mail from number `after` on, after at most `wait` seconds; `patience` as in `wire.Poll`."""
        wait_ms = min(int(wait * 1000), wire.MAX_WAIT_MS)
        request = wire.encode(wire.Poll(wire.VERSION, run_id, after, wait_ms, patience))
        mail = self._call("Poll", request, wire.Mail, extra=wait)
        self._note(mail.standing)
        return mail

    def status(self, run_id: bytes) -> wire.Standing:
        """Where the run stands."""
        return self._standing("Status", wire.encode(wire.Status(wire.VERSION, run_id)))

    def health(self) -> wire.Alive:
        """Raises TransportError when the server does not answer."""
        return self._call("Health", wire.encode(wire.Health(wire.VERSION)), wire.Alive)

    def leave(self, invitation: bytes, note: wire.Note) -> None:
        """Leave a message in the lobby of an invitation; repeating it has no effect."""
        request = wire.Leave(wire.VERSION, invitation, note.seat, note.kind, note.body)
        self._call("Leave", wire.encode(request), wire.Notes)

    def look(self, invitation: bytes, after: int) -> tuple[wire.Note, ...]:
        """Messages in the lobby of an invitation, from number `after` on."""
        return self._call("Look", wire.encode(wire.Look(wire.VERSION, invitation, after)), wire.Notes).notes

    def close(self) -> None:
        """Close the connection."""
        self._closed = True
        self._channel.close()

    def _standing(self, method: str, request: bytes) -> wire.Standing:
        standing = self._call(method, request, wire.Standing)
        self._note(standing)
        return standing

    def _note(self, standing: wire.Standing) -> None:
        if self._on_standing is not None:
            self._on_standing(self.name, standing)

    def _call(self, method: str, request: bytes, kind: type[F], *, extra: float = 0.0) -> F:
        reply = self._backoff.call(
            lambda: self._once(method, request, self._call_seconds + extra), seconds=self._patience
        )
        return wire.decode(reply, kind)

    def _once(self, method: str, data: bytes, timeout: float) -> bytes:
        call = self._methods.get(method)
        if call is None:
            call = self._methods[method] = self._channel.unary_unary(f"/{wire.SERVICE}/{method}")
        try:
            reply: bytes = call(data, timeout=timeout)
        except self._grpc.RpcError as failure:
            raise self._translated(failure) from None
        except ValueError:
            # How grpc reports a channel that was closed during a call.
            raise TransportError(f"the connection to {self.name!r} was closed", code="E_CLOSED") from None
        return reply

    def _translated(self, failure: Any) -> Exception:
        status, details = failure.code(), failure.details() or ""
        error = wire.error_from(details)
        if error is not None:
            words = f"server {self.name!r}: {error}"
            if error.code in _BUSY:
                return Retry(TransportError(words, code=error.code))
            return type(error)(words, code=error.code)
        codes = self._grpc.StatusCode
        # A server that shuts down cancels calls that it has not begun to answer; so does our own `close`.
        passing = [codes.UNAVAILABLE, codes.DEADLINE_EXCEEDED, codes.UNKNOWN, codes.INTERNAL]
        if status in (passing if self._closed else [*passing, codes.CANCELLED]):
            word = "did not answer in time" if status is codes.DEADLINE_EXCEEDED else "cannot be reached"
            reason = self._diagnosis() or grpc_reason(details, {one.name for one in codes})
            return Retry(TransportError(f"server {self.name!r} {word}: {reason}", code="E_UNREACHABLE"))
        if status is codes.CANCELLED:
            return TransportError(f"the call to {self.name!r} was cancelled", code="E_CLOSED")
        if status is codes.RESOURCE_EXHAUSTED:
            return self._exhausted(details)
        return TransportError(f"server {self.name!r}: {status.name}", code="E_TRANSPORT")

    def _diagnosis(self) -> str:
        """Why the server cannot be reached, looked into once in a while; empty when nothing was found."""
        if self._closed:
            return ""
        looked, words = self._probed
        if time.monotonic() - looked > PROBE_SECONDS:
            words = self._probe() or ""
            self._probed = (time.monotonic(), words)
        return words

    def _exhausted(self, details: str) -> Exception:
        """One of gRPC's own limits: the size of a message, or the number of concurrent calls of all peers."""
        if "larger than max" in details:
            return TransportError(f"server {self.name!r} refused a message that is too large", code="E_SIZE")
        return Retry(TransportError(f"server {self.name!r} is busy", code="E_BUSY"))


def grpc_reason(details: str, status_names: Collection[str]) -> str:
    """The last part of gRPC's own words, or ours where that is only a status: "OK" explains nothing."""
    last = details.rpartition(": ")[2].strip(" ()")[:80]
    return "it has not answered yet" if not last or last.upper() in status_names else last
