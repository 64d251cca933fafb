"""Who may call, and as whom: items 21 to 25 of the test list, on real sockets."""

from __future__ import annotations

import datetime as dt
import json
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import grpc
import pytest
from msgspec.structs import replace

from fedvalue.agreement.manifest import SignedManifest
from fedvalue.agreement.manifest_rules import Versions
from fedvalue.deployment.network import wire
from fedvalue.deployment.network.retry import Backoff
from fedvalue.deployment.network.rpc_client import ServerClient
from fedvalue.deployment.network.rpc_server import Peer
from fedvalue.deployment.servers import run_host
from fedvalue.errors import ConfigError, FedValueError, RemoteProtocolError, TransportError, VerificationError
from fedvalue.identity.cards import Card, Identity, create_identity
from fedvalue.identity.identity_files import write_card
from fedvalue.identity.tls_certificates import pem_of, tls_name
from fedvalue.protocol import codec
from fedvalue.protocol import messages as m
from tests.support.processes import PATIENCE
from tests.support.town import TASK, Town

pytestmark = pytest.mark.network


@pytest.fixture(scope="module")
def town(tmp_path_factory):
    found = Town(tmp_path_factory.mktemp("identity")).start()
    found.client(TASK).submit(found.consortium.signed.to_json().encode())
    yield found
    found.stop()


def _as(town: Town, identity: Identity, server: str = "compute") -> ServerClient:
    manifest = town.consortium.signed.manifest
    return ServerClient(identity, manifest.participant(server), manifest, patience=0.0, backoff=Backoff())


def _refused(call, *kinds: type[FedValueError]) -> FedValueError:
    with pytest.raises(kinds or FedValueError) as caught:
        call()
    return caught.value


def test_a_pinned_participant_is_answered(town):
    assert town.client("telco").status(town.run_id).state == "open"
    assert town.client("telco").health().name == "compute"


def test_no_certificate_is_refused_in_the_handshake(town):
    """Item 21."""
    participant = town.consortium.signed.manifest.compute
    credentials = grpc.ssl_channel_credentials(root_certificates=pem_of(participant.certificate))
    name = tls_name("demo", "compute", "compute")
    with grpc.secure_channel(
        participant.endpoint, credentials, options=[("grpc.ssl_target_name_override", name)]
    ) as channel:
        call = channel.unary_unary(f"/{wire.SERVICE}/Health")
        with pytest.raises(grpc.RpcError) as caught:
            call(wire.encode(wire.Health(wire.VERSION)), timeout=PATIENCE)
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


def test_a_plain_connection_is_refused(town):
    """There is no insecure mode."""
    with grpc.insecure_channel(town.consortium.signed.manifest.compute.endpoint) as channel:
        call = channel.unary_unary(f"/{wire.SERVICE}/Health")
        with pytest.raises(grpc.RpcError):
            call(wire.encode(wire.Health(wire.VERSION)), timeout=PATIENCE)


def test_a_certificate_that_nobody_pinned_is_refused_in_the_handshake(town):
    """Items 21 and 23: the right name on a key of somebody else."""
    rogue = create_identity("demo", "data", "telco")
    error = _refused(lambda: _as(town, rogue).health(), TransportError)
    assert error.code == "E_UNREACHABLE"


@contextmanager
def also_pinned(town: Town, card: Card) -> Iterator[None]:
    """The computation server with one more card: pinned, then restarted, and back again."""
    path = town.member("compute").folder / "peers" / f"{card.name}.json"
    write_card(card, path)
    town.stop("compute")
    town.start("compute")
    try:
        yield
    finally:
        path.unlink()
        town.stop("compute")
        town.start("compute")


def test_a_pinned_key_that_is_not_in_the_manifest_is_refused_by_spki(town):
    """Item 23: known to the server, but no participant of this run."""
    other = create_identity("demo", "data", "stranger")
    with also_pinned(town, other.card):
        assert _refused(lambda: _as(town, other).status(town.run_id)).code == "E_IDENTITY"
        assert _as(town, other).health().name == "compute"


