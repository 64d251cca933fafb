"""Evidence that needs no FedValue: verified here by code that is not FedValue's.

`foreign_verify` is written from the DSSE specification with `cryptography` alone; where securesystemslib is
installed, it must agree.
"""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import http.server
import json
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from fedvalue import documents
from fedvalue.deployment.evidence import (
    add_signature,
    certificate_page,
    envelope_of,
    log_page,
    log_statement,
)
from fedvalue.deployment.run_results import task_valuation
from fedvalue.deployment.valuation_certificate import make_certificate
from fedvalue.errors import ConfigError, TransportError, VerificationError
from fedvalue.identity import dsse, timestamps
from fedvalue.identity.audit_log import ChainWriter
from fedvalue.identity.timestamps import ask, time_stamp_request, time_stamped
from tests.support.consortium import ROLES, identity, signed
from tests.support.processes import PATIENCE
from tests.support.roles import party_input, run_roles
from tests.support.town import columns, expected


def foreign_verify(envelope: dict[str, Any], pems: dict[str, str]) -> tuple[dict[str, Any], set[str]]:
    """DSSE v1 by its specification: the statement, and whose keys verify some signature on it."""
    kind, body = envelope["payloadType"].encode(), base64.b64decode(envelope["payload"], validate=True)
    signed_bytes = b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(body), body)
    good = set()
    for name, pem in pems.items():
        for one in envelope["signatures"]:
            try:
                load_pem_public_key(pem.encode()).verify(base64.b64decode(one["sig"]), signed_bytes)
                good.add(name)
            except InvalidSignature:
                continue
    return json.loads(body), good


@pytest.fixture(scope="module")
def finished() -> tuple[bytes, dict[str, float]]:
    """The certificate of a run in this thread, and the naive twin's values."""
    codes = columns(200)
    inputs = {"bank": party_input(codes["task"], codes["label"])}
    inputs |= {name: party_input(codes[name]) for name in ("telco", "shop")}
    agreed = signed(n_samples=200)
    role = run_roles(agreed, inputs)["bank"]
    outcome = role.outcome
    valuation = task_valuation(agreed.manifest, outcome)
    made = make_certificate(identity("bank"), agreed, outcome.evidence, valuation, outcome.order)
    return documents.encode(made), expected(codes)


@pytest.fixture
def certificate(finished, tmp_path: Path) -> Path:
    path = tmp_path / "certificate.json"
    path.write_bytes(finished[0])
    return path


def pems() -> dict[str, str]:
    return {name: dsse.public_pem(identity(name).card.sign_key) for name in ROLES}


def test_several_participants_sign_one_statement_that_foreign_code_verifies(certificate, finished):
    for number, name in enumerate(("bank", "telco", "compute"), start=1):
        target, signers = add_signature(certificate, identity(name))
        assert (target, len(signers)) == (envelope_of(certificate), number)
    again = add_signature(certificate, identity("telco"))[1]
    assert again == ("bank", "compute", "telco"), "signing again changes nothing"
    envelope = json.loads(target.read_bytes())
    statement, signers = foreign_verify(envelope, pems())
    assert signers == {"bank", "telco", "compute"}
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    (subject,) = statement["subject"]
    assert subject["digest"]["sha256"] == hashlib.sha256(certificate.read_bytes()).hexdigest()
    values = {one["party"]: float(one["value"]) for one in statement["predicate"]["values"]}
    assert values == {name: round(value, 4) for name, value in finished[1].items()}, "on the grid of 0.0001"
    assert {one["name"] for one in statement["predicate"]["participants"]} == set(ROLES)


def test_securesystemslib_agrees(certificate):
    signer = pytest.importorskip("securesystemslib.signer", reason="securesystemslib is not installed")
    foreign = pytest.importorskip("securesystemslib.dsse")
    for name in ("bank", "telco"):
        target, _ = add_signature(certificate, identity(name))
    envelope = foreign.Envelope.from_dict(json.loads(target.read_bytes()))
    keys = [
        signer.SSlibKey.from_crypto(
            load_pem_public_key(pem.encode()), keyid=dsse.key_id(identity(n).card.sign_key)
        )
        for n, pem in pems().items()
    ]
    assert len(envelope.verify(keys, threshold=2)) == 2


