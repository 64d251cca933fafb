"""A malicious relay or network: nothing is released, and the code says what was seen."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec
import pytest

from fedvalue.crypto import keys
from fedvalue.crypto.ids import canonical_ids
from fedvalue.errors import RemoteProtocolError
from fedvalue.protocol import messages as m
from fedvalue.protocol.messages import Envelope
from fedvalue.protocol.mirror.server_result import CountsResult, ValuesResult, decode_result
from fedvalue.protocol.settlement import signed_root
from fedvalue.protocol.signed_results import signed_result
from fedvalue.protocol.transitions import State
from tests.simulation.world import RUN_ID, Postman, World, run

WORLD = World.drawn(1)


def meddled(change: Callable[[Envelope], Iterable[Envelope]], **options: object) -> tuple[Postman, object]:
    cast = WORLD.cast(options.pop("protocol", "mirror"), **options)
    return run(cast, meddler=change), cast


def with_message(envelope: Envelope, message: m.AnyMessage) -> Envelope:
    return msgspec.structs.replace(envelope, message=message)


def uploads(postman: Postman) -> int:
    return sum(b"\xa5Chunk" in data or b"TokenChunk" in data for data in postman.log)


def test_relay_swaps_an_ephemeral_key() -> None:
    """The man in the middle puts a key of his own, with his own signature: E_SIGNATURE, no upload."""
    evil = bytes([9]) * 32
    public = keys.agreement_public(evil)

    def swap(envelope: Envelope) -> list[Envelope]:
        message = envelope.message
        if isinstance(message, m.KeyRoster):
            forged = m.EphemeralKey("p0", public, keys.sign(evil, "ephemeral", RUN_ID, "p0", public))
            keyring = tuple(forged if key.party == "p0" else key for key in message.keys)
            return [with_message(envelope, m.KeyRoster(keyring))]
        return [envelope]

    postman, cast = meddled(swap)
    assert "E_SIGNATURE" in postman.codes()
    assert State.DONE not in {party.state for party in (cast.task, *cast.parties)}
    assert uploads(postman) == 0


def test_relay_swaps_two_parties_keys() -> None:
    """Signatures name their party."""

    def swap(envelope: Envelope) -> list[Envelope]:
        message = envelope.message
        if isinstance(message, m.KeyRoster):
            a, b = message.keys[1], message.keys[2]
            exchanged = (
                message.keys[0],
                m.EphemeralKey(a.party, b.public_key, b.signature),
                m.EphemeralKey(b.party, a.public_key, a.signature),
            )
            return [with_message(envelope, m.KeyRoster(exchanged))]
        return [envelope]

    postman, _ = meddled(swap)
    assert postman.codes() == {"E_SIGNATURE"}
    assert uploads(postman) == 0


def test_relay_replays_a_key_of_another_run() -> None:
    """Signatures name their run."""
    other = WORLD.cast(run_id=bytes(32))
    old = {}
    for role in other.everyone():
        for envelope in role.start():
            old[envelope.sender] = envelope.message

    def replay(envelope: Envelope) -> list[Envelope]:
        message = envelope.message
        if isinstance(message, m.KeyRoster) and envelope.recipient != "p1":
            replaced = tuple(old["p1"] if key.party == "p1" else key for key in message.keys)
            return [with_message(envelope, m.KeyRoster(replaced))]
        return [envelope]

    postman, _ = meddled(replay)
    assert "E_SIGNATURE" in postman.codes()
    assert uploads(postman) == 0


def test_a_party_that_states_different_things_to_the_servers_is_seen() -> None:
    """Both statements are well signed, and each server relays what it got."""
    cast = WORLD.cast()
    key = cast.parties[0]._credentials.signing_key

    def split(envelope: Envelope) -> list[Envelope]:
        message = envelope.message
        if isinstance(message, m.Ready) and (envelope.sender, envelope.recipient) == ("p0", "validate"):
            other = msgspec.structs.replace(message, commitment=bytes(32))
            signature = keys.sign(key, "ready", RUN_ID, other.signed())
            return [with_message(envelope, msgspec.structs.replace(other, signature=signature))]
        return [envelope]

    postman = run(cast, meddler=split)
    errors = [error for error in postman.errors.values() if "different rosters" in str(error)]
    assert {error.code for error in errors} == {"E_EQUIVOCATION"}
    assert uploads(postman) == 0


@pytest.mark.parametrize("keep", [slice(0, 2), slice(0, 0)])
def test_relay_leaves_out_a_party(keep: slice) -> None:
    def shorten(envelope: Envelope) -> list[Envelope]:
        message = envelope.message
        if isinstance(message, m.KeyRoster):
            return [with_message(envelope, m.KeyRoster(message.keys[keep]))]
        return [envelope]

    postman, _ = meddled(shorten)
    assert "E_DECLARED" in postman.codes()
    assert uploads(postman) == 0


def test_relay_damages_the_wrapped_key() -> None:
    def damage(envelope: Envelope) -> list[Envelope]:
        message = envelope.message
        if isinstance(message, m.WrappedKey) and envelope.recipient == "p1":
            return [with_message(envelope, m.WrappedKey(message.wrapped[:-1] + b"x"))]
        return [envelope]

    postman, _ = meddled(damage)
    assert "E_SEAL" in postman.codes()
    assert uploads(postman) == 0


def test_relay_gives_one_party_anothers_wrapped_key() -> None:
    wrapped = {}

    def exchange(envelope: Envelope) -> list[Envelope]:
        message = envelope.message
        if isinstance(message, m.WrappedKeys):
            wrapped.update(message.wrapped)
        if isinstance(message, m.WrappedKey):
            other = "p1" if envelope.recipient == "p0" else "p0"
            return [with_message(envelope, m.WrappedKey(wrapped[other]))]
        return [envelope]

    postman, _ = meddled(exchange)
    assert "E_SEAL" in postman.codes()


def test_relay_forges_a_confirmation() -> None:
    """The relay does not hold K_run: E_CONFIRM."""

    def forge(envelope: Envelope) -> list[Envelope]:
        message = envelope.message
        if isinstance(message, m.ConfirmRoster):
            first, *rest = message.confirms
            fake = m.Confirm(first.party, first.population, bytes(32))
            return [with_message(envelope, m.ConfirmRoster((fake, *rest)))]
        return [envelope]

    postman, _ = meddled(forge)
    assert "E_CONFIRM" in postman.codes()
    assert uploads(postman) == 0


def test_parties_with_different_settings_do_not_confirm() -> None:
    """A party that was told another q under the same run id: E_CONFIRM or a seal, before any upload."""
    cast = WORLD.cast("paper", q=2, n_r=1)
    other = WORLD.cast("paper", q=3, n_r=1)
    roles = [*cast.servers, cast.task, cast.parties[0], other.parties[1]]
    postman = Postman(roles)
    postman.run()
    assert postman.codes() & {"E_SEAL", "E_CONFIRM"}
    assert uploads(postman) == 0


def test_results_signed_by_a_stranger() -> None:
    evil = bytes([9]) * 32

    def resign(envelope: Envelope) -> list[Envelope]:
        message = envelope.message
        if isinstance(message, m.ResultSeal) and envelope.sender == "validate":
            signature = keys.sign(evil, "result", message.run_id, "validate", message.digest)
            return [with_message(envelope, m.ResultSeal(message.run_id, message.digest, signature))]
        return [envelope]

    for protocol in ("mirror", "paper"):
        postman, cast = meddled(resign, protocol=protocol)
        assert "E_SIGNATURE" in postman.codes()
        assert cast.task.outcome is None


def test_the_validation_servers_result_does_not_pass_for_the_computation_servers() -> None:
    """Signatures name their server."""

    def reflect(envelope: Envelope) -> list[Envelope]:
        message = envelope.message
        if isinstance(message, m.ResultChunk | m.ResultSeal):
            if envelope.sender == "validate":
                copy = Envelope(envelope.run_id, "compute", envelope.recipient, message)
                return [envelope, copy]
            return []
        return [envelope]

    postman, cast = meddled(reflect)
    assert "E_SIGNATURE" in postman.codes()
    assert cast.task.outcome is None


def test_a_relay_that_forges_agreement_is_seen() -> None:
    def forge(envelope: Envelope) -> list[Envelope]:
        message = envelope.message
        if isinstance(message, m.AgreeRoster):
            first, *rest = message.agrees
            other = {peer: bytes(32) for peer in first.digests}
            forged = msgspec.structs.replace(first, digests=other)
            return [with_message(envelope, m.AgreeRoster((forged, *rest)))]
        return [envelope]

    postman, cast = meddled(forge)
    assert "E_CONFIRM" in postman.codes()
    assert cast.task.outcome is None


def test_a_server_that_shows_two_parties_different_results() -> None:
    """Both results are well signed and agree with what the other server was made to say: only the
    parties' comparison among themselves shows it (E_EQUIVOCATION)."""
    worlds = [World.drawn(1), World.drawn(2)]
    casts = [world.cast(policy="counts") for world in worlds]
    seals: list[dict] = [{}, {}]
    for cast, seen in zip(casts, seals, strict=True):

        def keep(envelope: Envelope, seen: dict = seen) -> list[Envelope]:
            if isinstance(envelope.message, m.ResultSeal):
                seen[envelope.sender, envelope.recipient] = envelope.message
            return [envelope]

        run(cast, meddler=keep)

    def mix(envelope: Envelope) -> list[Envelope]:
        if isinstance(envelope.message, m.ResultSeal) and envelope.recipient == "p0":
            return [with_message(envelope, seals[1][envelope.sender, "p0"])]
        return [envelope]

    cast = worlds[0].cast(policy="counts")
    postman = run(cast, meddler=mix)
    assert "E_EQUIVOCATION" in postman.codes()
    assert cast.task.outcome is None


