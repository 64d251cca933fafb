"""Bad networks, bad disks, bad clocks: items 27, 29, 30; and what is left behind: 31, 35, 37."""

from __future__ import annotations

import json
import os
import threading
import time

import pytest

from fedvalue.deployment.participate import Finished
from fedvalue.errors import EngineError, FedValueError
from tests.support.fault_proxy import FaultProxy
from tests.support.town import TASK, Town, values_of

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


@pytest.mark.parametrize("faults", [{"delay": 0.02}, {"reset": 0.10, "delay": 0.002}], ids=str)
def test_a_run_through_a_bad_network_gives_the_same_values(town, faults):
    """Item 29: delay, and 10 % of all pieces end in a reset."""
    proxies = proxied(town, **faults)
    try:
        ends = town.join(seconds=120)
    finally:
        for proxy in proxies.values():
            proxy.close()
    assert all(isinstance(end, Finished) for end in ends.values()), ends
    assert values_of(town.result()) == pytest.approx(town.values, abs=1e-9)
    if faults.get("reset", 0) > 0.05:
        assert sum(proxy.resets for proxy in proxies.values()) > 0


def test_a_partition_that_heals_does_not_change_the_result(town):
    """Item 29: nobody reaches the validation server for a while."""
    proxies = proxied(town)
    proxies["validate"].partitioned = True

    def heal() -> None:
        time.sleep(2.0)
        proxies["validate"].partitioned = False

    threading.Thread(target=heal, daemon=True).start()
    try:
        ends = town.join(seconds=120)
    finally:
        for proxy in proxies.values():
            proxy.close()
    assert all(isinstance(end, Finished) for end in ends.values()), ends
    assert values_of(town.result()) == pytest.approx(town.values, abs=1e-9)


def test_a_half_open_connection_is_given_up_and_made_anew(town):
    """Item 29: the line goes silent without an end, and the connections are lost with it."""
    proxies = proxied(town)

    def silence() -> None:
        time.sleep(0.3)
        proxies["compute"].silent = True
        time.sleep(1.0)
        proxies["compute"].cut()
        proxies["compute"].silent = False

    threading.Thread(target=silence, daemon=True).start()
    try:
        ends = town.join(seconds=120)
    finally:
        for proxy in proxies.values():
            proxy.close()
    assert all(isinstance(end, Finished) for end in ends.values()), ends
    assert values_of(town.result()) == pytest.approx(town.values, abs=1e-9)


def test_servers_cut_off_from_each_other_still_finish_a_mirror_run(tmp_path):
    """Item 29: partition of C from V. Mirror needs no word between them; the parties compare."""
    from dataclasses import replace

    from fedvalue.deployment import courier

    town = Town(tmp_path, n=100)
    nowhere = FaultProxy("127.0.0.1:9")
    nowhere.partitioned = True
    client = courier.ServerClient

    def cut_off(identity, target, manifest, **options):
        return client(identity, replace(target, endpoint=nowhere.address), manifest, **options)

    courier.ServerClient = cut_off
    try:
        town.start()
        ends = town.join()
    finally:
        courier.ServerClient = client
        town.stop()
        nowhere.close()
    assert all(isinstance(end, Finished) for end in ends.values()), ends
    assert values_of(town.result()) == pytest.approx(town.values, abs=1e-9)


def test_a_server_that_never_answers_ends_in_a_deadline(tmp_path):
    """Item 29: a partition that does not heal: E_DEADLINE or E_UNREACHABLE, and no value."""
    from fedvalue.protocol.manifest import Deadlines

    town = Town(tmp_path, n=100, parties=("telco",), deadlines=Deadlines(1, 1, 1)).start("compute")
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
    town.start("compute", clock=lambda: time.time() + 3500)
    town.start("validate", clock=lambda: time.time() - 3500)
    try:
        ends = town.join()
        assert all(isinstance(end, Finished) for end in ends.values()), ends
    finally:
        town.stop()


