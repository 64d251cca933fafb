"""A computing run can be ended: by its deadline, its operator, a party, or a server that stops.

The table is one that once blocked a server for an hour and a half: 20 binary parties, 65,000 rows. Exact
values still take a minute. A stub role stands for the protocol; journal, worker, process and commands are the
real ones.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
import pytest

from fedvalue.agreement.manifest import Deadlines, SignedManifest
from fedvalue.agreement.run_settings import terms_of
from fedvalue.cli.serve import abort
from fedvalue.deployment.network import wire
from fedvalue.deployment.network.rpc_server import Peer
from fedvalue.deployment.servers import computation, valuation_process
from fedvalue.deployment.servers.abort_requests import abort_run
from fedvalue.deployment.servers.computation import Computation, checkpoint, killable
from fedvalue.deployment.servers.relay_server import RelayServer
from fedvalue.deployment.servers.server_role import valuer_of
from fedvalue.deployment.servers.valuation_process import Job, ValuationProcess
from fedvalue.errors import ConfigError, EngineError, FedValueError, InputError
from fedvalue.information.contingency import JointCounts
from fedvalue.protocol import codec
from fedvalue.protocol import messages as m
from fedvalue.protocol.transitions import State
from fedvalue.valuation.settings import WORK_LIMIT
from tests.support.consortium import NOW, identity, member, signed
from tests.support.processes import PATIENCE, until

NAMES = ("compute", "validate", "bank", "telco", "shop")


def agreed(seconds: int = 3600, **terms: Any) -> SignedManifest:
    return signed(
        n_samples=65_000, research=True, method="exact", statistics=False,
        deadlines=Deadlines(compute=seconds), **terms,
    )  # fmt: skip


@cache
def counts(n: int, n_parties: int) -> JointCounts:
    rng = np.random.default_rng(7)
    parties = {f"column {k}": rng.integers(0, 2, n) for k in range(n_parties)}
    return JointCounts.from_columns(label=rng.integers(0, 2, n), parties=parties)


LONG, SHORT = (65_000, 20), (400, 4)


def job(run: SignedManifest, sizes: tuple[int, int]) -> Job:
    settings = terms_of(run.manifest).with_sizes(
        n_samples=65_000, n_task_codes=1, n_label_codes=2, n_codes=(2, 2),
        features=((), (2,), (2,)),
    )  # fmt: skip
    return Job(run.manifest, counts(*sizes), settings)


class StubRole:
    """Computes when the first message comes, and is then done."""

    def __init__(self, run: SignedManifest, sizes: tuple[int, int]) -> None:
        self.state = State.UPLOADING
        self._job = job(run, sizes)
        self._valuer = killable(run.manifest, valuer_of(run.manifest))

    def start(self) -> list[m.Envelope]:
        return []

    def receive(self, envelope: m.Envelope, *, checked: bool) -> list[m.Envelope]:
        if not isinstance(envelope.message, m.Abort):
            self._valuer(self._job.counts, self._job.run)
            self.state = State.DONE
        return []

    def fail(self, error: FedValueError) -> list[m.Envelope]:
        self.state = State.FAILED
        return []

    def awaited(self) -> tuple[str, ...]:
        return ()


class Server:
    """The validation server, without sockets."""

    def __init__(self, folder: Any, run: SignedManifest, sizes: tuple[int, int] = LONG) -> None:
        self.run, self.folder, self.ahead = run, folder, 0.0
        self.relay = RelayServer(
            identity("validate"), {name: identity(name).card for name in NAMES}, folder,
            terms=computed_terms(), clock=lambda: NOW.timestamp() + self.ahead,
            make_role=lambda *_: StubRole(run, sizes),
        )  # fmt: skip
        self.relay.submit(self.peer("bank"), wire.Submit(1, run.to_json().encode()))

    def peer(self, name: str) -> Peer:
        one = self.run.manifest.participant(name)
        return Peer(one.spki, one.certificate)

    def post(self, name: str, message: m.Message, number: int = 0) -> None:
        body = codec.encode(m.Envelope(self.run.run_id, name, "validate", message))
        self.relay.post(self.peer(name), wire.Post(1, self.run.run_id, number, memoryview(body)))

    @property
    def process(self) -> ValuationProcess | None:
        """The process that computes now, where stopping the run reaches it."""
        return self.relay._host(self.run.run_id)._worker._computation._process

    def compute(self) -> None:
        """Let it compute; returns when it does."""
        self.post("bank", m.EphemeralKey("bank", bytes(32), bytes(64)))
        host = self.relay._host(self.run.run_id)
        until(lambda: host.journal.stage in ("computing", "failed"), what="the computation")

    @property
    def end(self) -> tuple[str, str]:
        standing = self.relay.status(self.peer("bank"), wire.Status(1, self.run.run_id))
        return standing.state, standing.code

    def ended(self) -> tuple[str, str]:
        until(lambda: self.end[0] in ("done", "failed"), what="the end of the run")
        return self.end


def computed_terms() -> Any:
    from fedvalue.agreement.manifest_rules import Terms

    return Terms(research=True)


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[ValuationProcess]]:
    """All processes that a test starts; an idle one of an earlier test would take its work."""
    valuation_process.close_idle()
    started: list[ValuationProcess] = []
    make = ValuationProcess.__init__

    def noted(self: ValuationProcess) -> None:
        make(self)
        started.append(self)

    monkeypatch.setattr(ValuationProcess, "__init__", noted)
    yield started
    valuation_process.close_idle()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_to_all_processes_of_a_service_leaves_its_valuation_to_the_server(number):
    """systemd's default on `stop`. The valuation died of it, and the run ended with "memory ran out"."""
    process = ValuationProcess()
    try:
        assert process.value(job(agreed(), SHORT), PATIENCE) is not None  # it has started
        os.kill(process.pid, number)
        assert process.value(job(agreed(), SHORT), PATIENCE) is not None
    finally:
        process.close()
    assert not process.usable