def test_a_changed_statement_is_refused_here_and_there(certificate):
    target, _ = add_signature(certificate, identity("bank"))
    envelope = json.loads(target.read_bytes())
    payload = base64.b64decode(envelope["payload"]).replace(b'"samples":200', b'"samples":300')
    envelope["payload"] = base64.b64encode(payload).decode()
    assert foreign_verify(envelope, pems())[1] == set()
    target.write_text(json.dumps(envelope))
    with pytest.raises(VerificationError, match="signature of 'bank'"):
        certificate_page(certificate, None)
    with pytest.raises(ConfigError, match="states something else"):
        add_signature(certificate, identity("telco"))


def test_a_strangers_signature_counts_for_nothing(certificate):
    stranger = identity("mallory", "data")
    target, _ = add_signature(certificate, stranger)
    with pytest.raises(VerificationError, match="no known key"):
        certificate_page(certificate, None)
    add_signature(certificate, identity("shop"))
    assert (
        "ok  shop signed the statement in certificate.json.intoto.json"
        in certificate_page(certificate, None)[0]
    )
    assert foreign_verify(json.loads(target.read_bytes()), pems())[1] == {"shop"}


def test_who_signs_counts_valid_signatures_only(certificate):
    """The old rule counted what is in the file: a stranger's and a forged one were signatures too."""
    target, _ = add_signature(certificate, identity("bank"))
    envelope = json.loads(target.read_bytes())
    envelope["signatures"].append({"keyid": "00" * 32, "sig": base64.b64encode(bytes(64)).decode()})
    target.write_text(json.dumps(envelope))
    assert add_signature(certificate, identity("shop"))[1] == ("bank", "shop")
    kept = json.loads(target.read_bytes())
    assert len(kept["signatures"]) == 3, "the stranger's stays, and counts for nothing"
    forged = {"keyid": dsse.key_id(identity("telco").card.sign_key), "sig": kept["signatures"][0]["sig"]}
    target.write_text(json.dumps({**kept, "signatures": [*kept["signatures"], forged]}))
    with pytest.raises(VerificationError, match="signature of 'telco'"):
        add_signature(certificate, identity("compute"))
    assert json.loads(target.read_bytes())["signatures"][-1] == forged, "nothing was written"


@pytest.mark.parametrize("mode", [0o600, 0o644])
def test_a_statement_is_as_private_as_what_it_is_about(certificate, mode):
    """It repeats the values: the second signature made it readable for everybody."""
    certificate.chmod(mode)
    for name in ("bank", "telco"):
        target, _ = add_signature(certificate, identity(name))
        assert target.stat().st_mode & 0o777 == mode


def test_nobody_signs_a_certificate_that_does_not_hold(certificate):
    data = json.loads(certificate.read_bytes())
    data["result"]["parties"][0]["value"] += 0.25
    certificate.write_text(json.dumps(data))
    with pytest.raises(VerificationError):
        add_signature(certificate, identity("telco"))
    assert not envelope_of(certificate).exists()


def test_a_statement_about_another_file_is_refused_however_well_it_is_signed(certificate, tmp_path):
    """Renamed so that it lies beside this one."""
    other = tmp_path / "audit.jsonl"
    other.write_text("".join(line + "\n" for line in log_lines()))
    target, _ = add_signature(other, identity("compute"))
    envelope_of(certificate).write_bytes(target.read_bytes())
    with pytest.raises(VerificationError, match="states something else") as caught:
        certificate_page(certificate, None)
    assert caught.value.code == "E_CERTIFICATE"


def test_nobody_signs_an_empty_log():
    with pytest.raises(VerificationError, match="empty") as caught:
        log_statement(b"", identity("compute").card.sign_key)
    assert caught.value.code == "E_AUDIT"


@pytest.mark.parametrize("text", ["", "{}", '{"payloadType": "x", "payload": "", "signatures": []}', "[1]"])
def test_what_is_no_envelope_is_refused(text):
    with pytest.raises(ConfigError) as caught:
        dsse.Envelope.from_json(text)
    assert caught.value.code == "E_CERTIFICATE"