def test_a_damaged_chunk_is_refused_and_may_be_sent_again() -> None:
    """E_DIGEST leaves the run as it was; the same chunk intact is then taken."""
    cast = WORLD.cast(policy="counts")
    server = cast.servers[1]
    seen = []

    def damage(envelope: Envelope) -> list[Envelope]:
        message = envelope.message
        if isinstance(message, m.Chunk) and envelope.recipient == server.name and not seen:
            seen.append(envelope)
            bad = msgspec.structs.replace(message, data=bytes([message.data[0] ^ 1]) + message.data[1:])
            return [with_message(envelope, bad), envelope]
        return [envelope]

    unchanged = []

    class Patient(Postman):
        """Takes a refusal for what it is, and goes on."""

        def _deliver(self, envelope: Envelope) -> None:
            role = self._by_name[envelope.recipient]
            before = role.state
            try:
                self._post(role.receive(envelope))
            except RemoteProtocolError as error:
                self.errors[role.name] = error
                unchanged.append(role.state is before)

    postman = Patient(cast.everyone(), meddler=damage)
    postman.run()
    assert {name: error.code for name, error in postman.errors.items()} == {server.name: "E_DIGEST"}
    assert unchanged == [True]
    assert postman.states() == {State.DONE}


def test_a_second_different_upload_aborts_the_run() -> None:
    """Two-time pad: the same masks over two tables would show label differences. E_CONFLICT, final."""
    cast = WORLD.cast(policy="counts")

    def again(envelope: Envelope) -> list[Envelope]:
        message = envelope.message
        if isinstance(message, m.Chunk) and envelope.sender == "p0":
            data = bytes([message.data[0] ^ 1]) + message.data[1:]
            digest = m.bulk_digest(message.index, message.total, message.salt, data)
            other = m.Chunk(message.index, message.total, digest, message.salt, data)
            return [envelope, envelope, with_message(envelope, other)]
        return [envelope]

    postman = run(cast, meddler=again)
    assert "E_CONFLICT" in postman.codes()
    assert cast.task.outcome is None


