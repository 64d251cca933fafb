"""Fuzzed inputs for every decoder of bytes from outside: `python -m tests.resilience.fuzz --inputs 1000000`.

Real inputs with a few bytes changed, cut out, put in or doubled. A decoder answers with what it decodes or
with a typed error of ours; anything else is printed and ends with exit code 1. The suite runs some of each.
"""

from __future__ import annotations

import argparse
import base64
import json
import random
import sys
import tempfile
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import msgspec

from fedvalue import documents
from fedvalue.agreement.manifest import SignedManifest
from fedvalue.deployment.config import read_party_config, read_server_config
from fedvalue.deployment.network import wire
from fedvalue.deployment.valuation_certificate import certificate_from
from fedvalue.errors import ConfigError, FedValueError
from fedvalue.identity.audit_log import ChainWriter, Receipt, read_log
from fedvalue.identity.cards import Card
from fedvalue.identity.dsse import Envelope as AttestationEnvelope
from fedvalue.identity.dsse import statement
from fedvalue.invitation.invitation import Invitation
from fedvalue.protocol import codec
from fedvalue.protocol.mirror.server_result import CountsResult, ValuesResult, decode_result
from fedvalue.valuation.result import SCHEMA, Valuation
from tests.support.consortium import identity, signed
from tests.unit.deployment.test_decoders import FRAMES
from tests.unit.deployment.test_valuation_certificate import certify
from tests.unit.deployment.test_valuation_certificate import run as run_certified
from tests.unit.invitation.exchanging import invitation
from tests.unit.protocol.test_codec import mutated, one_of_each

FOLDER = Path(tempfile.gettempdir())


@dataclass(frozen=True)
class Decoder:
    """A decoder, and real inputs of it."""

    decode: Callable[[bytes], object]
    samples: list[bytes]


def decoders() -> dict[str, Decoder]:
    """Every decoder of bytes that a peer, a file or a person gives."""
    writer = ChainWriter(identity("compute"), "ab" * 32)
    line = writer.append("accepted", "cd" * 32, "2030-01-01T00:00:00Z").encode()
    assert writer.receipt is not None
    key = identity("compute").card.sign_key
    encode = msgspec.msgpack.encode
    results = [
        encode(ValuesResult(5, {"total": 0.5, "method": "exact"}, bytes(40), (bytes(30), bytes(30)))),
        encode(CountsResult(5, bytes(16), bytes(16), bytes(16))),
    ]
    found = {
        "envelopes": Decoder(codec.decode, list(one_of_each().values())),
        "results": Decoder(decode_result, results),
        "manifests": Decoder(SignedManifest.from_json, [signed().to_json().encode()]),
        "cards": Decoder(Card.from_json, [identity("telco").card.to_json()]),
        "log lines": Decoder(lambda data: read_log([_text(data)], key), [line]),
        "receipts": Decoder(lambda data: Receipt.from_line(_text(data)), [writer.receipt.to_line().encode()]),
        "refusals": Decoder(lambda data: wire.error_from(_text(data)), [b"RemoteProtocolError|E_SIZE|large"]),
        "certificates": Decoder(_certificate, [_certificate_json()]),
        "valuations": Decoder(partial(documents.decode, Valuation, schema=SCHEMA), [_valuation()]),
        "invitations": Decoder(lambda data: Invitation.from_text(_text(data)), [_invitation().encode()]),
        "invitations, packed": Decoder(_packed_invitation, [documents.canonical(invitation())]),
        "attestations": Decoder(
            AttestationEnvelope.from_json, [statement({"a": bytes(32)}, "https://x/1", {"b": 1}).to_json()]
        ),
        "server.toml": Decoder(_file(read_server_config, "server.toml"), [_SERVER]),
        "party.toml": Decoder(_file(read_party_config, "party.toml"), [_PARTY]),
    }
    for frame in FRAMES:
        kind = type(frame)
        found[f"frames {kind.__name__}"] = Decoder(partial(wire.decode, kind=kind), [wire.encode(frame)])
    return found


_SERVER = b"""identity = "identity"
peers = "peers"
state = "state"
listen = "127.0.0.1:7101"
[accept]
protocols = ["mirror", "paper"]
[limits]
runs = 3
"""
_PARTY = b"""identity = "identity"
peers = "peers"
state = "state"
manifest = "manifest.json"
[table]
source = "customers.csv"
id = "id"
features = ["a", "b"]
[privacy]
budget = 1.5
exact_runs = 2
"""


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _file(read: Callable[[Path], object], name: str) -> Callable[[bytes], object]:
    path = FOLDER / f"fedvalue-fuzz-{name}"

    def decode(data: bytes) -> object:
        path.write_bytes(data)
        try:
            return read(path)
        finally:
            path.unlink()

    return decode


def _certificate(data: bytes) -> object:
    return certificate_from(documents.parse(data, error=ConfigError))


def _certificate_json() -> bytes:
    roles, _, agreed = run_certified()
    return json.dumps(certify(roles["bank"], agreed)).encode()


def _invitation() -> str:
    return invitation().to_text()


def _packed_invitation(data: bytes) -> object:
    """An invitation whose content, not its wrapping, is damaged."""
    begin, *_, end = _invitation().splitlines()
    packed = base64.b64encode(zlib.compress(data)).decode()
    return Invitation.from_text(f"{begin}\n{packed}\n{end}\n")


def _valuation() -> bytes:
    import fedvalue

    found = fedvalue.value(label=[0, 1] * 20, parties={"a": [0, 1] * 20, "b": [0, 0, 1, 1] * 10})
    return found.to_json().encode()


def fuzz(decoder: Decoder, n: int, seed: int) -> tuple[int, list[str]]:
    """How many of n inputs are refused, and what else was raised."""
    rng = random.Random(seed)
    refused, wrong = 0, []
    for _ in range(n):
        data = mutated(rng, rng.choice(decoder.samples))
        try:
            decoder.decode(data)
        except FedValueError:
            refused += 1
        except Exception as error:  # what we are looking for
            wrong.append(f"{type(error).__name__}: {error} from {data!r}"[:400])
    return refused, wrong


def main() -> None:
    """Fuzz all, or those named."""
    parser = argparse.ArgumentParser(description="Fuzz every decoder.")
    parser.add_argument("--inputs", type=int, default=1_000_000, help="for each decoder")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("only", nargs="*", help="names of decoders")
    arguments = parser.parse_args()
    bad = 0
    for name, decoder in decoders().items():
        if arguments.only and name not in arguments.only:
            continue
        begin = time.monotonic()
        refused, wrong = fuzz(decoder, arguments.inputs, arguments.seed)
        seconds = time.monotonic() - begin
        print(
            f"{name:<24} {arguments.inputs:>9,} inputs, {refused:>9,} refused, {seconds:6.0f} s", flush=True
        )
        for line in wrong[:3]:
            print(f"    WRONG: {line}")
        bad += len(wrong)
    print(f"{bad} inputs ended otherwise")
    sys.exit(min(1, bad))


if __name__ == "__main__":
    main()
