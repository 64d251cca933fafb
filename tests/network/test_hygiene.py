"""Item 37: what the processes of a run show of their keys to the machine that they run on: nothing."""

from __future__ import annotations

import base64
import contextlib
import stat
import sys
from pathlib import Path

import pytest

from fedvalue.deployment.servers.server_role import server_role
from fedvalue.identity.cards import Identity
from fedvalue.simulation.children import Child, Children, wait_until
from tests.support.databases import opened
from tests.support.processes import PATIENCE, Process
from tests.support.programs import buggy_party_program, party_program, server_program
from tests.support.town import TASK, Town

pytestmark = [
    pytest.mark.network,
    pytest.mark.skipif(sys.platform != "linux", reason="/proc shows what a process shows"),
]


def forms(secret: bytes) -> list[bytes]:
    """A secret as bytes, hexadecimal, base64 and as Python prints bytes; a part of each is enough."""
    return [
        secret,
        secret.hex()[:24].encode(),
        base64.b64encode(secret)[:20],
        repr(secret)[2:26].encode(),
    ]


def keys_of(identity: Identity) -> list[bytes]:
    lines = [*identity.tls_key.splitlines()[1:-1], *identity.signing_pem().splitlines()[1:-1]]
    return [*forms(identity.signing.private_bytes_raw()), *lines]


def seed_of(state: Path) -> bytes:
    with opened(state / "party.sqlite") as db:
        (seed,) = db.execute("SELECT seed FROM runs").fetchone()
    assert len(seed) == 32
    return bytes(seed)


def has_begun(state: Path) -> bool:
    """Without a look the database of a party that is about to make it would be made here."""
    if not (state / "party.sqlite").exists():
        return False
    with opened(state / "party.sqlite") as db:
        tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        return "runs" in tables and bool(db.execute("SELECT count(*) FROM runs").fetchone()[0])


@pytest.fixture(scope="module")
def waiting(tmp_path_factory):
    """Two servers and a data party as a user starts them, in the middle of a run."""
    town = Town(tmp_path_factory.mktemp("hygiene"), n=100, parties=("telco",))
    with Children() as children:
        found = {}
        for name in ("compute", "validate", "telco"):
            member = town.member(name)
            found[name] = children.add(Child(name, ["fedvalue", *member.command], member.folder))
            found[name].start()
        # On a machine that has never run it, a server compiles its kernels first.
        wait_until(lambda: '"accepted"' in found["validate"].errors(), PATIENCE, "telco's arrival")
        # A party asks for the number of its run before it begins one.
        state = town.member("telco").folder / "state"
        wait_until(lambda: has_begun(state), PATIENCE, "the beginning of telco's run")
        yield town, found


@pytest.mark.parametrize("name", ["compute", "validate", "telco"])
def test_a_process_shows_no_key_and_leaves_no_core(waiting, name):
    """Limit 0 on core dumps, umask 077, and no key in arguments, environment or output."""
    town, children = waiting
    proc = Path("/proc") / str(children[name].process.pid)
    limits = next(line for line in (proc / "limits").read_text().splitlines() if "core file" in line)
    assert limits.split()[4:6] == ["0", "0"]
    assert "Umask:\t0077" in (proc / "status").read_text()
    secrets = [one for member in town.consortium.members.values() for one in keys_of(member.identity)]
    secrets += forms(seed_of(town.member("telco").folder / "state"))
    shown = [
        (proc / "cmdline").read_bytes(),
        children[name].output().encode(),
        children[name].errors().encode(),
    ]
    try:
        shown.append((proc / "environ").read_bytes())
    except PermissionError:  # not dumpable: not even its own user may look
        assert proc.stat().st_uid == 0
    assert b"--config" in shown[0]
    assert not any(secret in text for text in shown for secret in secrets)


def test_files_are_for_their_owner_only(waiting):
    """0600 and 0700 for everything that a process wrote in its state, and for the identity."""
    town, children = waiting
    looked = 0
    for name in children:
        for top in ("state", "identity"):
            folder = town.member(name).folder / top
            for path in [folder, *folder.rglob("*")]:
                with contextlib.suppress(FileNotFoundError):  # the processes go on
                    status = path.stat()
                    expected = 0o700 if stat.S_ISDIR(status.st_mode) else 0o600
                    if path.name == "card.json":
                        expected = 0o644  # public, and to be sent to others
                    assert stat.S_IMODE(status.st_mode) == expected, path
                    looked += 1
    assert looked > 15


def test_a_bug_deep_in_a_role_ends_in_a_traceback_without_keys(tmp_path):
    """The command itself, with a bug after the key agreement: its traceback has code lines, no values.

    Tracebacks with local variables would hold keys. The command line never makes them, whatever
    typer's and rich's defaults are; this is the test of it.
    """
    town = Town(tmp_path, n=100, parties=("telco",))
    folder = town.member("telco").folder
    notes = tmp_path / "notes"
    running = [
        *(
            Process(
                server_program,
                str(town.member(name).folder / "server.toml"),
                name,
                log=tmp_path / f"{name}.log",
            )
            for name in ("compute", "validate")
        ),
        Process(
            party_program, str(town.member(TASK).folder / "party.toml"), "task", log=tmp_path / "bank.log"
        ),
    ]
    party = Process(
        buggy_party_program, str(folder / "party.toml"), "join", str(notes), log=tmp_path / "telco.log"
    )
    try:
        assert party.wait() == 1
    finally:
        for one in running:
            one.kill()
    text = party.text()
    assert "Traceback" in text
    assert "RuntimeError: a bug" in text
    assert "begin" in text  # it was deep: the frame below the work's
    noted = {bytes.fromhex(line) for line in notes.read_text().split()}
    assert len(noted) > 10
    shown = text.encode() + b"".join(one.text().encode() for one in running)
    secrets = [form for secret in noted for form in forms(secret)] + keys_of(town.member("telco").identity)
    assert not any(secret in shown for secret in secrets)


def test_a_key_in_the_text_of_an_internal_error_reaches_neither_log_nor_peer(tmp_path):
    """A server's role that fails with its own seed in the message: E_ENGINE, and not a word more."""
    seeds: list[bytes] = []

    def broken(role, manifest, settings, credentials, chunks):
        honest = server_role(role, manifest, settings, credentials, chunks)
        seeds.append(credentials.seed)

        def receive(envelope, **options):
            raise RuntimeError(f"{credentials.seed!r} {credentials.seed.hex()}")

        honest.receive = receive
        return honest

    town = Town(tmp_path, n=100, parties=("telco",)).start("validate").start("compute", make_role=broken)
    try:
        ends = town.join()
    finally:
        town.stop()
    assert {end.code for end in ends.values()} == {"E_ENGINE"}
    shown = [str(end).encode() for end in ends.values()]
    shown += [log.getvalue().encode() for log in town.logs.values()]
    shown += [path.read_bytes() for path in town.root.rglob("*") if path.is_file()]
    assert any("internal" in log.getvalue() for log in town.logs.values())
    assert seeds
    assert not any(form in text for seed in seeds for form in forms(seed) for text in shown)