@pytest.mark.parametrize(
    ("kind", "changed"),
    [
        (m.EphemeralKey, {"signature": bytes(64)}),
        (m.WrappedKeys, {"wrapped": {}}),
        (m.Confirm, {"mac": bytes(32)}),
        (m.Declaration, {"digest": bytes(32)}),
        (m.ShareKeys, {"task": bytes(32)}),
    ],
)
def test_a_second_different_message_of_any_kind_aborts_the_run(kind: type[m.Message], changed: dict) -> None:
    def again(envelope: Envelope) -> list[Envelope]:
        message = envelope.message
        if isinstance(message, kind) and envelope.sender == "task party":
            return [envelope, with_message(envelope, msgspec.structs.replace(message, **changed))]
        return [envelope]

    postman, cast = meddled(again)
    assert "E_CONFLICT" in postman.codes()
    assert cast.task.outcome is None


def test_a_party_rebuilt_from_changed_data_has_other_keys() -> None:
    """Same seed, same run, one code changed: another ephemeral key, so never the same masks twice."""
    other = World.drawn(1)
    other.parties[0].codes[0] ^= 1
    first, again, changed = (w.cast().parties[0].start()[0].message for w in (WORLD, World.drawn(1), other))
    assert first == again
    assert first.public_key != changed.public_key


