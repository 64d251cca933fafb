"""Bad networks, bad disks, bad clocks: items 27 to 30; and what is left behind: 31, 35."""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time

import numpy as np
import pytest
from msgspec.structs import replace

from fedvalue.agreement.manifest import Deadlines
from fedvalue.crypto import hashing
from fedvalue.deployment.parties import party_run, spooled_samples
from fedvalue.deployment.servers import courier, run_host
from fedvalue.deployment.servers.upload_files import FILE_FROM
from fedvalue.errors import EngineError, FedValueError
from fedvalue.protocol import codec, samples
from fedvalue.protocol import messages as m
from fedvalue.protocol.mirror.row_layout import TAG_BYTES
from tests.cli.here import fedvalue_here
from tests.support.databases import opened
from tests.support.fault_proxy import FaultProxy
from tests.support.processes import Process, until
from tests.support.programs import party_program
from tests.support.roles import hello_body
from tests.support.town import TASK, Town, ended_well, values_of

pytestmark = pytest.mark.network


def through(town: Town, proxies: dict[str, FaultProxy]) -> None:
    """Let every party reach the servers through the proxies."""
    lines = "\n[addresses]\n" + "".join(
        f'{server} = "{proxy.address}"\n' for server, proxy in proxies.items()
    )
    for party in (TASK, *town.parties):
        config = town.member(party).folder / "party.toml"
        config.write_text(config.read_text() + lines)


@pytest.fixture
def town(tmp_path):
    found = Town(tmp_path, n=100).start()
    yield found
    found.stop()


def proxied(town: Town, **faults: float) -> dict[str, FaultProxy]:
    manifest = town.consortium.signed.manifest
    proxies = {
        server: FaultProxy(manifest.participant(server).endpoint, seed=k, **faults)
        for k, server in enumerate(("compute", "validate"))
    }
    through(town, proxies)
    return proxies


