"""Why a server cannot be reached: one plain TLS handshake, looked at step by step.

gRPC reports every failed handshake as "Socket closed" or worse. The probe repeats it without gRPC and says
which step fails: the name, the port, TLS itself, the server's key, a clock, or our own card. It sends no
message and trusts nothing: what it finds is advice for a person.
"""

from __future__ import annotations

import datetime as dt
import os
import socket
import ssl
from typing import TYPE_CHECKING

from fedvalue.errors import ConfigError
from fedvalue.identity.tls_certificates import spki_sha256, tls_name, validity

if TYPE_CHECKING:
    from fedvalue.agreement.manifest import Participant
    from fedvalue.identity.cards import Identity

SECONDS = 3.0
"""How long each step may take."""


def probe(
    identity: Identity, server: Participant, address: str | None = None, *, now: dt.datetime | None = None
) -> str | None:
    """What keeps `identity` from reaching a server, with the remedy; None if nothing does.

    Args:
        identity: Who calls.
        server: Which server, with its pinned certificate.
        address: host:port, where it differs from the server's endpoint.
        now: This machine's clock.
    """
    moment = now or dt.datetime.now(dt.UTC)
    own = _outside("our own card", identity.card.certificate, moment, "make a new identity (fedvalue init)")
    if own is not None:
        return own
    target = address or server.endpoint
    try:
        return _handshake(identity, server, target, moment)
    except ssl.SSLError as error:
        return _refusal(error, identity)
    except ConnectionResetError:
        return _unpinned(identity)
    except OSError as error:
        return _no_connection(error, target)


def _no_connection(error: OSError, target: str) -> str:
    if isinstance(error, socket.gaierror):
        name = target.rpartition(":")[0]
        return f"the name {name} is not known here ({error.strerror}): check the address and the DNS"
    if isinstance(error, ConnectionRefusedError):
        return (
            f"nothing listens at {target}: the server is not running (its operator starts it with "
            "`fedvalue serve`), or it has another address"
        )
    if isinstance(error, TimeoutError):
        return f"{target} does not answer: a firewall, a proxy or a wrong address is in the way"
    return f"{target} cannot be reached: {error.strerror or error}"


def _handshake(identity: Identity, server: Participant, target: str, now: dt.datetime) -> str | None:
    host, _, port = target.rpartition(":")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # compared below, with the pin
    context.set_alpn_protocols(["h2"])
    _show_card(context, identity)
    name = tls_name(identity.card.consortium, server.role, server.name)
    with (
        socket.create_connection((host.strip("[]"), int(port)), SECONDS) as plain,
        context.wrap_socket(plain, server_hostname=name) as tls,
    ):
        certificate = tls.getpeercert(binary_form=True) or b""
        if not certificate or spki_sha256(certificate) != server.spki:
            if identity.card.spki == server.spki:  # the lobby of an invitation, which all guests share
                return (
                    f"the server at {target} does not have this invitation: its operator must accept it and "
                    "run `fedvalue serve`"
                )
            return (
                f"another key than that of {server.name!r} answers at {target}: a wrong address, a proxy "
                "that opens TLS, or a server with new keys, whose card must be compared and pinned"
            )
        late = _outside(f"the card of {server.name!r}", certificate, now, "its operator must renew it")
        if late is not None:
            return late
        # Under TLS 1.3 a server judges our certificate after our side of the handshake is over. It then
        # either greets (HTTP/2 settings) or sends an alert, which raises.
        if not tls.recv(1):
            return _unpinned(identity)
    return None


def _show_card(context: ssl.SSLContext, identity: Identity) -> None:
    """Load our certificate and key; the key passes through memory, never through a file on a disk."""
    handle = os.memfd_create("fedvalue", os.MFD_CLOEXEC)
    try:
        os.write(handle, identity.card.pem + identity.tls_key)
        context.load_cert_chain(f"/proc/self/fd/{handle}")
    finally:
        os.close(handle)


def _outside(whose: str, certificate: bytes, now: dt.datetime, remedy: str) -> str | None:
    """What is wrong with the time of a certificate."""
    try:
        first, last = validity(certificate)
    except ConfigError as error:
        return f"{whose}: {error}"
    if now < first:
        return (
            f"the clock of this machine is wrong: it says {now:%Y-%m-%d %H:%M} UTC, and {whose} begins "
            f"only at {first:%Y-%m-%d %H:%M} UTC; set the clock"
        )
    if now >= last:
        return (
            f"{whose} expired at {last:%Y-%m-%d %H:%M} UTC (this clock says {now:%Y-%m-%d %H:%M}): "
            f"{remedy}, or set the clock if it is wrong"
        )
    return None


def _refusal(error: ssl.SSLError, identity: Identity) -> str:
    reason = error.reason or str(error)
    if "EXPIRED" in reason:
        return "the server says that our card has expired: its clock or ours is wrong, compare both"
    if "UNKNOWN_CA" in reason or "CERTIFICATE_UNKNOWN" in reason:
        return _unpinned(identity)
    if "BAD_CERTIFICATE" in reason:
        return "the server says that our card is not valid yet: its clock or ours is wrong, compare both"
    return (
        f"the program at this address does not speak TLS 1.3 as our servers do ({reason}): check the address"
    )


def _unpinned(identity: Identity) -> str:
    card = identity.card
    return (
        f"its operator has not pinned the card of {card.name!r}: send card.json, and compare the fingerprint "
        f"{card.fingerprint[:19]}… over the phone"
    )