def test_stopping_a_run_does_not_kill_the_process_that_another_one_has_got(monkeypatch):
    """Right when its answer is there, a run gives its process back. The next run may have it at once."""
    killed = []

    class Instant:
        def value(self, job: Job, seconds: float) -> str:
            return "the answer"

        def kill(self) -> None:
            killed.append(self)

    @contextmanager
    def lent() -> Iterator[Instant]:
        yield Instant()
        work.stop(EngineError("stopped"))  # it is idle, or another run's

    monkeypatch.setattr(computation, "borrowed", lent)
    work = Computation(lambda: 60.0)
    with work.entered():
        assert work.value(job(agreed(), LONG), lambda *_: None) == "the answer"
    assert not killed


def test_a_deadline_ends_a_computing_run_and_the_next_run_works(tmp_path, processes, monkeypatch):
    """The old rule: `tick` left a busy run alone, so the computation went on to its end."""
    server = Server(tmp_path, agreed(seconds=2))
    try:
        server.compute()
        assert server.ended() == ("failed", "E_DEADLINE")
        until(lambda: not processes[0].usable, what="the end of the process")
    finally:
        server.relay.stop()
    monkeypatch.setattr(computation, "QUICK_WORK", 0)
    again = Server(tmp_path, agreed(nonce=bytes(16)), SHORT)
    try:
        again.post("bank", m.EphemeralKey("bank", bytes(32), bytes(64)))
        assert again.ended() == ("done", "")
        assert len(processes) == 2
    finally:
        again.relay.stop()
        valuation_process.close_idle()
    assert not any(process.usable for process in processes)


def test_a_restart_does_not_repeat_a_computation_that_was_over_its_limit(tmp_path, processes):
    """Killed while it computed, started again after the deadline: E_DEADLINE, and no process starts.

    Within the deadline it does compute again: a crash costs no run.
    """
    run = agreed(seconds=100)
    server = Server(tmp_path, run)
    server.compute()
    server.relay.stop()  # interrupts the computation and leaves the journal as a kill would
    assert server.relay._host(run.run_id).journal.stage == "computing"
    valuation_process.close_idle()
    for ahead, end in ((50.0, "computing"), (101.0, "failed")):
        n_before = len(processes)
        server = Server.__new__(Server)
        server.run, server.folder, server.ahead = run, tmp_path, ahead
        server.relay = RelayServer(
            identity("validate"), {name: identity(name).card for name in NAMES}, tmp_path,
            terms=computed_terms(), clock=lambda ahead=ahead: NOW.timestamp() + ahead,
            make_role=lambda *_: StubRole(run, LONG),
        )  # fmt: skip
        try:
            if end == "failed":
                assert server.ended() == ("failed", "E_DEADLINE")
                assert len(processes) == n_before
            else:
                until(lambda n=n_before: len(processes) > n, what="the second computation")
        finally:
            server.relay.stop()


