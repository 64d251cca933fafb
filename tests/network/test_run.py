"""Whole runs over mutual TLS on loopback, servers and parties in threads of the test."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from collections.abc import Mapping
from typing import Any

import pytest

import fedvalue
from fedvalue.agreement.run_settings import terms_of
from fedvalue.reports.view import view
from tests.support.certificates import check, resigned
from tests.support.databases import opened
from tests.support.processes import PATIENCE, files_in, until
from tests.support.town import TASK, Town, ended_well, values_of

pytestmark = pytest.mark.network


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """One honest mirror run that several tests look at."""
    town = Town(tmp_path_factory.mktemp("mirror"), parties=("telco", "shop", "insurer", "utility")).start()
    ends = town.join()
    yield town, ends
    town.stop()


def test_every_party_ends_well_and_the_values_are_the_centralised_ones(finished):
    """Item 1 over the network: the naive twin's values on the grid, and they add up to a few steps."""
    town, ends = finished
    assert ended_well(ends), ends
    found = values_of(town.result())
    assert found == pytest.approx(town.values, abs=1e-9)
    assert sum(found.values()) == pytest.approx(town.result()["total"], abs=3e-4)


def by_names(result: Mapping[str, Any]) -> dict[str, Any]:
    """What the learnable game says, by the names of parties: results list them in different orders."""
    names = [party["name"] for party in result["parties"]]
    games = result["coalitions"]["learnable"]
    members = {mask: frozenset(n for k, n in enumerate(names) if mask >> k & 1) for mask in range(len(games))}
    metrics = ("log_loss", "accuracy", "auc", "ks", "errors_avoided_per_1000")
    for row in result["uplift"]:
        low, high = row["ks_gain_interval"]
        assert low <= high
    return {
        "learnable": {party["name"]: party["learnable"] for party in result["parties"]},
        "total": result["learnable_total"],
        "coalitions": {members[mask]: value for mask, value in enumerate(games)},
        "interactions": {
            frozenset((a, b)): result["interactions"][i][j]
            for i, a in enumerate(names)
            for j, b in enumerate(names)
        },
        "uplift": {
            (row["role"], frozenset(row["parties"])): {key: row[key] for key in metrics}
            for row in result["uplift"]
        },
    }


def test_learnable_values_interactions_coalitions_and_uplift_are_the_plain_ones_on_the_grid(finished):
    town, _ = finished
    text = {name: [f"v{code}" for code in codes] for name, codes in town.codes.items()}
    plain = fedvalue.value(
        label=text["label"],
        task={"x": text["task"]},
        parties={name: {"x": text[name]} for name in town.parties},
    )
    grid = terms_of(town.consortium.signed.manifest).release_grid
    deployed, expected = by_names(town.result()), by_names(grid.rounded(plain.to_dict()))
    assert set(town.result()["coalitions"]) == {"learnable"}
    for what, numbers in expected.items():
        if what == "uplift":
            assert deployed[what].keys() == numbers.keys()
            for row, metrics in numbers.items():
                assert deployed[what][row] == pytest.approx(metrics, abs=1e-9), row
        else:
            assert deployed[what] == pytest.approx(numbers, abs=1e-9), what


def test_the_log_of_a_server_names_every_party_that_joins_once(finished):
    town, _ = finished
    for server in ("compute", "validate"):
        joined = [line["peer"] for line in town.log(server) if line["event"] == "joined"]
        assert sorted(name for name in joined if name != "compute") == sorted((TASK, *town.parties))


def test_a_data_party_learns_its_own_value_and_the_total_only(finished):
    town, ends = finished
    share = json.loads((town.member("telco").folder / "result.json").read_bytes())
    (own,) = share.pop("parties")
    assert own["name"] == "telco"
    whole = town.result()
    (same,) = (party for party in whole["parties"] if party["name"] == "telco")
    step = terms_of(town.consortium.signed.manifest).share_step(whole["n_samples"])
    for mine, exact in (
        (own["learnable"], same["learnable"]),
        (share["learnable_total"], whole["learnable_total"]),
    ):
        assert mine == pytest.approx(float(round(mine / step) * step), abs=1e-12)
        assert abs(mine - exact) < step
    assert own["learnable_interval"][0] <= same["learnable_interval"][0]
    assert own["learnable_interval"][1] >= same["learnable_interval"][1]
    assert not {"value", "share", "alone", "last", "se_data", "se_sampling"} & set(own)
    assert not {"total", "label_entropy", "interactions", "coalitions", "uplift"} & set(share)
    assert ends["telco"].to_dict() == {**share, "parties": [own]}


