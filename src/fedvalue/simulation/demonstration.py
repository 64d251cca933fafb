"""A whole federated valuation on this machine, with everything switched on.

Two or three servers, a bank and four data parties, each its own process with its own folder, keys and table,
talk over mutual TLS on loopback. The values are compared with those of the joined table, which no participant
could compute in a real run.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

from fedvalue.agreement.manifest import Manifest
from fedvalue.errors import EngineError, VerificationError
from fedvalue.federated.options import Gram, ProtocolOptions
from fedvalue.federated.warm_up import warm_up
from fedvalue.simulation.children import Child, Children, wait_until
from fedvalue.simulation.local_consortium import LocalConsortium, Source, build
from fedvalue.storage.durable_files import storage_errors
from fedvalue.valuation.result import Valuation
from fedvalue.valuation.settings import ValuationSettings

Say = Callable[[str, str], None]
"""Called with (participant, message), to show progress."""

TASK = "bank"
PARTIES = ("telco", "shop", "insurer", "utility")
ID, LABEL = "customer", "defaulted"
TERMS: Mapping[str, Mapping[str, Any]] = {"mirror": {}, "gram": {"protocol": "gram", "epsilon": "1"}}
"""Protocols of the demonstration, and the terms that each needs."""
_CHEATS = {
    "mirror": "the computation server will add 0.01 nats to one party and take them from another",
    "gram": "the computation server will add five persons to one sum",
}
# Participant and message after which a fault kills it: in key agreement everybody depends on all others.
_KILLED_AT: Mapping[str | None, tuple[str, str]] = {
    "kill-party": ("shop", "wrapping"),
    "kill-server": ("compute", "stage keying"),
}
_START_SECONDS = 120.0
_RUN_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class Demonstration:
    """How a demonstration ended.

    Args:
        valuation: The task party's result; None when a cheat was detected.
        checks: Sentences about the checks at the end.
        detected: The error code of each party, when a server cheated.
    """

    valuation: Valuation | None
    checks: tuple[str, ...] = ()
    detected: Mapping[str, str] = field(default_factory=dict)


def demonstrate(
    root: Path, output: Path, say: Say, *, fault: str | None = None, protocol: str = "mirror"
) -> Demonstration:
    """Run the demonstration.

    Args:
        root: Folder for the participants' folders.
        output: Folder for result.json, report.html and certificate.json.
        say: Called with (participant, message) as things happen.
        fault: The fault to inject: "kill-party", "kill-server" or "cheat".
        protocol: One of `TERMS`.

    Raises:
        EngineError: A process failed.
        VerificationError: A cheat went unnoticed, or an honest run did not give the values of the joined
            table.
    """
    consortium = set_up(root, say, **TERMS[protocol])
    say("demo", "loading the compiled kernels; the first time they are compiled, which takes a while")
    warm_up(values=True)  # once here, instead of in every process side by side
    with Children() as children:
        servers = {
            server.name: _child(children, consortium, server.name)
            for server in consortium.signed.manifest.servers
        }
        parties = {name: _child(children, consortium, name) for name in (TASK, *PARTIES)}
        if fault == "cheat":
            config = consortium.members["compute"].folder / "server.toml"
            servers["compute"].arguments = ["fedvalue.simulation.cheating_server", str(config)]
            say("demo", _CHEATS[protocol])
        for child in (servers | parties).values():
            child.start()
        say("demo", f"started {len(servers)} servers and {len(parties)} parties, each its own process")
        _watch(servers, parties, say, fault)
        if fault == "cheat":
            return Demonstration(None, detected=_detected(parties))
        for name, child in parties.items():
            if child.code != 0:
                raise EngineError(f"{name} ended with {child.code}: {child.errors()[-500:]}")
    return _finished(consortium, output)


def set_up(root: Path, say: Say, **terms: Any) -> LocalConsortium:
    """Identities, cards, a signed manifest and configurations, in folders under `root`."""
    sources: dict[str, Source] = {}
    for name in (TASK, *PARTIES):
        folder = root / name
        folder.mkdir(parents=True)
        table = resources.files("fedvalue.simulation.example") / f"{name}.csv"
        (folder / "table.csv").write_bytes(table.read_bytes())
        sources[name] = Source("table.csv", ID, LABEL if name == TASK else None)
    defaults: dict[str, Any] = {
        "purpose": "Which data would help the bank to foresee defaults? (invented data)",
        "n_samples": 5000,
    }
    consortium = build(root, TASK, sources, **(defaults | terms))
    say("demo", f"{len(consortium.members)} participants signed manifest {consortium.run_id[:12]}")
    return consortium


def central_valuation(settings: ValuationSettings, protocol: ProtocolOptions | None = None) -> Valuation:
    """The valuation of the example tables, joined by id in this process, or with a protocol."""
    from fedvalue.local.value import value_tables
    from fedvalue.tables.sources import read_table

    tables = {}
    for name in (TASK, *PARTIES):
        with resources.as_file(resources.files("fedvalue.simulation.example") / f"{name}.csv") as path:
            tables[name] = read_table(path, text_columns=(ID,)).sort_by(ID)
    bank = tables[TASK]
    return value_tables(
        settings=settings,
        task=bank.drop_columns([ID, LABEL]),
        label=bank.column(LABEL),
        parties={name: tables[name].drop_columns([ID]) for name in PARTIES},
        protocol=protocol,
    )


def _child(children: Children, consortium: LocalConsortium, name: str) -> Child:
    member = consortium.members[name]
    return children.add(Child(name, ["fedvalue", *member.command], member.folder))


def _watch(servers: dict[str, Child], parties: dict[str, Child], say: Say, fault: str | None) -> None:
    """Relay the output of the processes, inject the fault, and wait until all parties have ended."""
    killed = False

    def look() -> bool:
        nonlocal killed
        for name, child in (servers | parties).items():
            for line in child.new_lines():
                message = _readable(line)
                if message:
                    say(name, message)
                if not killed and (name, message) == _KILLED_AT.get(fault):
                    killed = True
                    child.kill()
                    say("demo", f"kill -9 {name}")
                    child.start()
                    say("demo", f"started {name} again with the same command")
        dead = [name for name, child in servers.items() if child.code not in (None, 0)]
        if dead:
            raise EngineError(f"server {dead[0]} ended: {servers[dead[0]].errors()[-500:]}")
        return all(child.code is not None for child in parties.values())

    wait_until(look, _START_SECONDS + _RUN_SECONDS, "the end of the run")


def _readable(line: str) -> str:
    """A log line of a server, or a progress line of a party, as a short message; "" to skip it."""
    if not line.startswith("{"):
        return line
    event = json.loads(line)
    messages = {
        "listening": "listening",
        "recovered": "recovered from its journal",
        "stage": f"stage {event.get('stage')}",
        "stopping": "",
        "stopped": "",
    }
    return messages.get(event["event"], f"{event['event']} {event.get('code', '')}".strip())


def _detected(parties: dict[str, Child]) -> dict[str, str]:
    codes: dict[str, str] = {}
    for name, child in parties.items():
        last = child.errors().rstrip().rpartition("[")[2].rstrip("]")
        if child.code == 0 or not last.startswith("E_"):
            raise VerificationError(f"party {name!r} did not notice the cheating server", code="E_DEMO")
        codes[name] = last
    return codes


def _finished(consortium: LocalConsortium, output: Path) -> Demonstration:
    folder = consortium.members[TASK].folder
    with storage_errors(output):
        output.mkdir(parents=True, exist_ok=True)
        for name in ("result.json", "report.html", "certificate.json"):
            if (folder / name).exists():
                shutil.copyfile(folder / name, output / name)
    valuation = Valuation.from_json(folder / "result.json")
    compare = _compare_noisy if valuation.privacy is not None else _compare
    return Demonstration(valuation, (compare(valuation, consortium.signed.manifest), *_checks(consortium)))


def _compare(valuation: Valuation, manifest: Manifest) -> str:
    """Exact values equal those of the joined table, on the grid."""
    central = central_valuation(manifest.settings).values
    worst = max(abs(value - central[name]) for name, value in valuation.values.items())
    if worst > float(manifest.grid or 1e-9):
        raise VerificationError(f"federated and centralised values differ by {worst:.2g}", code="E_DEMO")
    return f"the centralised values of the joined table are the same on the grid of {manifest.grid} nats"


def _compare_noisy(valuation: Valuation, manifest: Manifest) -> str:
    """Values with noise lie around those of the same estimator without noise."""
    central = central_valuation(manifest.settings, Gram(exact_tables=True))
    inside = 0
    for party in valuation.parties:
        exact, (low, high) = central[party.name].learnable, party.learnable_interval or (0.0, 0.0)
        if exact is None or party.learnable is None or abs(exact - party.learnable) > 2 * (high - low):
            raise VerificationError(f"the value of {party.name!r} is far off", code="E_DEMO")
        inside += low <= exact <= high
    return (
        f"without noise the joined table has values inside the 95% intervals of {inside} of "
        f"{len(valuation.parties)} parties, and none is far off"
    )


def _checks(consortium: LocalConsortium) -> list[str]:
    """Certificate and audit logs, as an auditor would check them."""
    from fedvalue.deployment.certificate_check import check_certificate
    from fedvalue.deployment.servers.server_store import read_audit
    from fedvalue.deployment.valuation_certificate import read_certificate
    from fedvalue.identity.audit_log import Receipt, check_receipts, read_log

    certificate = read_certificate(consortium.members[TASK].folder / "certificate.json")
    sentences = list(check_certificate(certificate).proved)
    receipts = []
    for name in (TASK, *PARTIES):
        path = consortium.members[name].folder / "state" / f"receipts-{consortium.run_id[:12]}.jsonl"
        receipts += [Receipt.from_line(line) for line in path.read_text().splitlines()]
    for server in consortium.signed.manifest.servers:
        state = consortium.members[server.name].folder / "state"
        entries = read_log(read_audit(state, consortium.signed.run_id), server.sign_key)
        agreed = check_receipts(entries, receipts, server.sign_key)
        sentences.append(
            f"audit log of {server.name}: {len(entries)} entries unbroken, {agreed} receipts of parties agree"
        )
    return sentences