def test_an_expired_certificate_is_refused(town):
    """Item 21. Pinned, but its time is over."""
    past = dt.datetime.now(dt.UTC) - dt.timedelta(days=30)
    old = create_identity("demo", "data", "old", valid_days=1, now=past)
    with also_pinned(town, old.card):
        assert _refused(lambda: _as(town, old).health(), TransportError).code == "E_UNREACHABLE"


@pytest.mark.parametrize("flaw", ["two names", "server usage"])
def test_a_certificate_of_another_shape_is_refused_on_every_call(town, monkeypatch, flaw):
    """Item 21: two SANs, wrong EKU. Such a card cannot be pinned, and were it pinned (here the
    manifest's pin is made to be this very key), the check on the call refuses it."""
    from fedvalue.identity import tls_certificates as module

    if flaw == "two names":
        names = module._alternative_names
        monkeypatch.setattr(
            module, "_alternative_names", lambda *a: [*names(*a), module.x509.DNSName("elsewhere.example")]
        )
    else:
        monkeypatch.setattr(module, "_usages", lambda role: [module.ExtendedKeyUsageOID.SERVER_AUTH])
    odd = create_identity("demo", "data", "telco")
    monkeypatch.undo()
    with pytest.raises(ConfigError) as caught:
        Card.from_json(odd.card.to_json())
    assert caught.value.code == "E_IDENTITY"
    relay, _ = town.servers["compute"]
    pinned = replace(town.consortium.signed.manifest.participant("telco"), spki=odd.card.spki)
    manifest = SimpleNamespace(participants=(pinned,), consortium="demo")
    error = _refused(lambda: relay._caller(manifest, Peer(odd.card.spki, odd.card.pem)), ConfigError)
    assert error.code == "E_IDENTITY"


