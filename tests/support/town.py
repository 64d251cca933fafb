"""A small consortium with real sockets: servers and parties in threads of the test, or as processes.

The tables have one categorical feature per party and cell counts that are all different, so that
a lost, repeated or swapped row shows in the values.
"""

from __future__ import annotations

import csv
import json
import threading
from collections.abc import Mapping, Sequence
from io import StringIO
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import replace

from fedvalue.agreement.run_settings import terms_of
from fedvalue.deployment.config import read_party_config, read_server_config
from fedvalue.deployment.network.retry import Backoff
from fedvalue.deployment.network.rpc_client import ServerClient
from fedvalue.deployment.network.rpc_server import NetworkServer
from fedvalue.deployment.parties.party_process import take_part
from fedvalue.deployment.servers.observability import QUIET_SECONDS, Log
from fedvalue.deployment.servers.relay_server import RelayServer
from fedvalue.deployment.servers.server_role import server_role
from fedvalue.errors import FedValueError
from fedvalue.identity.identity_files import read_pinned
from fedvalue.simulation.local_consortium import LocalConsortium, Member, Source, build
from fedvalue.valuation.result import Valuation
from tests.naive import shapley_cmi
from tests.support.consortium import with_settings
from tests.support.processes import PATIENCE

TASK = "bank"
DATA = ("telco", "shop")


def columns(n: int = 120, seed: int = 3, parties: Sequence[str] = DATA) -> dict[str, np.ndarray]:
    """Codes of X_t, Y and every party; dependent, so that every value is well above 0."""
    rng = np.random.default_rng(seed)
    label = rng.integers(0, 2, n)
    found = {"task": rng.integers(0, 2, n), "label": label}
    for k, party in enumerate(parties):
        flip = rng.random(n) < 0.15 + 0.1 * k
        found[party] = np.where(flip, rng.integers(0, 3, n), label + (found["task"] if k % 2 else 0))
    return found


def expected(codes: Mapping[str, np.ndarray], parties: Sequence[str] = DATA) -> dict[str, float]:
    """The centralised values, by the naive twin."""
    values = shapley_cmi(
        [codes[party].tolist() for party in parties], codes["label"].tolist(), codes["task"].tolist()
    )
    return dict(zip(parties, values, strict=True))


def write_tables(
    root: Path, codes: Mapping[str, np.ndarray], parties: Sequence[str] = DATA
) -> dict[str, Source]:
    """One CSV per party, each in a row order of its own."""
    n = len(codes["label"])
    sources = {}
    for k, party in enumerate((TASK, *parties)):
        names = {"x": codes["task"], "y": codes["label"]} if party == TASK else {"x": codes[party]}
        order = np.random.default_rng(100 + k).permutation(n)
        folder = root / party
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "table.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["id", *names])
            writer.writerows([f"P{i:05d}", *(f"v{column[i]}" for column in names.values())] for i in order)
        sources[party] = Source("table.csv", "id", "y" if party == TASK else None)
    return sources