def log_lines() -> list[str]:
    writer = ChainWriter(identity("compute"), "ab" * 32)
    events = ("received bank", "received telco", "received telco", "done")
    return [writer.append(event, "", f"2030-01-01T12:00:0{k}Z") for k, event in enumerate(events)]


def test_an_audit_log_has_a_statement_and_a_page(tmp_path):
    path = tmp_path / "audit.jsonl"
    path.write_text("".join(line + "\n" for line in log_lines()))
    target, _ = add_signature(path, identity("compute"))
    statement, signers = foreign_verify(json.loads(target.read_bytes()), pems())
    assert signers == {"compute"}
    assert statement["predicate"]["entries"] == 4
    page = log_page(path, identity("compute").card, [])
    assert page[0] == "Audit log of compute (compute), run abababababab"
    assert "ok  4 entries, unbroken, each signed with the key on the card" in page
    assert "    messages from bank (1), telco (2)" in page
    assert "ok  compute signed the statement in audit.jsonl.intoto.json" in page
    with pytest.raises(VerificationError, match="not the writer"):
        add_signature(path, identity("telco"))


@pytest.fixture
def authority(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """A time stamp authority made of OpenSSL; its address and its certificate."""
    if shutil.which("openssl") is None:
        pytest.skip("needs the openssl command")
    (tmp_path / "tsa.cnf").write_text(
        "[req]\ndistinguished_name=dn\nx509_extensions=v3\nprompt=no\n[dn]\nCN=clock\n"
        "[v3]\nextendedKeyUsage=critical,timeStamping\n"
        "[tsa]\ndefault_tsa=t\n[t]\nserial=serial\nsigner_cert=tsa.pem\ncerts=tsa.pem\nsigner_key=tsa.key\n"
        "signer_digest=sha256\ndefault_policy=1.2.3.4.1\ndigests=sha256\n"
    )
    (tmp_path / "serial").write_text("01\n")

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=tmp_path, check=True, capture_output=True)

    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
            "-keyout", "tsa.key", "-out", "tsa.pem", "-config", "tsa.cnf")  # fmt: skip

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            (tmp_path / "q").write_bytes(self.rfile.read(int(self.headers["Content-Length"])))
            openssl("ts", "-reply", "-config", "tsa.cnf", "-queryfile", "q", "-out", "r")
            body = (tmp_path / "r").read_bytes()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Quiet."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}", tmp_path / "tsa.pem"
    server.shutdown()
    server.server_close()


def test_a_time_stamp_of_a_real_authority(authority, tmp_path, monkeypatch):
    """OpenSSL reads our request, and verifies the reply that we keep; ours compares digest and nonce."""
    monkeypatch.setattr(timestamps, "_SECONDS", PATIENCE)
    url, root = authority
    content = b"the certificate"
    reply = ask(content, url)
    assert abs(time_stamped(content, reply) - dt.datetime.now(dt.UTC)) < dt.timedelta(minutes=5)
    (tmp_path / "data").write_bytes(content)
    (tmp_path / "data.tsr").write_bytes(reply)
    done = subprocess.run(
        ["openssl", "ts", "-verify", "-in", "data.tsr", "-data", "data", "-CAfile", root],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "Verification: OK" in done.stdout + done.stderr
    with pytest.raises(VerificationError, match="another file"):
        time_stamped(b"another", reply)
    with pytest.raises(VerificationError, match="another request"):
        time_stamped(content, reply, nonce=b"\x01" * 8)


@pytest.mark.parametrize(
    "reply", [b"", b"\x30\x03\x02\x01\x02", b"<html>", b"\x30\x84\xff\xff\xff\xff", bytes(64)]
)
def test_what_is_no_time_stamp_is_refused(reply):
    with pytest.raises(VerificationError) as caught:
        time_stamped(b"x", reply)
    assert caught.value.code == "E_TIMESTAMP"


def test_an_authority_that_is_not_there_is_named():
    with pytest.raises(TransportError, match=r"127\.0\.0\.1:9"):
        ask(b"x", "http://127.0.0.1:9/")
    with pytest.raises(ConfigError, match="http or https"):
        ask(b"x", "file:///etc/passwd")
    assert time_stamp_request(b"x", b"\xff" * 8)[:1] == b"\x30"
