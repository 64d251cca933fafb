"""Item 37: no object of ours prints a secret that it holds, and no error carries one.

Not a list of classes that somebody remembered: every key that a run derives is noted as it is made,
and every object of the package that is alive at any step is printed and searched.
"""

from __future__ import annotations

import gc
import io
import traceback
from collections.abc import Iterator

import numpy as np
import pytest

from fedvalue.crypto import keys
from fedvalue.errors import FedValueError
from fedvalue.protocol import codec
from fedvalue.protocol import messages as m
from tests.simulation.world import Postman, World
from tests.support.consortium import identity, signed
from tests.support.roles import party_input, run_roles

WORLD = World.drawn(1, n=12)


class Secrets:
    """Every derived key, in the forms in which it could be printed."""

    def __init__(self) -> None:
        self._known: set[bytes] = set()
        self._forms: set[str] = set()

    def add(self, secret: bytes) -> None:
        # Seeds of one repeated byte, or of 0, 1, 2, ... stand in for secrets in tests, for run ids and nonces
        # of other modules too; what is derived from them is as secret as ever.
        plain = len(set(secret)) <= 4 or secret[:16] == bytes(range(16))
        if len(secret) >= 16 and not plain and secret not in self._known:
            self._known.add(secret)
            # Eight bytes of it in a row would do harm enough; a repr may be cut short in the middle.
            self._forms |= {repr(secret)[2:26], secret.hex()[:16], secret.hex()[-16:]}

    def __len__(self) -> int:
        return len(self._known)

    def in_text(self, text: str) -> bool:
        return any(form in text for form in self._forms)


@pytest.fixture
def secrets(monkeypatch: pytest.MonkeyPatch) -> Secrets:
    found = Secrets()
    derive, agree = keys.hkdf, keys.agreement_secret

    def hkdf(secret: bytes, **named: object) -> bytes:
        out = derive(secret, **named)  # type: ignore[arg-type]
        for one in (secret, out, out[:16], out[16:]):
            found.add(one)
        return out

    def exchange(private: bytes, peer: bytes) -> bytes:
        out = agree(private, peer)
        found.add(private)
        found.add(out)
        return out

    monkeypatch.setattr(keys, "hkdf", hkdf)
    monkeypatch.setattr(keys, "agreement_secret", exchange)
    return found


def objects_of_ours() -> Iterator[object]:
    for one in gc.get_objects():
        if str(type(one).__module__).startswith("fedvalue.") and not isinstance(one, type):
            yield one


def assert_silent(secrets: Secrets, seen: set[type]) -> None:
    for one in objects_of_ours():
        seen.add(type(one))
        assert not secrets.in_text(repr(one)), type(one)
        assert not secrets.in_text(str(one)), type(one)


@pytest.mark.parametrize(
    ("protocol", "options", "every"),
    [
        ("mirror", {}, 7),
        ("mirror", {"policy": "counts"}, 7),
        ("gram", {"epsilon": "1"}, 20),
        ("paper", {"n_r": 1, "q": 1, "by_coalition": False}, 50),
        ("single", {}, 50),
    ],
)
def test_no_object_prints_a_key_at_any_step_of_a_run(secrets, protocol, options, every):
    """All roles after every message, with all that they hold, and the messages themselves."""
    seen: set[type] = set()
    steps = 0

    class Watching(Postman):
        def _deliver(self, envelope: m.Envelope) -> None:
            nonlocal steps
            super()._deliver(envelope)
            # Small messages are not among the collector's objects.
            assert not secrets.in_text(repr(envelope))
            steps += 1
            if steps % every == 0:
                assert_silent(secrets, seen)

    cast = WORLD.cast(protocol, **options)
    postman = Watching(cast.everyone())
    postman.run()
    assert postman.errors == {}
    assert_silent(secrets, seen)
    names = {kind.__name__ for kind in seen}
    assert {"Credentials", "Settings"} <= names
    assert len(secrets) > 20


def test_no_object_of_the_deployment_prints_a_key(secrets):
    """The same around the roles: identities, drivers, parcels, the parties' input."""
    codes = np.arange(1000) % 4
    inputs = {
        "bank": party_input(codes % 2, np.arange(1000) // 7 % 2),
        "telco": party_input(codes),
        "shop": party_input(np.arange(1000) // 3 % 2),
    }
    for name in ("compute", "validate", *inputs):
        one = identity(name)
        secrets.add(one.signing.private_bytes_raw())
        secrets.add(one.tls_key[40:80])
    seen: set[type] = set()
    steps = 0

    def look(sender: str, to: str, body: bytes) -> bytes:
        nonlocal steps
        steps += 1
        if steps % 5 == 0:
            assert_silent(secrets, seen)
        return body

    parties = run_roles(signed(), inputs, look)
    assert parties["bank"].outcome is not None
    kinds = {kind.__name__ for kind in seen}
    assert kinds >= {"Identity", "TaskParty", "DataParty", "PartyInput", "Credentials"}


DAMAGES = {
    m.WrappedKey: lambda message: m.WrappedKey(message.wrapped[:-1] + b"x"),
    m.ConfirmRoster: lambda message: m.ConfirmRoster(
        (
            m.Confirm(message.confirms[0].party, message.confirms[0].population, bytes(32)),
            *message.confirms[1:],
        )
    ),
    m.ResultSeal: lambda message: m.ResultSeal(message.run_id, message.digest, bytes(64)),
}


@pytest.mark.parametrize("kind", DAMAGES, ids=lambda kind: kind.__name__)
def test_errors_and_their_tracebacks_carry_no_key(secrets, kind):
    """Text and traceback of every failure, as Python prints them: code lines, never values.

    A traceback *with local variables* shows keys, because a key is a bytes object in some frame; no
    object can keep itself out of that. So the commands never make one (`tests/network/test_hygiene.py`).
    """
    texts: list[str] = []

    class Listening(Postman):
        def _deliver(self, envelope: m.Envelope) -> None:
            before = len(self.errors)
            super()._deliver(envelope)
            if len(self.errors) > before:
                error = list(self.errors.values())[-1]
                stream = io.StringIO()
                traceback.print_exception(error, file=stream, chain=True)
                texts.append(stream.getvalue())

    def damage(envelope: m.Envelope) -> list[m.Envelope]:
        message = envelope.message
        if isinstance(message, kind):
            message = DAMAGES[kind](message)
        return [m.Envelope(envelope.run_id, envelope.sender, envelope.recipient, message)]

    postman = Listening(WORLD.cast().everyone(), meddler=damage)
    postman.run()
    assert texts
    assert all(isinstance(error, FedValueError) for error in postman.errors.values())
    assert not any(secrets.in_text(text) for text in texts)


def test_the_digest_of_a_chunk_confirms_no_guess_at_its_rows():
    """With one data party each of the two knows all masks of the other: 40 bits of authenticator would be all
    that a digest in an audit log hides of a chunk whose rows have one code. It covers a salt as well."""
    postman = Postman(World.drawn(1, n=12, sizes=(2,)).cast().everyone())
    postman.run()
    sent = [codec.decode(data).message for data in postman.log]
    chunks = [message for message in sent if isinstance(message, m.Chunk)]
    assert len(chunks) == len({chunk.salt for chunk in chunks}) == 4
    for chunk in chunks:
        for guess in ((chunk.data,), (b"", chunk.data), (bytes(16), chunk.data)):
            assert m.bulk_digest(chunk.index, chunk.total, *guess) != chunk.digest