def test_one_different_missing_or_extra_id_is_seen_before_any_upload() -> None:
    """E_POPULATION. Ids in another order are the same population."""
    n = len(WORLD.label.codes)
    same = [f"person-{k}" for k in range(n)]
    different = [*same[:-1], "somebody else"]
    cast = WORLD.cast(ids={"task party": WORLD.ids, "p0": canonical_ids(different), "p1": WORLD.ids})
    postman = run(cast)
    assert "E_POPULATION" in postman.codes()
    assert uploads(postman) == 0
    assert cast.task.outcome is None


def test_without_the_population_check_masks_do_not_cancel(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second line of defence: a row that is not the same person everywhere ends in E_AUTH."""
    monkeypatch.setattr("fedvalue.protocol.party_roles.multiset_hash", lambda key, hashes: bytes(16))
    same = [f"person-{k}" for k in range(len(WORLD.label.codes))]
    ids = {"task party": WORLD.ids, "p0": canonical_ids([*same[:-1], "somebody else"]), "p1": WORLD.ids}
    postman = run(WORLD.cast(ids=ids))
    assert "E_AUTH" in postman.codes()


def test_an_aborted_run_tells_everybody() -> None:
    def damage(envelope: Envelope) -> list[Envelope]:
        message = envelope.message
        if isinstance(message, m.WrappedKey) and envelope.recipient == "p1":
            return [with_message(envelope, m.WrappedKey(b"nonsense"))]
        return [envelope]

    _, cast = meddled(damage)
    assert {role.state for role in cast.everyone() if role.name != "validate"} == {State.FAILED}
    assert all(role.failure.code == "E_SEAL" for role in cast.everyone() if role.name != "validate")


def signed_again(message: m.Declaration, **fields: object) -> m.Declaration:
    """A declaration to the computation server that p0 itself has changed, and signs."""
    other = msgspec.structs.replace(message, **fields)
    key = WORLD.cast().parties[0]._credentials.signing_key
    digests = (other.declared(), message.root.digests[1])
    return msgspec.structs.replace(other, root=signed_root(WORLD.settings(), "p0", digests, key))


def with_data(message: m.BulkMessage, data: bytes, **fields: object) -> m.BulkMessage:
    """Other content, whose digest is right."""
    return msgspec.structs.replace(message, data=memoryview(data), **fields).with_digest()


def other_bytes(message: m.BulkMessage) -> bytes:
    return bytes([message.data[0] ^ 1]) + bytes(message.data[1:])


@pytest.mark.parametrize(
    ("sender", "kind", "change", "code", "words"),
    [
        (
            "p0",
            m.Declaration,
            lambda one: signed_again(one, n_chunks=2),
            "E_DECLARED",
            "declares another number of chunks",
        ),
        (
            "p0",
            m.Declaration,
            lambda one: signed_again(one, row_bytes=2),
            "E_DECLARED",
            "declares another number of chunks",
        ),
        (
            "p0",
            m.Declaration,
            lambda one: signed_again(one, code_keys=one.code_keys[16:]),
            "E_DECLARED",
            "a wrong number of code keys",
        ),
        (
            "p0",
            m.Declaration,
            lambda one: msgspec.structs.replace(one, digest=bytes(32)),
            "E_DECLARED",
            "signed another upload than it declares",
        ),
        (
            "p0",
            m.Declaration,
            lambda one: signed_again(one, digest=bytes(32)),
            "E_DECLARED",
            "uploaded another table than declared",
        ),
        ("p0", m.Declaration, None, "E_DECLARED", "sent a chunk that it did not declare"),
        (
            "p0",
            m.Chunk,
            lambda one: with_data(one, other_bytes(one)),
            "E_DECLARED",
            "uploaded another table than declared",
        ),
        (
            "p0",
            m.Chunk,
            lambda one: with_data(one, bytes(one.data), total=2),
            "E_DECLARED",
            "sent a chunk that it did not declare",
        ),
        ("p0", m.Chunk, lambda one: with_data(one, bytes(one.data[1:])), "E_SIZE", "chunk of"),
        ("p0", m.CodebookChunk, None, "E_DECLARED", "a party sent no codebook"),
        (
            "p0",
            m.CodebookChunk,
            lambda one: with_data(one, other_bytes(one)),
            "E_DECLARED",
            "uploaded other codebooks than declared",
        ),
        ("task party", m.ShareKeys, None, "E_DECLARED", "the task party has sent no share keys"),
        (
            "task party",
            m.ShareKeys,
            lambda one: msgspec.structs.replace(one, shares=one.shares[1:]),
            "E_DECLARED",
            "expected one share key per data party",
        ),
    ],
    ids=[
        "chunks", "row bytes", "code keys", "unsigned", "digest", "undeclared", "chunk", "total", "size",
        "no codebook", "codebook", "no share keys", "share keys",
    ],
)  # fmt: skip
def test_an_upload_that_is_not_what_was_agreed_and_declared_is_refused(
    sender: str, kind: type[m.Message], change: object, code: str, words: str
) -> None:
    """Each check of a server has an upload that only this check refuses; None leaves the message out."""
    features = kind is m.CodebookChunk
    world = WORLD.with_features() if features else WORLD
    cast = world.cast(columns="features" if features else "joint")

    def meddle(envelope: Envelope) -> list[Envelope]:
        message = envelope.message
        if (envelope.sender, envelope.recipient) != (sender, "compute") or not isinstance(message, kind):
            return [envelope]
        return [] if change is None else [with_message(envelope, change(message))]  # type: ignore[operator]

    postman = run(cast, meddler=meddle)
    error = postman.errors["compute"]
    assert (error.code, words in str(error)) == (code, True), error
    assert all(party.outcome is None for party in (cast.task, *cast.parties))


@pytest.mark.parametrize(
    ("kind", "sender", "change", "code", "words"),
    [
        (m.EphemeralKey, "p0", lambda one: {"party": "p1"}, "E_SENDER", "in the name of 'p1'"),
        (m.Confirm, "p0", lambda one: {"party": "p1"}, "E_SENDER", "in the name of 'p1'"),
        (m.Agree, "p0", lambda one: {"party": "p1"}, "E_SENDER", "in the name of 'p1'"),
        (
            m.WrappedKeys, "task party", lambda one: {"wrapped": {"p0": one.wrapped["p0"]}},
            "E_DECLARED", "one wrapped key per data party",
        ),
        (m.Ready, "p0", lambda one: {"party": "p1"}, "E_SENDER", "'p0' sent the Ready of 'p1'"),
    ],
)  # fmt: skip
def test_a_party_speaks_in_its_own_name_and_the_task_party_to_all(
    kind: type[m.Message], sender: str, change: Callable[..., dict], code: str, words: str
) -> None:
    def meddle(envelope: Envelope) -> list[Envelope]:
        message = envelope.message
        if envelope.sender != sender or not isinstance(message, kind):
            return [envelope]
        return [with_message(envelope, msgspec.structs.replace(message, **change(message)))]

    postman, cast = meddled(meddle)
    error = postman.errors["compute"]
    assert (error.code, words in str(error)) == (code, True), error
    assert cast.task.outcome is None


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        (lambda result: result, None, ""),
        (
            lambda result: msgspec.structs.replace(result, n_samples=result.n_samples + 1),
            "E_TOTAL",
            "'validate' counted 41 samples, expected 40",
        ),
        (
            lambda result: msgspec.structs.replace(result, shares=result.shares[1:]),
            "E_DECLARED",
            "'validate' sent a wrong number of shares",
        ),
        (
            lambda result: CountsResult(result.n_samples, bytes(8), bytes(8), bytes(16)),
            "E_DECLARED",
            "'validate' sent a result of another policy",
        ),
        (
            lambda result: msgspec.structs.replace(result, public={**result.public, "total": 1.0}),
            "E_MIRROR",
            "the two servers released different results",
        ),
    ],
    ids=["honest", "samples", "shares", "policy", "total"],
)
def test_a_server_that_signs_another_result_after_the_settlement_is_seen(
    change: Callable[[ValuesResult], object], code: str | None, words: str
) -> None:
    """Everybody gets the same: the parties' comparison among themselves shows nothing."""
    cast = WORLD.cast()
    key = next(one for one in cast.servers if one.name == "validate")._credentials.signing_key
    seals: dict[str, m.ResultSeal] = {}

    def meddle(envelope: Envelope) -> list[Envelope]:
        if envelope.sender != "validate" or not isinstance(envelope.message, m.ResultChunk | m.ResultSeal):
            return [envelope]
        if isinstance(envelope.message, m.ResultSeal):
            return [with_message(envelope, seals[envelope.recipient])]
        data = msgspec.msgpack.encode(change(decode_result(envelope.message.data)))
        (chunk,), seals[envelope.recipient] = signed_result(key, RUN_ID, "validate", data, 1 << 20)
        return [with_message(envelope, chunk)]

    postman = run(cast, meddler=meddle)
    if code is None:
        assert postman.states() == {State.DONE}
        return
    errors = {(error.code, str(error)) for error in postman.errors.values() if words in str(error)}
    assert {found for found, _ in errors} == {code}
    assert all(party.outcome is None for party in (cast.task, *cast.parties))