def test_a_result_says_where_its_own_table_comes_from_and_how_it_was_coded(finished):
    """Label and own columns of the task party, own columns of a data party; the certificate has none."""
    town, _ = finished
    owned = {TASK: [("label", "y"), ("task", "x")], "telco": [("telco", "x")]}
    for name, columns in owned.items():
        folder = town.member(name).folder
        result = json.loads((folder / "result.json").read_bytes())
        assert [(column["party"], column["name"]) for column in result["columns"]] == columns
        assert [column["kind"] for column in result["columns"] if column["party"] == "label"] in (
            ["class"],
            [],
        )
        origin = result["provenance"]
        (source,) = origin["sources"]
        assert source["sha256"] == hashlib.sha256((folder / "table.csv").read_bytes()).hexdigest()
        assert (source["n_rows"], source.get("party", "")) == (120, "" if name == TASK else name)
        assert origin["software"] == f"fedvalue {fedvalue.__version__}"
        assert dt.datetime.fromisoformat(origin["created"]) <= dt.datetime.now(dt.UTC)
    certificate = json.loads((town.member(TASK).folder / "certificate.json").read_bytes())
    assert not {"columns", "provenance"} & set(certificate["result"])


def test_the_report_names_the_label_and_the_task_partys_columns(finished):
    town, ends = finished
    shown = view(ends[TASK])
    assert shown.title.endswith("for predicting “y”")
    assert dict(shown.asked)["Known already"] == "the column x"
    assert dict(shown.asked)["File"].startswith(str(town.member(TASK).folder / "table.csv"))
    assert [(column.party, column.name) for column in shown.columns] == [("label", "y"), ("task", "x")]
    assert shown.columns_note.startswith("Each data party read and coded its columns at home.")


def test_results_are_for_their_owner_only(finished):
    """Values that were sealed for one party are not for everybody who has an account on its machine."""
    town, _ = finished
    written = [town.member(name).folder / "result.json" for name in (TASK, *town.parties)]
    written.append(town.member(TASK).folder / "certificate.json")
    assert {path.stat().st_mode & 0o777 for path in written} == {0o600}


def test_the_same_command_again_gives_the_same_bytes(finished):
    """Item 26: never two results."""
    town, ends = finished
    again = town.join()
    assert {name: end.to_json() for name, end in again.items()} == {
        name: end.to_json() for name, end in ends.items()
    }


def test_secrets_and_uploads_are_gone_after_the_run(finished):
    """PURGED: no seed at the parties, no chunk at the servers."""
    town, _ = finished
    for name in (TASK, *town.parties):
        with opened(town.member(name).folder / "state" / "party.sqlite") as db:
            assert db.execute("SELECT seed FROM runs").fetchall() == [(b"",)]
            assert db.execute("SELECT count(*) FROM inbox").fetchone() == (0,)

    def uploads(name: str) -> int:
        state = town.member(name).folder / "state"
        with opened(state / "server.sqlite") as db:
            (kept,) = db.execute("SELECT count(*) FROM inbox WHERE length(body) > 0").fetchone()
        return kept + len(files_in(state / "spool"))

    for name in ("compute", "validate"):  # which end a little later than the parties
        until(lambda name=name: uploads(name) == 0, what=f"the purge at {name}")


@pytest.mark.parametrize(
    "terms",
    [
        {"protocol": "mirror", "policy": "counts"},
        {"protocol": "paper", "policy": "counts", "q": 2, "n_r": "random:3"},
        {"protocol": "single", "policy": "counts", "research": True},
    ],
    ids=lambda terms: "-".join(str(one) for one in terms.values()),
)
def test_other_protocols_and_policies_give_the_same_values(tmp_path, terms):
    """Item 1 over the network, for the paper's two protocols and for policy counts."""
    accept = 'protocols = ["mirror", "paper", "single"]\npolicies = ["valuation", "counts"]\nresearch = true'
    town = Town(tmp_path, accept=accept, **terms).start()
    try:
        ends = town.join()
        assert ended_well(ends), ends
        assert values_of(town.result()) == pytest.approx(town.values, abs=1e-9)
    finally:
        town.stop()


def test_a_run_of_sampled_values_states_its_parameters(tmp_path):
    town = Town(tmp_path, method="sampled", n_permutations=50, seed=7).start()
    try:
        town.join()
        result = town.result()
    finally:
        town.stop()
    assert (result["method"], result["n_permutations"], result["seed"]) == ("sampled", 50, 7)
    assert result["total"] == pytest.approx(sum(town.values.values()), abs=2e-4)