class FullDisk:
    """Stands in for os.fsync and friends: writing fails while `full`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from fedvalue.deployment.database import Database

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
            from fedvalue.deployment import shell_messages as shell

            ready = shell.make_ready(
                town.member("telco").identity, town.run_id, rows=100, sizes=(3,), commitment=bytes(32)
            )
            client.post(town.run_id, 0, shell.encode(ready))
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
    assert all(isinstance(end, Finished) for end in ends.values()), ends


@pytest.mark.skipif(not os.path.ismount("/dev/shm"), reason="needs a small file system of its own")
def test_a_really_full_file_system_is_reported_and_leaves_no_partial_chunk(tmp_path):
    """Item 27, on a real file system: a limit on file size makes the kernel refuse the write."""
    import resource
    import signal

    from fedvalue.deployment.database import write_whole

    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, hard))
    try:
        with pytest.raises(EngineError, match="File too large") as caught:
            write_whole(tmp_path / "spool" / "0.msg", bytes(1 << 20))
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


def test_servers_never_hold_ids_labels_or_names_of_values(tmp_path):
    """Item 31: uploads, database, spool and logs of both servers, searched byte by byte."""
    town = Town(tmp_path, n=100)
    kept: dict[str, list[bytes]] = {"compute": [], "validate": []}
    from fedvalue.deployment import run_host

    admit = run_host.admit

    def keeping(manifest, server, sender, body):
        kept[server].append(bytes(body))
        return admit(manifest, server, sender, body)

    run_host.admit = keeping
    try:
        town.start()
        ends = town.join()
    finally:
        run_host.admit = admit
        town.stop()
    assert all(isinstance(end, Finished) for end in ends.values()), ends
    needles = [f"P{k:05d}".encode() for k in range(100)]
    for server in ("compute", "validate"):
        folder = town.member(server).folder
        hay = list(kept[server]) + [path.read_bytes() for path in folder.rglob("*") if path.is_file()]
        hay.append(town.logs[server].getvalue().encode())
        assert sum(map(len, hay)) > 10_000
        for blob in hay:
            assert not any(needle in blob for needle in needles)
            assert b"customer" not in blob


def test_the_upload_of_one_party_alone_looks_uniform(tmp_path):
    """Items 28 and 32: what a server holds when a party is missing is noise.

    The top byte of 20,000 masked words in 256 bins: chi-square has mean 255 and standard deviation
    22.6; six of them either way (about 1e-8) are allowed, per party and server.
    """
    from collections import Counter

    from fedvalue.deployment import run_host
    from fedvalue.protocol import codec
    from fedvalue.protocol import messages as m

    top: dict[tuple[str, str, int], Counter[int]] = {}
    admit = run_host.admit

    def keeping(manifest, server, sender, body):
        if body[:2] == b"FV":
            message = codec.decode(body).message
            if isinstance(message, m.Chunk):
                # By chunk, so that a message that was sent twice counts once.
                top[sender, server, message.index] = Counter(message.data[7::8])
        return admit(manifest, server, sender, body)

    run_host.admit = keeping
    town = Town(tmp_path, n=20_000)
    try:
        town.start()
        town.join()
    finally:
        run_host.admit = admit
        town.stop()
    assert len(top) == 6
    for counts in top.values():
        assert counts.total() % 20_000 == 0  # one or more lanes per row
        mean = counts.total() / 256
        chi = sum((counts[byte] - mean) ** 2 / mean for byte in range(256))
        assert abs(chi - 255) < 6 * 22.6


def test_two_runs_on_the_same_data_share_no_uploaded_word(tmp_path):
    """Item 31: masked words of two runs have nothing in common."""
    from fedvalue.deployment import run_host
    from fedvalue.protocol import codec
    from fedvalue.protocol import messages as m

    admit = run_host.admit
    words: list[set[bytes]] = []
    for k in range(2):
        found: set[bytes] = set()

        def keeping(manifest, server, sender, body, found=found):
            if body[:2] == b"FV":
                message = codec.decode(body).message
                if isinstance(message, m.Chunk):
                    found.update(message.data[i : i + 8] for i in range(0, len(message.data), 8))
            return admit(manifest, server, sender, body)

        run_host.admit = keeping
        town = Town(tmp_path / str(k), n=100)
        try:
            town.start()
            town.join()
        finally:
            run_host.admit = admit
            town.stop()
        words.append(found)
    lanes = len(words[0]) / (2 * 3 * 100)  # two servers, three parties, 100 rows, all words different
    assert lanes == len(words[1]) / (2 * 3 * 100) == round(lanes) >= 1
    assert not words[0] & words[1]


def test_an_edited_server_journal_log_is_noticed_with_the_parties_receipts(tmp_path):
    """Item 35: the audit log in a server's database, rewritten by its operator."""
    import sqlite3

    from fedvalue.crypto.audit import ChainWriter, Receipt, check_receipts, read_log
    from fedvalue.errors import VerificationError

    town = Town(tmp_path, n=100, parties=("telco",)).start()
    try:
        town.join()
    finally:
        town.stop()
    member = town.member("compute")
    key = member.identity.card.sign_key
    with sqlite3.connect(member.folder / "state" / "server.sqlite") as db:
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