def test_tls_below_1_3_is_refused(town, tmp_path):
    """A TLS 1.2 client gets no answer, whatever its certificate."""
    identity = town.member("telco").identity
    pem = tmp_path / "both.pem"
    pem.write_bytes(identity.tls_key + identity.card.pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(pem)
    context.set_alpn_protocols(["h2"])
    host, _, port = town.consortium.signed.manifest.compute.endpoint.rpartition(":")
    with socket.create_connection((host, int(port)), PATIENCE) as plain, context.wrap_socket(plain) as tls:
        assert tls.version() == "TLSv1.2"
        tls.sendall(_health_request())
        tls.settimeout(PATIENCE)
        answer = b""
        while b"E_IDENTITY" not in answer and (part := tls.recv(65536)):
            answer += part
    assert b"E_IDENTITY" in answer
    assert b"compute" not in answer.replace(b"E_IDENTITY", b"")


def _health_request() -> bytes:
    """A gRPC call written by hand: HTTP/2 preface, settings, headers without compression, data."""

    def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
        return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload

    def literal(name: bytes, value: bytes) -> bytes:
        return b"\x00" + bytes([len(name)]) + name + bytes([len(value)]) + value

    headers = b"".join(
        literal(*pair)
        for pair in (
            (b":method", b"POST"), (b":scheme", b"https"), (b":path", f"/{wire.SERVICE}/Health".encode()),
            (b":authority", b"x"), (b"content-type", b"application/grpc"), (b"te", b"trailers"),
        )
    )  # fmt: skip
    body = wire.encode(wire.Health(wire.VERSION))
    message = b"\x00" + len(body).to_bytes(4, "big") + body
    return (
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
        + frame(4, 0, 0, b"")
        + frame(1, 4, 1, headers)
        + frame(0, 1, 1, message)
    )


def _answer(town: Town, name: str, server: str, body: bytes) -> grpc.RpcError:
    """What gRPC itself says to a message that `name` posts as its first."""
    participant = town.consortium.signed.manifest.participant(server)
    identity = town.member(name).identity
    credentials = grpc.ssl_channel_credentials(
        pem_of(participant.certificate), identity.tls_key, identity.card.pem
    )
    options = [("grpc.ssl_target_name_override", tls_name("demo", server, server))]
    with grpc.secure_channel(participant.endpoint, credentials, options=options) as channel:
        call = channel.unary_unary(f"/{wire.SERVICE}/Post")
        with pytest.raises(grpc.RpcError) as caught:
            call(wire.encode(wire.Post(wire.VERSION, town.run_id, 0, body)), timeout=PATIENCE)
    return caught.value


def _foreign_messages(town: Town) -> dict[str, tuple[str, str, bytes]]:
    """Who sends what to which server, though it is not theirs to send."""
    key = m.EphemeralKey("telco", bytes(32), bytes(64))
    digest = m.bulk_digest(0, 1, bytes(16), bytes(16), b"", b"")
    chunk = m.IntersectionChunk(
        query=bytes(16), index=0, total=1, digest=digest, salt=bytes(16), tokens=b"", authenticators=b""
    )
    ready = m.Ready("telco", 120, 120, bytes(1040), bytes(32), bytes(32), bytes(64))
    roster = m.ReadyRoster((ready,))
    return {
        "a message in another's name": (
            "shop", "compute", codec.encode(m.Envelope(town.run_id, "telco", "compute", key)),
        ),
        "another's readiness": (
            "shop", "compute", codec.encode(m.Envelope(town.run_id, "telco", "compute", ready)),
        ),
        "a message that servers send": (
            "telco", "validate", codec.encode(m.Envelope(town.run_id, "telco", "validate", chunk)),
        ),
        "a list that servers send": (
            "telco", "compute", codec.encode(m.Envelope(town.run_id, "telco", "compute", roster)),
        ),
    }  # fmt: skip


@pytest.mark.parametrize(
    "what",
    [
        "a message in another's name", "another's readiness", "a message that servers send",
        "a list that servers send",
    ],
)  # fmt: skip
def test_what_is_not_ones_own_to_send_is_denied_and_logged(town, what):
    """Item 22: PERMISSION_DENIED, E_SENDER, a line in the log that says who it was, nothing stored."""
    name, server, body = _foreign_messages(town)[what]
    town.client(TASK, server).submit(town.consortium.signed.to_json().encode())
    lines = len(town.log(server))
    answer = _answer(town, name, server, body)
    assert answer.code() is grpc.StatusCode.PERMISSION_DENIED
    assert "|E_SENDER|" in answer.details()
    (line,) = [line for line in town.log(server)[lines:] if line["event"] == "refused"]
    assert (line["level"], line["method"], line["code"]) == ("warning", "Post", "E_SENDER")
    assert line["peer"] == name  # pinned here, so the operator reads a name and not a hash
    for party in ("telco", "shop"):
        assert town.client(party, server).status(town.run_id).next == 0


def test_a_client_does_not_talk_to_another_server_than_the_pinned_one(town):
    """The validation server's certificate at the computation server's address: no connection."""
    manifest = town.consortium.signed.manifest
    client = ServerClient(
        town.member("telco").identity,
        manifest.validate,
        manifest,
        patience=0.0,
        address=manifest.compute.endpoint,
    )
    assert _refused(client.health, TransportError).code == "E_UNREACHABLE"


@pytest.mark.parametrize("name", ["telco", "compute"])
def test_a_manifest_without_all_signatures_is_refused(town, name):
    """Item 24 at a server."""
    signed = town.consortium.signed
    fresh = SignedManifest(replace(signed.manifest, nonce=b"n" * 16))
    for member in town.consortium.members.values():
        if member.name != name:
            fresh = fresh.signed_by(member.identity)
    error = _refused(lambda: town.client(TASK).submit(fresh.to_json().encode()), VerificationError)
    assert error.code == "E_MANIFEST"
    assert str(error).startswith("server 'compute': ")  # whose terms, or pins, these are
    assert _refused(lambda: town.client(TASK).status(fresh.run_id)).code == "E_RUN"


def test_an_altered_expired_or_weaker_manifest_is_refused(town):
    """Item 24: one byte, the time, the terms."""
    signed = town.consortium.signed
    text = json.loads(signed.to_json())
    text["manifest"]["purpose"] += "x"
    altered = json.dumps(text).encode()
    assert _refused(lambda: town.client(TASK).submit(altered)).code == "E_MANIFEST"
    past = dt.datetime.now(dt.UTC).replace(microsecond=0) - dt.timedelta(days=2)
    for change in (
        {"created": past, "expires": past + dt.timedelta(days=1)},
        {"policy": "counts"},
        {"research": True},
    ):
        fresh = SignedManifest(replace(signed.manifest, nonce=b"m" * 16, **change))
        for member in town.consortium.members.values():
            fresh = fresh.signed_by(member.identity)
        text = fresh.to_json().encode()
        error = _refused(lambda text=text: town.client(TASK).submit(text))
        assert error.code == "E_MANIFEST", change


def test_a_manifest_of_another_version_is_refused(town):
    """Item 38: version skew, of the agreement and of the wire."""
    fresh = SignedManifest(
        replace(town.consortium.signed.manifest, nonce=b"v" * 16, versions=Versions(values=99))
    )
    for member in town.consortium.members.values():
        fresh = fresh.signed_by(member.identity)
    assert _refused(lambda: town.client(TASK).submit(fresh.to_json().encode())).code == "E_VERSION"
    client = town.client("telco")
    with pytest.raises(RemoteProtocolError) as caught:
        client._call("Status", wire.encode(wire.Status(wire.VERSION + 1, town.run_id)), wire.Standing)
    assert caught.value.code == "E_VERSION"


def test_a_swapped_ephemeral_key_is_noticed_before_any_upload(tmp_path, monkeypatch):
    """Item 25: a computation server that puts itself in the middle of the key agreement."""
    from cryptography.hazmat.primitives.asymmetric import x25519

    from fedvalue.deployment.servers.server_role import server_role

    def swapping(role, manifest, settings, credentials, chunks):
        honest = server_role(role, manifest, settings, credentials, chunks)
        receive = honest.receive

        def relay(envelope, **how):
            out = receive(envelope, **how)
            return [_with_other_key(one) for one in out]

        honest.receive = relay
        return honest

    def _with_other_key(envelope):
        if not isinstance(envelope.message, m.KeyRoster):
            return envelope
        first, *rest = envelope.message.keys
        own = x25519.X25519PrivateKey.generate().public_key().public_bytes_raw()
        forged = m.EphemeralKey(first.party, own, first.signature)
        return m.Envelope(envelope.run_id, envelope.sender, envelope.recipient, m.KeyRoster((forged, *rest)))

    came: list[str] = []
    admit = run_host.admit

    def noting(manifest, server, sender, body):
        came.append(type(codec.decode(body).message).__name__)
        return admit(manifest, server, sender, body)

    monkeypatch.setattr(run_host, "admit", noting)
    town = Town(tmp_path).start("validate").start("compute", make_role=swapping)
    try:
        ends = town.join()
        assert {end.code for end in ends.values()} == {"E_SIGNATURE"}
        assert set(came) <= {"EphemeralKey", "Abort"}  # no key was wrapped, nothing declared or uploaded
        assert came.count("EphemeralKey") >= len(ends)
        assert not any((town.member(name).folder / "result.json").exists() for name in ends)
    finally:
        town.stop()


def test_identity_files_that_others_may_read_are_refused(town, tmp_path):
    """Item 37: 0600 or refused."""
    import shutil

    from fedvalue.identity.identity_files import read_identity

    folder = tmp_path / "identity"
    shutil.copytree(town.member("telco").folder / "identity", folder)
    assert read_identity(folder).card.name == "telco"
    for name in ("sign.key", "tls.key"):
        assert (folder / name).stat().st_mode & 0o777 == 0o600
        (folder / name).chmod(0o640)
        with pytest.raises(ConfigError, match=r"0640.*chmod 600") as caught:
            read_identity(folder)
        assert caught.value.code == "E_IDENTITY"
        (folder / name).chmod(0o600)