def test_a_shared_key_file_replaces_the_key_agreement_and_must_be_private(tmp_path):
    """--psk, for tests and air-gapped use."""
    import threading

    from fedvalue.deployment.config import read_party_config
    from fedvalue.deployment.parties.party_process import take_part
    from fedvalue.errors import ConfigError

    town = Town(tmp_path, n=100, parties=("telco",)).start()
    psk = tmp_path / "psk"
    psk.write_bytes(bytes(range(32)))
    psk.chmod(0o644)
    configs = {name: read_party_config(town.member(name).folder / "party.toml") for name in (TASK, "telco")}
    try:
        with pytest.raises(ConfigError, match="0644"):
            take_part(configs[TASK], "task", lambda stage, words: None, psk)
        psk.chmod(0o600)
        other = threading.Thread(target=take_part, args=(configs["telco"], "data", lambda *_: None, psk))
        other.start()
        take_part(configs[TASK], "task", lambda stage, words: None, psk)
        other.join(PATIENCE)
        assert values_of(town.result()) == pytest.approx(town.values, abs=1e-9)
    finally:
        town.stop()


def test_certificate_and_logs_of_the_run_check_offline(finished):
    from fedvalue.deployment.certificate_check import check_certificate
    from fedvalue.deployment.valuation_certificate import read_certificate
    from fedvalue.identity.audit_log import Receipt, check_receipts, read_log

    town, _ = finished
    certificate = read_certificate(town.member(TASK).folder / "certificate.json")
    said = check_certificate(certificate).proved
    assert certificate.manifest.run_id == town.run_id
    assert "server 'compute' computed and signed these values" in said
    assert "server 'validate' computed and signed these values" in said
    short = town.run_id.hex()[:12]
    for party in (TASK, *town.parties):
        folder = town.member(party).folder / "state"
        own = read_log(
            (folder / f"audit-{short}.jsonl").read_text().splitlines(),
            town.member(party).identity.card.sign_key,
        )
        assert own[-1].event == "done"
        receipts = [
            Receipt.from_line(line) for line in (folder / f"receipts-{short}.jsonl").read_text().splitlines()
        ]
        for server in ("compute", "validate"):
            key = town.member(server).identity.card.sign_key
            entries = read_log(town.servers[server][0].audit(town.run_id), key)
            assert check_receipts(entries, receipts, key) > 0


def _tampered(data, path, change):
    data = json.loads(json.dumps(data))
    where = data
    for key in path[:-1]:
        where = where[key]
    where[path[-1]] = change(where[path[-1]])
    return data


def _flip(text):
    return ("B" if text[0] != "B" else "C") + text[1:]


@pytest.mark.parametrize(
    ("path", "change", "code"),
    [
        (("result", "parties", 0, "value"), lambda value: value + 1e-6, "E_MIRROR"),
        (("result", "total"), lambda value: value * 2, "E_MIRROR"),
        (("result", "run_id"), _flip, "E_REPLAY"),
        (("manifest", "manifest", "purpose"), lambda text: text + "!", "E_MANIFEST"),
        (("manifest", "signatures", "telco"), _flip, "E_MANIFEST"),
        (("servers", "compute", "signature"), _flip, "E_SIGNATURE"),
        (("servers", "validate", "result", 0), _flip, "E_SIGNATURE"),
        (("readies", 0, -2), _flip, "E_SIGNATURE"),  # the commitment to its input
        (("signature",), _flip, "E_SIGNATURE"),
        (("order",), lambda order: order[::-1], "E_CERTIFICATE"),
    ],
)
def test_a_tampered_certificate_is_refused(finished, path, change, code):
    """Whatever the task party changes, it signs: what the others signed contradicts it."""
    from fedvalue.errors import FedValueError

    town, _ = finished
    data = json.loads((town.member(TASK).folder / "certificate.json").read_bytes())
    check(data)
    tampered = _tampered(data, path, change)
    if path != ("signature",):
        tampered = resigned(tampered, town.member(TASK).identity)
    with pytest.raises(FedValueError) as caught:
        check(tampered)
    assert caught.value.code == code


def test_a_certificate_with_values_that_the_servers_did_not_sign_is_refused_even_when_signed_anew(finished):
    """The task party itself cannot change a value: the servers' signed results contradict it."""
    from fedvalue.errors import VerificationError

    town, _ = finished
    data = json.loads((town.member(TASK).folder / "certificate.json").read_bytes())
    first, second = data["result"]["parties"][:2]
    first["value"], second["value"] = first["value"] + 0.1, second["value"] - 0.1
    with pytest.raises(VerificationError, match="signed other values"):
        check(resigned(data, town.member(TASK).identity))