@pytest.mark.parametrize(
    "faults",
    [
        {"delay": 0.02},
        {"reset": 0.10, "delay": 0.002},
        {"jitter": 0.15},
        pytest.param({"reset": 0.01}, marks=pytest.mark.slow),
        pytest.param({"reset": 0.20, "delay": 0.002}, marks=pytest.mark.slow),
        pytest.param({"reset": 0.05, "jitter": 0.1}, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_a_run_through_a_bad_network_gives_the_same_values(town, faults):
    """Item 29: delay; 1 to 20 % of all pieces end in a reset; messages overtake each other."""
    proxies = proxied(town, **faults)
    try:
        ends = town.join()
    finally:
        for proxy in proxies.values():
            proxy.close()
    assert ended_well(ends), ends
    assert values_of(town.result()) == pytest.approx(town.values, abs=1e-9)
    if faults.get("reset", 0) > 0.05:
        assert sum(proxy.resets for proxy in proxies.values()) > 0


def test_a_partition_that_heals_does_not_change_the_result(town):
    """Item 29: nobody reaches the validation server for a while."""
    proxies = proxied(town)
    proxies["validate"].partitioned = True

    def heal() -> None:
        until(lambda: proxies["validate"].refused > 5, what="attempts to reach the server")
        proxies["validate"].partitioned = False

    threading.Thread(target=heal, daemon=True).start()
    try:
        ends = town.join()
    finally:
        for proxy in proxies.values():
            proxy.close()
    assert proxies["validate"].refused > 5
    assert ended_well(ends), ends
    assert values_of(town.result()) == pytest.approx(town.values, abs=1e-9)


def test_a_half_open_connection_is_given_up_and_made_anew(town):
    """Item 29: the line goes silent without an end, and the connections are lost with it."""
    proxies = proxied(town)
    line = proxies["compute"]
    line.silent_after = 10_000  # in the middle of the first messages

    def silence() -> None:
        until(lambda: line.held > 0, what="a message on the silent line")
        line.cut()
        line.silent = False

    threading.Thread(target=silence, daemon=True).start()
    try:
        ends = town.join()
    finally:
        for proxy in proxies.values():
            proxy.close()
    assert line.held > 0
    assert ended_well(ends), ends
    assert values_of(town.result()) == pytest.approx(town.values, abs=1e-9)


@pytest.mark.slow  # half a minute of waiting: as long as it takes to give up a line that says nothing
def test_connections_that_are_half_open_for_good_are_given_up_and_made_anew(town):
    """Item 29: no data, no end, no reset, for ever; only a new connection helps."""
    proxies = proxied(town)
    frozen = []

    def freeze() -> None:
        until(lambda: any(line["event"] == "stage" for line in town.log("compute")), what="the key agreement")
        frozen.extend(proxy.freeze() for proxy in proxies.values())

    threading.Thread(target=freeze, daemon=True).start()
    try:
        ends = town.join()
    finally:
        for proxy in proxies.values():
            proxy.close()
    assert ended_well(ends), ends
    assert values_of(town.result()) == pytest.approx(town.values, abs=1e-9)
    assert min(frozen) > 0


@pytest.fixture
def servers_apart(monkeypatch):
    """Make a partitioned proxy through which the computation server reaches the validation server."""
    proxies = []

    def make(endpoint: str) -> FaultProxy:
        proxy = FaultProxy(endpoint)
        proxy.partitioned = True
        proxies.append(proxy)
        client = courier.ServerClient

        def by_proxy(identity, target, manifest, **options):
            return client(identity, replace(target, endpoint=proxy.address), manifest, **options)

        monkeypatch.setattr(courier, "ServerClient", by_proxy)
        return proxy

    yield make
    for proxy in proxies:
        proxy.close()


PAPER = {
    "protocol": "paper",
    "policy": "counts",
    "accept": 'protocols = ["paper"]\npolicies = ["counts"]',
}
"""The protocol in which the computation server sends to the validation server."""


@pytest.mark.parametrize("terms", [{}, PAPER], ids=["mirror", "paper"])
@pytest.mark.parametrize("heals", [True, False])
def test_a_run_needs_the_line_between_the_servers_and_waits_for_it(tmp_path, servers_apart, heals, terms):
    """Item 29: partition of C from V. It heals: the same values. It does not: E_DEADLINE, no value.

    Under `mirror` the servers settle on one answer over that line before anything leaves.
    """
    limits = {} if heals else {"deadlines": Deadlines(keying=15, upload=4, compute=4)}
    town = Town(tmp_path, n=100, parties=("telco",), **terms, **limits)
    proxy = servers_apart(town.consortium.signed.manifest.validate.endpoint)

    def heal() -> None:
        until(
            lambda: any(line.get("stage") == "uploading" for line in town.log("compute")), what="the uploads"
        )
        before = proxy.refused
        until(lambda: proxy.refused > before, what="an attempt to reach the other server")
        proxy.partitioned = False

    town.start()
    if heals:
        threading.Thread(target=heal, daemon=True).start()
    try:
        ends = town.join()
    finally:
        town.stop()
    if heals:
        assert ended_well(ends), ends
        assert values_of(town.result()) == pytest.approx(town.values, abs=1e-9)
    else:
        assert {end.code for end in ends.values()} == {"E_DEADLINE"}
        assert not any((town.member(name).folder / "result.json").exists() for name in ends)


def test_a_server_that_never_answers_ends_in_a_deadline(tmp_path, monkeypatch):
    """Item 29: a partition that does not heal: E_DEADLINE or E_UNREACHABLE, and no value."""
    monkeypatch.setattr(party_run, "_NOTICE_SECONDS", 1.0)  # to a server that is not there
    limits = Deadlines(keying=1, upload=1, compute=1)
    town = Town(tmp_path, n=100, parties=("telco",), deadlines=limits).start("compute")
    try:
        ends = town.join()
        assert all(isinstance(end, FedValueError) for end in ends.values())
        assert {end.code for end in ends.values()} <= {"E_DEADLINE", "E_UNREACHABLE"}
        assert not (town.member(TASK).folder / "result.json").exists()
    finally:
        town.stop()


def test_clocks_an_hour_apart_do_not_matter(tmp_path):
    """Item 30: one server an hour ahead, the other an hour behind."""
    town = Town(tmp_path, n=100)
    town.start("compute", clock=lambda: time.time() + 3600)
    town.start("validate", clock=lambda: time.time() - 3600)
    try:
        ends = town.join()
    finally:
        town.stop()
    assert ended_well(ends), ends
    assert values_of(town.result()) == pytest.approx(town.values, abs=1e-9)


class FullDisk:
    """Stands in for os.fsync and friends: writing fails while `full`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from fedvalue.storage.database import Database

        self.full = False
        commit = Database.transaction

        def transaction(database):
            if self.full:
                raise EngineError("cannot write: No space left on device", code="E_STORAGE")
            return commit(database)

        monkeypatch.setattr(Database, "transaction", transaction)


def test_a_full_disk_is_waited_out(tmp_path, monkeypatch):
    """Item 27: E_STORAGE while it is full, nothing half accepted; then the run goes on."""
    town = Town(tmp_path, n=100)
    town.start()
    disk = FullDisk(monkeypatch)
    seen = []

    def fill() -> None:
        client = town.client("telco")
        client.submit(town.consortium.signed.to_json().encode())
        disk.full = True
        try:
            client.post(town.run_id, 0, hello_body(town.member("telco").identity, town.run_id))
        except FedValueError as error:
            seen.append(error.code)
        disk.full = False
        assert client.status(town.run_id).next == 0

    try:
        fill()
        ends = town.join()
    finally:
        town.stop()
    assert seen == ["E_STORAGE"]
    assert ended_well(ends), ends


@pytest.mark.skipif(not os.path.ismount("/dev/shm"), reason="needs a small file system of its own")
def test_a_really_full_file_system_is_reported_and_leaves_no_partial_chunk(tmp_path):
    """Item 27, on a real file system: a limit on file size makes the kernel refuse the write."""
    import resource
    import signal

    from fedvalue.storage.durable_files import write_durably

    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, hard))
    try:
        with pytest.raises(EngineError, match="File too large") as caught:
            write_durably(tmp_path / "spool" / "0.msg", bytes(1 << 20))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)
    assert caught.value.code == "E_STORAGE"
    assert list((tmp_path / "spool").iterdir()) == []


def test_a_state_folder_that_cannot_be_written_is_named(tmp_path):
    """Item 27: read-only disk. A folder that is a file cannot be written even by root."""
    town = Town(tmp_path, n=100, parties=("telco",))
    (town.member("telco").folder / "state").write_text("in the way")
    end = town.join("telco")["telco"]
    assert end.code == "E_STORAGE"
    assert "state" in str(end)


@pytest.mark.parametrize("terms", [{}, PAPER], ids=["mirror", "paper"])
def test_servers_never_hold_ids_labels_or_names_of_values(tmp_path, monkeypatch, terms):
    """Item 31: uploads, database, spool and logs of both servers, searched byte by byte."""
    town = Town(tmp_path, n=100, parties=("telco",), **terms)
    for party in (TASK, "telco"):
        table = town.member(party).folder / "table.csv"
        table.write_text(table.read_text().replace("v", "grade-").replace("id,x", "id,income-class"))
    kept: dict[str, list[bytes]] = {"compute": [], "validate": []}
    hashes: list[bytes] = []
    admit, hash_ids = run_host.admit, hashing.hash_ids

    def keeping(manifest, server, sender, body):
        kept[server].append(bytes(body))
        return admit(manifest, server, sender, body)

    def noting(*arguments, **named):
        found = hash_ids(*arguments, **named)
        hashes.extend(row.tobytes() for row in found)
        return found

    monkeypatch.setattr(run_host, "admit", keeping)
    for module in (samples, spooled_samples):
        monkeypatch.setattr(module, "hash_ids", noting)
    town.start()
    try:
        ends = town.join()
    finally:
        town.stop()
    assert ended_well(ends), ends
    assert len(set(hashes)) >= 100
    assert {len(one) for one in hashes} == {16}
    needles = [f"P{k:05d}".encode() for k in range(100)] + [b"grade-", b"income-class"]
    needles += [part for one in set(hashes) for part in (one[:8], one[8:], one.hex()[:16].encode())]
    for server in ("compute", "validate"):
        folder = town.member(server).folder
        hay = list(kept[server]) + [path.read_bytes() for path in folder.rglob("*") if path.is_file()]
        hay.append(town.logs[server].getvalue().encode())
        assert sum(map(len, hay)) > 10_000
        for blob in hay:
            assert not any(needle in blob for needle in needles)


def uniform(data: bytes) -> bool:
    """The bytes of `data`, by place modulo 8, in 256 bins: chi-square has mean 255 and standard
    deviation 22.6; six of them either way (about 1e-8) are allowed."""
    for place in range(8):
        found = np.bincount(np.frombuffer(data, np.uint8)[place::8], minlength=256)
        mean = found.sum() / 256
        if abs(((found - mean) ** 2 / mean).sum() - 255) > 6 * 22.6:
            return False
    return True


def test_what_is_stored_when_a_party_never_returns_is_noise(tmp_path):
    """Item 28: E_DEADLINE names it; what lies on the servers' disks by then passes a uniformity test.

    shop's process is killed for good when its first chunk is about to leave; the two others have uploaded.
    """
    # At least a byte per row: uploads become files.
    town, ahead = Town(tmp_path, n=FILE_FROM), [0.0]
    town.start(clock=lambda: time.time() + ahead[0])
    config = str(town.member("shop").folder / "party.toml")
    shop = Process(party_program, config, "data", ("upload", 1), log=tmp_path / "shop.log")
    stored: dict[tuple[str, str], bytes] = {}

    def look() -> bool:
        for server in ("compute", "validate"):
            for path in (town.member(server).folder / "state" / "spool").rglob("*.msg"):
                # A file may be gone again, or be written just now.
                with contextlib.suppress(OSError, FedValueError):
                    message = codec.decode(path.read_bytes()).message
                    assert isinstance(message, m.Chunk)
                    stored[server, path.parent.name] = message.data
        return len(stored) == 4

    def leap() -> None:
        """Reach the deadline of the uploads when only shop's is missing."""
        until(look, what="four stored uploads")
        until(lambda: town.awaited() == ("shop",), what="the others' uploads")
        ahead[0] = 4000.0

    watcher = threading.Thread(target=leap, daemon=True)
    watcher.start()
    try:
        ends = town.join(TASK, "telco")
    finally:
        town.stop()
        shop.kill()
    watcher.join()
    assert shop.code == -9
    for end in ends.values():
        assert isinstance(end, FedValueError)
        assert (end.code, "missing: shop" in str(end)) == ("E_DEADLINE", True)
    assert set(stored) == {(server, name) for server in ("compute", "validate") for name in (TASK, "telco")}
    for server in ("compute", "validate"):
        mine = [np.frombuffer(stored[server, name], "u1") for name in (TASK, "telco")]
        for rows in (*mine, mine[0] + mine[1]):
            assert len(rows) > FILE_FROM
            assert uniform(rows.tobytes())


def test_two_runs_on_the_same_data_upload_unrelated_rows(tmp_path, monkeypatch):
    """Item 31: masked rows of two runs agree as random ones do, and no two tags are equal.

    Random uploads of 100 rows of a byte agree in 0.4 places on average, in 15 with probability below 1e-18.
    """
    admit = run_host.admit
    uploads: list[dict[tuple[str, str], bytes]] = []
    for k in range(2):
        kept: dict[tuple[str, str], bytes] = {}

        def keeping(manifest, server, sender, body, kept=kept):
            if body[:2] == b"FV":
                message = codec.decode(body).message
                if isinstance(message, m.Chunk):
                    kept[server, sender] = bytes(message.data)
            return admit(manifest, server, sender, body)

        monkeypatch.setattr(run_host, "admit", keeping)
        town = Town(tmp_path / str(k), n=100)
        try:
            town.start()
            town.join()
        finally:
            town.stop()
        assert len(kept) == 2 * 3  # two servers, three parties
        uploads.append(kept)
    tags = {data[-TAG_BYTES:] for kept in uploads for data in kept.values()}
    assert len(tags) == 2 * 2 * 3
    for one in uploads[0].values():
        for other in uploads[1].values():
            assert len(one) == len(other) >= 100 + TAG_BYTES
            agreeing = sum(a == b for a, b in zip(one, other, strict=True))
            assert agreeing < 15 * (len(one) // 100)


def test_an_edited_server_journal_log_is_noticed_with_the_parties_receipts(tmp_path):
    """Item 35: the audit log in a server's database, rewritten by its operator."""

    from fedvalue.errors import VerificationError
    from fedvalue.identity.audit_log import ChainWriter, Receipt, check_receipts, read_log

    town = Town(tmp_path, n=100, parties=("telco",)).start()
    try:
        town.join()
    finally:
        town.stop()
    member = town.member("compute")
    key = member.identity.card.sign_key
    with opened(member.folder / "state" / "server.sqlite") as db:
        lines = [row[0] for row in db.execute("SELECT line FROM audit ORDER BY seq")]
    short = town.run_id.hex()[:12]
    receipts = [
        Receipt.from_line(line)
        for line in (town.member("telco").folder / "state" / f"receipts-{short}.jsonl")
        .read_text()
        .splitlines()
    ]
    assert check_receipts(read_log(lines, key), receipts, key) > 0
    # The operator holds the key and writes a whole new, valid history without telco's second message.
    writer = ChainWriter(member.identity, town.run_id.hex())
    entries = [json.loads(line)["entry"] for line in lines]
    left_out = [k for k, entry in enumerate(entries) if entry["event"] == "received telco"][1]
    forged = [
        writer.append(entry["event"], entry["digest"], entry["time"])
        for k, entry in enumerate(entries)
        if k != left_out
    ]
    forged_entries = read_log(forged, key)
    with pytest.raises(VerificationError, match="a receipt"):
        check_receipts(forged_entries, receipts, key)
    # The command says the same, at the first entry for which a receipt tells another story.
    first = min(one.seq for one in receipts if one.actor == "compute" and one.seq >= left_out)
    (tmp_path / "forged.jsonl").write_text("\n".join(forged) + "\n")
    done = fedvalue_here(
        "audit", "verify", tmp_path / "forged.jsonl", "--card", member.folder / "identity" / "card.json",
        "--receipts", town.member("telco").folder / "state" / f"receipts-{short}.jsonl",
    )  # fmt: skip
    assert (done.code, "[E_AUDIT]" in done.err) == (7, True)
    assert f"entry {first}: a receipt" in done.err