def test_an_operator_ends_a_computing_run(tmp_path, processes):
    """`fedvalue serve abort` is another process: it leaves a request in the state folder and waits."""
    run = agreed()
    server = Server(tmp_path, run)
    try:
        server.compute()
        until(lambda: server.process is not None, what="the process")
        with pytest.raises(
            InputError, match="no run here begins with 000000; active runs: " + run.run_id.hex()[:12]
        ):
            abort_run(tmp_path, "0" * 6)
        with pytest.raises(InputError, match="at least 6 hex digits"):
            abort_run(tmp_path, "12")
        assert abort_run(tmp_path, run.run_id.hex()[:8], patience=PATIENCE) == (run.run_id, "failed")
        assert server.end == ("failed", "E_ABORTED")
        assert not processes[0].usable
        assert abort_run(tmp_path, run.run_id.hex()) == (run.run_id, "failed")  # again is harmless
        until(lambda: not list((tmp_path / "abort").iterdir()), what="the end of the request")
    finally:
        server.relay.stop()


def test_a_request_to_a_server_that_is_down_is_kept_until_it_starts(tmp_path, capsys):
    run = agreed()
    Server(tmp_path / "state", run).relay.stop()
    config = tmp_path / "server.toml"
    config.write_text(
        f'identity = "i"\npeers = "p"\nstate = "{tmp_path / "state"}"\nlisten = "127.0.0.1:1"\n'
    )
    assert abort_run(tmp_path / "state", run.run_id.hex(), patience=0.2) == (run.run_id, "open")
    server = Server(tmp_path / "state", run)
    try:
        assert server.ended() == ("failed", "E_ABORTED")
        abort(run.run_id.hex()[:10].upper(), config)
        assert "is over: nothing is released" in capsys.readouterr().err
    finally:
        server.relay.stop()
    with pytest.raises(ConfigError, match="is not the state folder of a server"):
        abort_run(tmp_path / "nothing", "0" * 6)


def test_a_party_that_gives_up_ends_a_computing_run(tmp_path, processes):
    server = Server(tmp_path, agreed())
    try:
        server.compute()
        until(lambda: server.process is not None, what="the process")
        server.post("telco", m.Abort("E_ABORTED"))
        assert server.ended() == ("failed", "E_ABORTED")
        assert not processes[0].usable
    finally:
        server.relay.stop()


class AddingRole(StubRole):
    """Adds up for ever at its second message, in the thread that feeds it, as `gram` does.

    Args:
        still: Adds up while this is set.
        stoppable: Whether it has checkpoints.
    """

    def __init__(self, still: threading.Event, *, stoppable: bool) -> None:
        self.state = State.UPLOADING
        self.under_way = threading.Event()
        self._still, self._stoppable = still, stoppable
        self._n_received = 0

    def receive(self, envelope: m.Envelope, *, checked: bool) -> list[m.Envelope]:
        self._n_received += 1
        if self._n_received == 1:
            return []
        self.under_way.set()
        while self._still.is_set():
            if self._stoppable:
                checkpoint()
            time.sleep(0.01)
        return []


class AddingServer(Server):
    """The validation server of `gram` runs that add up for ever; a run may also wait for a message."""

    def __init__(self, folder: Any, *runs: SignedManifest, stoppable: bool = True) -> None:
        self.run, self.folder, self.ahead = runs[0], folder, 0.0
        self.still = threading.Event()
        self.still.set()
        self.roles: list[AddingRole] = []
        self.relay = RelayServer(
            identity("validate"), {name: member(name).card for name in (*NAMES, "assist")}, folder,
            terms=computed_terms(), clock=lambda: NOW.timestamp() + self.ahead, make_role=self.make,
        )  # fmt: skip
        self._stoppable = stoppable
        for run in runs:
            self.relay.submit(self.peer("bank"), wire.Submit(1, run.to_json().encode()))

    def make(self, *_: Any) -> Any:
        self.roles.append(AddingRole(self.still, stoppable=self._stoppable))
        return self.roles[-1]

    def add_up(self) -> None:
        """Let the first run add up; returns when it does."""
        for name in ("bank", "telco"):
            self.post(name, m.EphemeralKey(name, bytes(32), bytes(64)))
        until(lambda: any(role.under_way.is_set() for role in self.roles), what="the sums")

    def close(self) -> None:
        self.still.clear()
        self.relay.stop()


@pytest.fixture
def no_couriers(monkeypatch: pytest.MonkeyPatch) -> None:
    class Quiet:
        def __init__(self, *arguments: object) -> None: ...
        def stop(self) -> None: ...

    monkeypatch.setattr("fedvalue.deployment.servers.relay_server.Courier", Quiet)


def sums(upload: int = 3600, **terms: Any) -> SignedManifest:
    return signed(protocol="gram", epsilon="1", deadlines=Deadlines(keying=60, upload=upload), **terms)