class Town:
    """A consortium in a folder, with servers that can be started in this process."""

    def __init__(
        self, root: Path, *, n: int = 120, parties: Sequence[str] = DATA, accept: str = "", **terms: Any
    ) -> None:
        self.parties = tuple(parties)
        self.codes = columns(n, parties=parties)
        sources = write_tables(root, self.codes, parties)
        terms = {"purpose": "a test", "n_samples": n} | with_settings(terms)
        self.consortium: LocalConsortium = build(root, TASK, sources, accept=accept, **terms)
        self.root = root
        for party in (TASK, *self.parties):  # a report in every run would cost seconds of plotting
            config = self.member(party).folder / "party.toml"
            config.write_text(config.read_text().replace('report = "report.html"\n', ""))
        self.servers: dict[str, tuple[RelayServer, NetworkServer]] = {}
        self.logs: dict[str, StringIO] = {}

    @property
    def run_id(self) -> bytes:
        return self.consortium.signed.run_id

    @property
    def values(self) -> dict[str, float]:
        """The centralised values, on the grid on which the run releases them."""
        return self.released(expected(self.codes, self.parties))

    def released(self, values: dict[str, float]) -> dict[str, float]:
        grid = terms_of(self.consortium.signed.manifest).release_grid
        if self.consortium.signed.manifest.policy == "counts":
            return values
        return {name: grid.rounded({"value": value})["value"] for name, value in values.items()}

    @property
    def server_names(self) -> tuple[str, ...]:
        return tuple(
            server.name for server in self.consortium.signed.manifest.participants if server.endpoint
        )

    def member(self, name: str) -> Member:
        return self.consortium.members[name]

    def start(self, *names: str, make_role: Any = server_role, **options: Any) -> Town:
        for name in names or self.server_names:
            config = read_server_config(self.member(name).folder / "server.toml")
            identity = self.member(name).identity
            cards = read_pinned(config.peers, identity.card)
            stream = self.logs.setdefault(name, StringIO())
            relay = RelayServer(
                identity,
                cards,
                config.state,
                terms=config.accept,
                log=Log(name, stream, clock=count(step=QUIET_SECONDS).__next__),  # every line
                make_role=make_role,
                **options,
            )
            roots = b"".join(card.pem for card in cards.values())
            network = NetworkServer(relay, identity=identity, roots=roots, listen=config.listen)
            network.start()
            self.servers[name] = (relay, network)
        return self

    def stop(self, *names: str) -> None:
        for name in names or tuple(self.servers):
            relay, network = self.servers.pop(name)
            relay.drain()
            network.stop(1.0)
            network._server.wait_for_termination(PATIENCE)  # its port is free then
            relay.stop()

    def log(self, server: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.logs[server].getvalue().splitlines()]

    def client(self, name: str, server: str = "compute", **options: Any) -> ServerClient:
        """`name`'s connection to a server, without patience."""
        manifest = self.consortium.signed.manifest
        options = {"patience": 0.0, "backoff": Backoff()} | options
        return ServerClient(self.member(name).identity, manifest.participant(server), manifest, **options)

    def awaited(self, run: int = 1) -> tuple[str, ...]:
        """Whom the computation server waits for in a run of this number; nobody before there is one."""
        try:
            return self.client(self.parties[0]).status(self.consortium.signed.repeated(run).run_id).awaited
        except FedValueError:
            return ()

    def join(
        self, *names: str, seconds: float = PATIENCE, again: Sequence[str] = (), **changes: Any
    ) -> dict[str, Valuation | FedValueError | None]:
        """Let parties take part, each in a thread, and return what each ended with.

        `again` names those who repeat a failed run; `changes` are keys of everybody's configuration.
        """
        ends: dict[str, Valuation | FedValueError | None] = {}

        def take(name: str) -> None:
            try:
                config = read_party_config(self.member(name).folder / "party.toml")
                ends[name] = take_part(
                    replace(config, **changes), self.member(name).role, again=name in again
                )
            except FedValueError as error:
                ends[name] = error

        threads = [
            threading.Thread(target=take, args=(name,), daemon=True)
            for name in names or (TASK, *self.parties)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(seconds)
            assert not thread.is_alive(), (
                f"still running after {seconds} s; ended: {ends}; logs: "
                f"{ {name: log.getvalue()[-3000:] for name, log in self.logs.items()} }"
            )
        return ends

    def result(self) -> dict[str, Any]:
        return json.loads((self.member(TASK).folder / "result.json").read_bytes())


def ended_well(ends: Mapping[str, object]) -> bool:
    """Whether no party ended with an error."""
    return not any(isinstance(end, FedValueError) for end in ends.values())


def values_of(result: Mapping[str, Any]) -> dict[str, float]:
    return {party["name"]: party["value"] for party in result["parties"]}