@pytest.mark.parametrize("ending", ["deadline", "operator", "party"])
def test_the_sums_of_gram_are_stopped(ending, tmp_path, no_couriers):
    """The old rule: no deadline ended them, and an operator or a party had to wait for their end."""
    run = sums(upload=100)
    server = AddingServer(tmp_path, run)
    try:
        server.add_up()
        if ending == "deadline":
            server.ahead = 100_000.0
        elif ending == "operator":
            assert abort_run(tmp_path, run.run_id.hex(), patience=PATIENCE)[1] == "failed"
        else:
            server.post("shop", m.Abort("E_ABORTED"))
        assert server.ended() == ("failed", "E_DEADLINE" if ending == "deadline" else "E_ABORTED")
        assert server.still.is_set()
    finally:
        server.close()


def test_a_server_that_stops_does_not_wait_for_the_sums(tmp_path, no_couriers):
    server = AddingServer(tmp_path, sums())
    server.add_up()
    server.relay.stop()
    assert server.still.is_set()
    assert server.relay._host(server.run.run_id).journal.state != "failed"


def test_an_abort_that_has_to_wait_keeps_no_deadline_of_another_run_waiting(tmp_path, no_couriers):
    """The old rule: the only thread that watches deadlines waited for the work of the aborted run."""
    run, other = sums(), sums(nonce=bytes(16))
    server = AddingServer(tmp_path, run, other, stoppable=False)
    try:
        server.add_up()
        assert abort_run(tmp_path, run.run_id.hex(), patience=0.1)[1] != "failed"
        until(lambda: server.relay._aborting == {run.run_id}, what="the request")
        server.ahead = 100_000.0
        late = server.relay._host(other.run_id)
        until(lambda: late.ended, what="the deadline of the other run")
        assert late.journal.code == "E_DEADLINE"
        assert server.end[0] != "failed"
        server.ahead = 0.0
        server.still.clear()
        assert server.ended() == ("failed", "E_ABORTED")
        until(lambda: not list((tmp_path / "abort").iterdir()), what="the end of the request")
    finally:
        server.close()


def test_a_valuation_that_the_system_kills_ends_one_run_with_a_typed_error(processes):
    """As the kernel does where memory runs out."""
    run = agreed()
    process = ValuationProcess()
    killer = threading.Timer(1.0, lambda: os.kill(process.pid, 9))
    killer.start()
    with pytest.raises(EngineError, match="memory ran out"):
        process.value(job(run, LONG), 600.0)
    assert not process.usable
    process.close()


def test_errors_of_a_valuation_keep_their_class_and_code(processes):
    run = agreed()
    bad = job(run, SHORT)
    object.__setattr__(bad.counts, "count", bad.counts.count[:-1])
    process = ValuationProcess()
    try:
        with pytest.raises(FedValueError) as caught:
            process.value(bad, 600.0)
        assert caught.value.code.startswith("E_")
    finally:
        process.close()
        counts.cache_clear()


def test_auto_computes_exact_values_well_within_the_deadline():
    """65,000 items and 20 parties were within an earlier limit of 2^36 visits."""
    items, parties = LONG
    assert WORK_LIMIT < items * 2**parties <= 2**36
    assert Deadlines().compute / 5 > WORK_LIMIT * 1.5e-7  # seconds at the worst rate known
    assert agreed().manifest.work_limit == WORK_LIMIT


def test_a_small_table_starts_no_process_and_gives_the_same_answer(processes):
    run = agreed()
    small = job(run, SHORT)
    here = Computation(lambda: 600.0).value(small, valuer_of(run.manifest))
    assert not processes
    process = ValuationProcess()
    try:
        assert process.value(small, 600.0) == here
    finally:
        process.close()


@pytest.mark.parametrize("compiled", [True, False])
def test_a_server_compiles_ahead_only_where_that_was_not_done(compiled, tmp_path, monkeypatch):
    from fedvalue.deployment.servers import valuation_process
    from fedvalue.federated import warm_up

    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    if compiled:
        monkeypatch.setattr("fedvalue.valuation.compilation.compile_kernels", lambda progress: None)
        monkeypatch.setattr(warm_up, "warm_up", lambda *, values: None)
        warm_up.compile_everything(lambda done, total, note="": None)
    started = threading.Event()
    monkeypatch.setattr(valuation_process.subprocess, "run", lambda *a, **k: started.set())
    valuation_process.prepare()
    assert started.wait(0.2 if compiled else PATIENCE) is not compiled
